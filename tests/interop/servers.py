"""The servers: how each is started, and how it is asked for what the checks look at."""

from __future__ import annotations

import base64
import functools
import gzip
import hashlib
import http.server
import json
import random
import secrets
import socket
import subprocess
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import processes
from proxy import Failure, Params, expect, shorten

HERE = Path(__file__).resolve().parent
REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""Those that begin with a handshake."""
MODERN = "2026-07-28"
TEN_MEGABYTES = 10 << 20
START_PATIENCE = 30.0


_given_ports: set[int] = set()
_giving_ports = threading.Lock()


def free_port() -> int:
    """A port that is free, and was not returned before: its server may not have opened it yet."""
    while True:
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            port: int = listener.getsockname()[1]
        with _giving_ports:
            if port not in _given_ports:
                _given_ports.add(port)
                return port


def is_open(port: int) -> bool:
    """Whether a server listens on the port of this machine."""
    try:
        with socket.create_connection(("localhost", port), timeout=1):
            return True
    except OSError:
        return False


@dataclass(frozen=True)
class Call:
    """A call of a tool, and what the text of its result must contain."""

    name: str
    arguments: Params
    text: str = ""

    def params(self, token: str | int | None = None) -> Params:
        params: Params = {"name": self.name, "arguments": self.arguments}
        return params if token is None else params | {"_meta": {"progressToken": token}}


class Tools(ABC):
    """How the tools of a server are called."""

    @abstractmethod
    def echo(self, text: str) -> Call: ...

    @abstractmethod
    def work(self, seconds: float, steps: int, name: str = "") -> Call:
        """Takes a while, and reports progress after each step."""

    @abstractmethod
    def asking(self, method: str) -> Call:
        """Sends the client a request; the text is what comes back in the result."""

    @abstractmethod
    def failing(self) -> Call:
        """Has a result with `isError`."""

    @abstractmethod
    def big(self) -> Call:
        """Has a result with ten megabytes in it."""

    @abstractmethod
    def check_big(self, content: Params) -> None: ...

    @abstractmethod
    def changing(self) -> tuple[Call, str]:
        """Changes a list, and which one."""

    @abstractmethod
    def touching(self) -> tuple[Call, str]:
        """Updates a resource, and its URI."""

    def was_cancelled(self, name: str) -> Call | None:
        """Tells whether the work with this name was cancelled, if the server can tell."""
        return None


class OwnTools(Tools):
    """The tools in `servers/tools.py`, perhaps behind something that gives them a prefix."""

    SEED = 4711

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix

    def _call(self, name: str, arguments: Params, text: str = "") -> Call:
        return Call(self._prefix + name, arguments, text)

    def echo(self, text: str) -> Call:
        return self._call("echo", {"text": text}, text)

    def work(self, seconds: float, steps: int, name: str = "") -> Call:
        return self._call("work", {"seconds": seconds, "steps": steps, "name": name}, "worked")

    def asking(self, method: str) -> Call:
        return {
            "sampling/createMessage": self._call("ask_sampling", {"prompt": "Hello?"}, SAMPLED_TEXT),
            "roots/list": self._call("ask_roots", {}, ROOT_URI),
            "elicitation/create": self._call("ask_elicitation", {}, f"accept {ELICITED_NAME}"),
        }[method]

    def failing(self) -> Call:
        return self._call("fail", {}, "deliberate")

    def big(self) -> Call:
        return self._call("big", {"size": TEN_MEGABYTES, "seed": self.SEED})

    def check_big(self, content: Params) -> None:
        expect("text" in content, f"no text: {shorten(json.dumps(content))}")
        numbers = random.Random(self.SEED)
        mark = '"\\\n\u2028\u00e9\U0001f680'
        expected = "".join(numbers.randbytes(1 << 19).hex() + mark for _ in range(10))[:TEN_MEGABYTES]
        text = content["text"]
        expect(len(text) == len(expected), f"{len(text)} characters instead of {len(expected)}")
        expect(digest(text.encode()) == digest(expected.encode()), "the text was changed")

    def changing(self) -> tuple[Call, str]:
        return self._call("add_tool", {}, "added"), "tools"

    def touching(self) -> tuple[Call, str]:
        return self._call("touch", {}, "touched"), "interop://board"

    def was_cancelled(self, name: str) -> Call:
        return self._call("was_cancelled", {"name": name})

    # What only these tools do.

    def hang_up(self, seconds: float) -> Call:
        return self._call("hang_up", {"seconds": seconds}, "fetched")

    def resumptions(self) -> Call:
        return self._call("resumptions", {})


class EverythingTools(Tools):
    """The tools of server-everything, perhaps behind something that gives them a prefix."""

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix

    def _call(self, name: str, arguments: Params, text: str = "") -> Call:
        return Call(self._prefix + name, arguments, text)

    def echo(self, text: str) -> Call:
        return self._call("echo", {"message": text}, text)

    def work(self, seconds: float, steps: int, name: str = "") -> Call:
        return self._call("trigger-long-running-operation", {"duration": seconds, "steps": steps}, "completed")

    def asking(self, method: str) -> Call:
        return {
            "sampling/createMessage": self._call("trigger-sampling-request", {"prompt": "Hello?"}, SAMPLED_TEXT),
            "roots/list": self._call("get-roots-list", {}, ROOT_URI),
            "elicitation/create": self._call("trigger-elicitation-request", {}, ELICITED_NAME),
        }[method]

    def failing(self) -> Call:
        return self._call("get-sum", {"a": "no number"})

    def big(self) -> Call:
        arguments = {"name": "noise.gz", "data": NOISE.url(), "outputType": "resource"}
        return self._call("gzip-file-as-resource", arguments)

    def check_big(self, content: Params) -> None:
        expect("resource" in content, f"no resource: {shorten(json.dumps(content))}")
        data = gzip.decompress(base64.b64decode(content["resource"]["blob"], validate=True))
        expect(len(data) == TEN_MEGABYTES, f"{len(data)} bytes instead of {TEN_MEGABYTES}")
        expect(digest(data) == digest(NOISE.data), "the data was changed")

    def changing(self) -> tuple[Call, str]:
        # A file whose name is new is a new resource.
        arguments = {"name": secrets.token_hex(8), "data": "data:text/plain,small"}
        return self._call("gzip-file-as-resource", arguments), "resources"

    def touching(self) -> tuple[Call, str]:
        return self._call("toggle-subscriber-updates", {}, "Started"), "demo://resource/dynamic/text/1"


class HubTools(EverythingTools):
    """The tools of server-everything behind the hub, but for the big one.

    The hub cannot pass on a blob of ten megabytes: its check of the base64 overflows its stack. A text it can.
    """

    def __init__(self) -> None:
        super().__init__("every__")
        self._own = OwnTools("own__")

    def big(self) -> Call:
        return self._own.big()

    def check_big(self, content: Params) -> None:
        self._own.check_big(content)

    def changing(self) -> tuple[Call, str]:
        return self._own.changing()


#: What the driver says when a server asks it.
SAMPLED_TEXT = 'sampled "so" \u2028\u00e9\U0001f680'
ROOT_URI = "file:///interop/root"
ELICITED_NAME = "Ada L."


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class Noise:
    """An HTTP server with ten megabytes that cannot be compressed, for the server that fetches what it returns."""

    def __init__(self) -> None:
        self._server: http.server.ThreadingHTTPServer | None = None
        self._lock = threading.Lock()

    @functools.cached_property
    def data(self) -> bytes:
        return random.Random(4711).randbytes(TEN_MEGABYTES)

    def url(self) -> str:
        with self._lock:
            self._server = self._server or self._serve()
        return f"http://127.0.0.1:{self._server.server_port}/noise"

    def _serve(self) -> http.server.ThreadingHTTPServer:
        data = self.data

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server


NOISE = Noise()


@dataclass
class Server:
    """A server that can be started, killed and started again at the same port."""

    name: str
    path: str
    tools: Tools
    command: Callable[[Path, Path, int], list[str]]
    """Makes the command from the installation, a folder for this server's files, and the port."""
    scheme: str = "http"
    prepare: Callable[[Path, Path], None] = lambda install, folder: None
    """Makes the files that the server needs."""
    health: str = ""
    """A path whose JSON says `"state":"ready"` once the server is up; without one, a connection is enough."""
    highest: str = REVISIONS[-1]
    """The newest handshake revision that it speaks, if any."""
    newest: str = ""
    """The newest revision that it speaks, if that has no handshake."""

    _process: subprocess.Popen[bytes] | None = None

    def launch(self, install: Path, folder: Path) -> None:
        """Prepares and starts it at a free port."""
        self._install, self.folder, self.port = install, folder, free_port()
        folder.mkdir(parents=True, exist_ok=True)
        self.prepare(install, folder)
        self.start()

    def start(self) -> None:
        state = {name: str(self.folder) for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME")}
        with (self.folder / "log.txt").open("ab") as log:
            self._process = processes.start(
                self.command(self._install, self.folder, self.port),
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=processes.environment() | state | {"PORT": str(self.port)},
            )
        deadline = time.monotonic() + START_PATIENCE
        while not self._is_up():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise Failure(f"{self.name} does not start: {self.log_tail()}")
            time.sleep(0.02)

    def kill(self) -> None:
        """Ends it and its children at once, so that no stream ends in good order."""
        if self._process is not None:
            processes.kill(self._process)

    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}{self.path}"

    def revision_for(self, asked: str) -> str:
        return min(asked, self.highest)

    def log_tail(self) -> str:
        return (self.folder / "log.txt").read_text(errors="replace")[-600:]

    def _is_up(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                if not self.health:
                    return True
                connection.sendall(f"GET {self.health} HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n".encode())
                return b'"state":"ready"' in b"".join(iter(lambda: connection.recv(65536), b""))
        except OSError:
            return False


def node(script: str, *arguments: str) -> Callable[[Path, Path, int], list[str]]:
    """The command of a Node server; `{port}` in an argument is its port."""

    def command(install: Path, folder: Path, port: int) -> list[str]:
        program = str(install / "npm" / "node_modules" / script)
        preload = str(HERE / "servers" / "loopback.cjs")
        return ["node", "--require", preload, program, *(argument.format(port=port) for argument in arguments)]

    return command


def python(name: str, mode: str, *files: str) -> Callable[[Path, Path, int], list[str]]:
    """The command of a Python server; the files are names in the server's folder."""

    def command(install: Path, folder: Path, port: int) -> list[str]:
        interpreter = install / name / "bin" / "python"
        script = HERE / "servers" / f"{name.replace('-', '_')}.py"
        return [str(interpreter), "-B", str(script), mode, str(port), *(str(folder / file) for file in files)]

    return command


def typescript_2(mode: str) -> Callable[[Path, Path, int], list[str]]:
    def command(install: Path, folder: Path, port: int) -> list[str]:
        return ["node", str(HERE / "servers" / "typescript_2.mjs"), str(install / "npm"), mode, str(port)]

    return command


def rmcp(mode: str) -> Callable[[Path, Path, int], list[str]]:
    def command(install: Path, folder: Path, port: int) -> list[str]:
        return [str(install / "rmcp" / "rmcp-server"), mode, str(port)]

    return command


EVERYTHING = "@modelcontextprotocol/server-everything/dist/index.js"


def prepare_hub(install: Path, folder: Path) -> None:
    program = str(install / "npm" / "node_modules" / EVERYTHING)
    own = python("python-1", "stdio")(install, folder, 0)
    config = {
        "mcpServers": {
            "every": {"command": "node", "args": [program, "stdio"]},
            "own": {"command": own[0], "args": own[1:]},
        }
    }
    (folder / "hub.json").write_text(json.dumps(config))
    # With a fresh catalogue in its cache, the hub does not fetch one from the internet.
    catalogue = {"registry": {"servers": [{"id": "none"}]}, "lastFetchedAt": int(time.time() * 1000)}
    cache = folder / "mcp-hub" / "cache"
    cache.mkdir(parents=True, exist_ok=True)
    (cache / "registry.json").write_text(json.dumps(catalogue))


def prepare_certificates(install: Path, folder: Path) -> None:
    interpreter = install / "python-2" / "bin" / "python"
    subprocess.run([interpreter, "-B", HERE / "servers" / "certificates.py", folder], check=True)


def all_servers() -> list[Server]:
    own = OwnTools()
    return [
        Server("everything-http", "/mcp", EverythingTools(), node(EVERYTHING, "streamableHttp")),
        Server("everything-sse", "/sse", EverythingTools(), node(EVERYTHING, "sse")),
        Server(
            "mcp-hub",
            "/mcp",
            HubTools(),
            node("mcp-hub/dist/cli.js", "--port", "{port}", "--config", "hub.json"),
            prepare=prepare_hub,
            health="/api/health",
            highest="2025-06-18",
        ),
        Server("python-1-http", "/mcp", own, python("python-1", "http")),
        Server("python-1-sse", "/sse", own, python("python-1", "sse")),
        Server("python-2-http", "/mcp", own, python("python-2", "http"), newest=MODERN),
        Server("python-2-sse", "/sse", own, python("python-2", "sse")),
        Server("python-2-json", "/mcp", own, python("python-2", "json"), newest=MODERN),
        Server("python-2-stateless", "/mcp", own, python("python-2", "stateless"), newest=MODERN),
        Server(
            "tls",
            "/mcp",
            own,
            python("python-2", "http", "server.pem", "server-key.pem"),
            scheme="https",
            prepare=prepare_certificates,
            newest=MODERN,
        ),
    ]
