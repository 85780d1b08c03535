"""The way of an operator from the Debian package to a gateway for two users, as docs/gateway.md describes it."""

import json
import re
import secrets
import shlex
import shutil
import signal
import socket
import subprocess
import time
import urllib.request
from pathlib import Path
from threading import Event, Thread

from peers import HOST, HttpServer, Tools
from program import BARE, TIMEOUT, Program, expect, initialize, request

USERS = ["ada", "bob"]
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
AUDIT = "run/mcp-proxy/audit.jsonl"


class SlowTools(Tools):
    """Answers a call whose text is `slow` when `is_released` is set."""

    is_called = Event()
    is_released = Event()

    def do_POST(self):
        body = self.rfile.peek()
        if b'"slow"' in body:
            self.is_called.set()
            self.is_released.wait(TIMEOUT)
        super().do_POST()


class Editor:
    """An editor that starts the installed program before the gateway."""

    def __init__(self, root: Path, url: str, token: str):
        program = Program("chroot", root, "/usr/bin/mcp-proxy", env=BARE | {"TOKEN": token})
        self.process = program.start("--bearer-env", "TOKEN", url)
        self.last = 0
        answer = self.answer(self.send(initialize() | {"id": 0}))
        expect("result" in answer, f"initialize: {answer}")
        self.process.stdin.write('{"jsonrpc":"2.0","method":"notifications/initialized"}\n')

    def send(self, message: dict) -> int:
        self.last = message["id"]
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()
        return self.last

    def answer(self, number: int) -> dict:
        while line := self.process.stdout.readline():
            if (message := json.loads(line)).get("id") == number:
                return message
        raise AssertionError(f"the program has ended: {self.process.stderr.read()}")

    def begin(self, tool: str, text: str) -> int:
        meta = {"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"}
        return self.send(request(self.last + 1, "tools/call", name=tool, arguments={"text": text}, _meta=meta))

    def call(self, tool: str, text: str) -> str:
        return self.text(self.answer(self.begin(tool, text)))

    @staticmethod
    def text(answer: dict) -> str:
        result = answer.get("result") or answer["error"]
        return result["content"][0]["text"] if "content" in result else result["message"]


class Service:
    """The process of the unit, with what `systemctl` runs of it."""

    def __init__(self, root: Path, unit: str, variables: dict[str, str], options: str):
        self.root, self.unit, self.options = root, unit, options
        self.variables = BARE | variables
        self.lines: list[str] = []

    def commands(self, name: str) -> list[str]:
        found = re.findall(f"^{name}=(.*)$", self.unit, re.MULTILINE)
        return [line.replace("%t", "/run").replace("$OPTIONS", self.options) for line in found]

    def copy(self, line: str) -> None:
        """Runs a command that copies the configuration, in the root of the package."""
        program, *words = shlex.split(line.removeprefix("+"))
        subprocess.run([program, *(f"{self.root}{word}" if word.startswith("/") else word for word in words)], check=True)

    def start(self) -> None:
        (before,), (line,) = self.commands("ExecStartPre"), self.commands("ExecStart")
        self.copy(before)
        self.process = Program("chroot", self.root, *shlex.split(line), env=self.variables).start()
        Thread(target=lambda log: self.lines.extend(log), args=[self.process.stderr], daemon=True).start()
        self.wait_for("serves all")

    def reload(self) -> None:
        copy, hang_up = self.commands("ExecReload")
        expect(hang_up == "/bin/kill -HUP $MAINPID", hang_up)
        self.copy(copy)
        self.process.send_signal(signal.SIGHUP)

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        expect(self.process.wait(TIMEOUT) == 0, f"SIGTERM: {self.process.returncode}")

    def wait_for(self, text: str) -> str:
        until = time.monotonic() + TIMEOUT
        while not (found := [line for line in self.lines if text in line]):
            expect(time.monotonic() < until and self.process.poll() is None, f"{text} is not in {self.lines}")
            time.sleep(0.02)
        return found[-1]


def free_port() -> int:
    with socket.socket() as free:
        free.bind((HOST, 0))
        return free.getsockname()[1]


def check_team(root: Path, unit: str, upgrade) -> None:
    """Three servers and two users: a call is in log, metrics and audit; a change of the file and an upgrade of the package, which
    `upgrade` makes, break nothing."""
    port = free_port()
    tokens = {user: secrets.token_hex(32) for user in USERS}
    file = root / "etc/mcp-proxy/servers.json"
    with HttpServer(SlowTools) as server:
        remote = f"http://{HOST}:{server.port}/mcp"
        configuration = {
            "serve": {
                "metrics": True,
                "logLevel": "info",
                "logFormat": "json",
                "audit": f"/{AUDIT}",
                "tokens": {user: f"${{{user.upper()}_TOKEN}}" for user in USERS},
            },
            "mcpServers": {
                "time": {"command": "/usr/bin/mcp-proxy", "args": [remote]},
                "issues": {"command": "/usr/bin/mcp-proxy", "args": [remote], "tools": {"deny": ["delete_*"]}},
                "search": {"url": remote, "headers": {"X-Api-Key": "${SEARCH_KEY}"}},
            },
        }
        file.write_text(json.dumps(configuration))
        variables = {f"{user.upper()}_TOKEN": token for user, token in tokens.items()} | {"SEARCH_KEY": "search-key"}
        service = Service(root, unit, variables, f"--listen {HOST}:{port}")
        checked = Program("chroot", root, "/usr/bin/mcp-proxy", env=service.variables)
        done = checked.run("serve", "--config", "/etc/mcp-proxy/servers.json", "--check-config")
        expect(done.returncode == 0 and done.stdout.count(": fine") == 4, f"--check-config: {done}")
        (root / "run/mcp-proxy").mkdir(exist_ok=True)
        service.start()
        try:
            editors = use(root, service, port, tokens)
            change(service, file, configuration, editors)
            restart(service, editors, upgrade)
            for editor in editors.values():
                editor.process.stdin.close()
                expect(editor.process.wait(TIMEOUT) == 0, f"an editor: {editor.process.stderr.read()}")
            service.stop()
        finally:
            service.process.kill()
            service.process.wait()
            file.unlink()
            shutil.rmtree(root / "run/mcp-proxy")
        secret = [*tokens.values(), "search-key"]
        shown = "".join(service.lines)
        expect(not any(value in shown for value in secret), "the log has a secret")
    print("a gateway for a team: three servers, two users, a changed file, and an upgrade with editors connected")


def use(root: Path, service: Service, port: int, tokens: dict[str, str]) -> dict[str, Editor]:
    """Each user calls a tool; the call is in the log, the metrics and the audit."""
    at = {"ada": "/time/mcp", "bob": "/mcp"}
    editors = {user: Editor(root, f"http://{HOST}:{port}{at[user]}", tokens[user]) for user in USERS}
    expect(editors["ada"].call("echo", "of ada") == "of ada", "a call at a server")
    expect(editors["bob"].call("search__echo", "of bob") == "of bob", "a call at all servers as one")
    for user, server, tool in [("ada", "time", "echo"), ("bob", "/mcp", "search__echo")]:
        service.wait_for(f'"gen_ai.tool.name":"{tool}"')
        in_log = [json.loads(line) for line in service.lines if f'"gen_ai.tool.name":"{tool}"' in line]
        in_audit = [json.loads(line) for line in (root / AUDIT).read_text().splitlines() if f'"{tool}"' in line]
        for line in [*in_log, *in_audit]:
            found = line["user.id"], line["server"], line["outcome"], line["trace_id"]
            expect(found == (user, server, "result", TRACE), f"a call: {line}")
        expect(len(in_log) == len(in_audit) == 1, f"{tool}: {in_log}, {in_audit}")
    counts = metric(port, "mcp_server_operation_duration_seconds_count")
    for server, tool in [("time", "echo"), ("/mcp", "search__echo")]:
        of_tool = [line for line in counts if f'server="{server}"' in line and f'target="{tool}"' in line]
        expect(len(of_tool) == 1 and of_tool[0].endswith(" 1"), f"{tool}: {counts}")
    return editors


def change(service: Service, file: Path, configuration: dict, editors: dict[str, Editor]) -> None:
    """What is not changed goes on while the file changes; a mistake in it changes nothing."""
    expect(editors["bob"].call("issues__echo", "allowed") == "allowed", "before the change")
    connected = [line for line in service.lines if "connected to" in line]
    file.write_text("{")
    service.reload()
    service.wait_for("line 1: ")
    configuration["mcpServers"]["issues"]["tools"] = {"deny": ["echo"]}
    file.write_text(json.dumps(configuration))
    service.reload()
    until = time.monotonic() + TIMEOUT
    while (text := editors["bob"].call("issues__echo", "allowed")) == "allowed":
        expect(time.monotonic() < until, "a tool that is denied since the change is called")
        time.sleep(0.05)
    expect("not available" in text, f"a denied tool: {text}")
    expect(editors["bob"].call("search__echo", "goes on") == "goes on", "after the change")
    expect(editors["ada"].call("echo", "goes on") == "goes on", "after the change")
    again = [line for line in service.lines if "connected to" in line]
    expect(again == connected, f"a change of filters has started a server again: {again}")


def metric(port: int, name: str) -> list[str]:
    """The lines of a metric."""
    page = urllib.request.urlopen(f"http://{HOST}:{port}/metrics").read().decode()
    found = sorted(line for line in page.splitlines() if line.startswith(name))
    expect(len(found) > 0, f"{name} is not in {page}")
    return found


def restart(service: Service, editors: dict[str, Editor], upgrade) -> None:
    """A call in progress is answered, and the next ones are those of the new version, without an error."""
    number = editors["ada"].begin("echo", "slow")
    expect(SlowTools.is_called.wait(TIMEOUT), "the call has not arrived")
    upgrade()
    service.process.send_signal(signal.SIGTERM)
    time.sleep(0.5)
    SlowTools.is_released.set()
    answer = editors["ada"].answer(number)
    expect(Editor.text(answer) == "slow", f"a call during the restart: {answer}")
    expect(service.process.wait(TIMEOUT) == 0, f"SIGTERM: {service.process.returncode}")
    service.lines.clear()
    service.start()
    for user, tool in [("ada", "echo"), ("bob", "search__echo")]:
        expect(editors[user].call(tool, "again") == "again", f"the next call of {user} after the restart")
