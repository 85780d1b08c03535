"""What a cell works with: an authorization server and a protected server, a store of tokens, and a person's windows."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import processes
from authorization.browser import Browser, Page
from checks import expect_text
from proxy import Failure, Params, Proxy, Received, expect
from servers import START_PATIENCE, Call, free_port, is_open

HERE = Path(__file__).resolve().parent
#: How long a window, or a call whose sign-in has ended, may take; generous, because the machine may be busy.
PATIENCE = 30.0
#: How long no window must be opened for it to count as none.
QUIET = 1.5
REVISION = "2025-11-25"


@dataclass(frozen=True)
class Protected:
    """A protected server with its authorization server."""

    url: str
    issuer: str
    call: Call

    def fetch(self, path: str, method: str = "GET") -> bytes:
        request = urllib.request.Request(self.url.removesuffix("/mcp") + path, method=method)
        with urllib.request.urlopen(request, timeout=PATIENCE) as response:
            return response.read()

    def counts(self) -> dict[str, int]:
        """The number of requests of each kind that were answered, of `provider.mjs` only."""
        return json.loads(self.fetch("/counts"))

    def refuse_tokens(self) -> None:
        """Makes the server refuse the access tokens that it has accepted so far, of `provider.mjs` only."""
        self.fetch("/refuse", "POST")


@dataclass
class World:
    """The world of one cell."""

    binary: str
    install: Path
    folder: Path
    browser: Browser
    _started: list[subprocess.Popen[bytes]] = field(default_factory=list)
    _proxies: list[Proxy] = field(default_factory=list)
    _taken_windows: int = 0

    def __post_init__(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        self._windows = self.folder / "windows"
        self._windows.mkdir(parents=True)

    # Servers.

    def start(self, name: str, command: Sequence[str], ports: Sequence[int], **variables: str) -> None:
        """Starts a server, and waits until its ports are open."""
        with (self.folder / f"{name}.log").open("ab") as log:
            process = processes.start(
                list(command),
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=processes.environment() | variables,
            )
        self._started.append(process)
        deadline = time.monotonic() + START_PATIENCE
        while process.poll() is not None or not all(is_open(port) for port in ports):
            if process.poll() is not None or time.monotonic() > deadline:
                text = (self.folder / f"{name}.log").read_text(errors="replace")[-600:]
                raise Failure(f"{name} does not start: {text}")
            time.sleep(0.02)

    def provider(self, **settings: Any) -> Protected:
        """Starts `provider.mjs`."""
        issuer, server = free_port(), free_port()
        folder = str(self.install / "authorization")
        arguments = [folder, str(issuer), str(server), json.dumps(settings)]
        self.start("provider", ["node", str(HERE / "provider.mjs"), *arguments], [issuer, server])
        call = Call("whoami", {}, "Hello, ada!")
        return Protected(f"http://127.0.0.1:{server}/mcp", f"http://127.0.0.1:{issuer}", call)

    # The proxy.

    def environment(self, **variables: str) -> dict[str, str]:
        """That of a person with a screen."""
        own = {
            "DISPLAY": ":0",
            "INTEROP_WINDOWS": str(self._windows),
            "MCP_PROXY_HOME": str(self.folder / "home"),
            "PATH": os.pathsep.join((str(HERE), os.environ.get("PATH", ""))),
        }
        left_out = ("SSH_CONNECTION", "MCP_PROXY_NONINTERACTIVE")
        inherited = {name: value for name, value in processes.environment().items() if name not in left_out}
        return inherited | own | variables

    def editor(self, server: Protected, *options: str, **variables: str) -> Editor:
        """Starts a proxy, with an editor that sends it `initialize`."""
        proxy = Proxy([self.binary, *options, server.url], {}, self.environment(**variables))
        self._proxies.append(proxy)
        return Editor(server, proxy)

    def command(self, name: str, server: Protected, *options: str, **variables: str) -> subprocess.Popen[Any]:
        """Starts a command of the proxy about an account."""
        return processes.start(
            [self.binary, name, *options, server.url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environment(**variables),
        )

    def run(self, name: str, server: Protected, *options: str, code: int = 0) -> str:
        """Runs a command of the proxy to its end, and returns what it printed."""
        return output_of(self.command(name, server, *options), code)

    # The person.

    def windows(self) -> list[Path]:
        """All windows that were opened, in their order."""
        files = [path for path in self._windows.iterdir() if not path.name.startswith(".")]
        return sorted(files, key=lambda path: path.stat().st_mtime_ns)

    def window(self) -> str:
        """Waits for the next window, and returns its URL."""
        wait_until(lambda: len(self.windows()) > self._taken_windows, "a window of the browser")
        url = self.windows()[self._taken_windows].read_text()
        self._taken_windows += 1
        return url

    def sign_in(self, answer: str = "allow") -> Page:
        """Waits for the next window, and signs in there."""
        return self.browser.sign_in(self.window(), answer)

    def expect_windows(self, number: int) -> None:
        """That so many windows were opened, and no other one follows at once."""
        time.sleep(QUIET)
        expect(len(self.windows()) == number, f"{len(self.windows())} windows were opened, instead of {number}")

    def transcript(self, lines: int) -> list[str]:
        """The last lines of what each proxy wrote and read."""
        return [line for proxy in self._proxies for line in ["a proxy:", *proxy.transcript(lines)]]

    def close(self) -> None:
        for proxy in self._proxies:
            proxy.finish()
        for process in self._started:
            processes.kill(process)


@dataclass
class Editor:
    """An editor with its proxy."""

    server: Protected
    proxy: Proxy

    def __post_init__(self) -> None:
        self._client = {"name": "interop", "version": "1.0.0"}
        params: Params = {"protocolVersion": REVISION, "capabilities": {}, "clientInfo": self._client}
        self._initialize = self.proxy.send("initialize", params)

    def wait_until_ready(self) -> None:
        """Waits for the result of `initialize`."""
        self.proxy.response(self._initialize, PATIENCE).result
        self.proxy.notify("notifications/initialized")

    def begin_call(self, call: Call | None = None) -> str | int:
        return self.proxy.send("tools/call", (call or self.server.call).params())

    def call(self, call: Call | None = None) -> None:
        """Makes a call, whose result must be the expected one."""
        self.end_call(self.begin_call(call), call)

    def end_call(self, request: str | int, call: Call | None = None) -> None:
        expect_text(self.proxy.response(request, PATIENCE), call or self.server.call)

    def refusal(self) -> Received:
        """Waits for `initialize` or the first call to fail."""
        answered = self.proxy.response(self._initialize, PATIENCE)
        if "error" in answered.message:
            return answered
        self.proxy.notify("notifications/initialized")
        return self.proxy.response(self.begin_call(), PATIENCE)


def output_of(process: subprocess.Popen[Any], code: int = 0) -> str:
    """Waits for the end of a command, and returns what it printed."""
    try:
        printed, errors = process.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        processes.kill(process)
        raise Failure("the command did not end") from None
    expect(process.returncode == code, f"exit code {process.returncode} instead of {code}: {printed} {errors}")
    return printed


def wait_until(condition: Callable[[], bool], what: str, patience: float = PATIENCE) -> None:
    deadline = time.monotonic() + patience
    while not condition():
        expect(time.monotonic() < deadline, f"{what} did not come within {patience} s")
        time.sleep(0.02)
