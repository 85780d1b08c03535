"""Checks of `mcp-proxy`, in whichever way a package starts it."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from project import NAME, manifest  # noqa: E402

TIMEOUT = 60
PAUSE = 0.3
# Without a home directory, a language or settings of a proxy; `chroot` is found by its path.
BARE = {"PATH": os.environ["PATH"]}
# Bytes that a wrapper which decodes text, or looks for the ends of lines, would change.
TEXT = "a \u2028 \U0001f600 \\ \r\n \x7f"


class Failed(Exception):
    pass


def expect(condition: bool, message: str) -> None:
    if not condition:
        raise Failed(message)


class Program:
    """A command that starts `mcp-proxy`."""

    def __init__(self, *command: str | Path, **options):
        self.command = [str(word) for word in command]
        self.options = options

    def run(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess:
        command = [*self.command, *arguments]
        return subprocess.run(
            command, input=stdin, capture_output=True, encoding="utf-8", timeout=TIMEOUT, **self.options
        )

    def start(self, *arguments: str) -> subprocess.Popen:
        pipe = subprocess.PIPE
        command = [*self.command, *arguments]
        return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, encoding="utf-8", **self.options)

    def check_version(self) -> None:
        done = self.run("--version")
        wanted = f"{NAME} {manifest()['version']}\n"
        expect((done.returncode, done.stdout) == (0, wanted), f"--version: {done}")

    def check_exit_codes(self) -> None:
        """An invalid option is a usage error; a server that is not there is a failure."""
        done = self.run("--no-such-option")
        expect(done.returncode == 2 and "--no-such-option" in done.stderr, f"an invalid option: {done}")
        expect(done.stdout == "", f"stdout is for messages: {done.stdout}")
        done = self.run("--check", "http://127.0.0.1:9/mcp")
        expect(done.returncode == 1, f"--check without a server: {done}")

    def check_bridge(self, url: str, *options: str) -> None:
        """A call passes unchanged through stdin and stdout, and the end of stdin ends the program."""
        messages = [
            initialize(),
            {"jsonrpc": "2.0", "method": "notifications/initialized"},
            request(2, "tools/call", name="echo", arguments={"text": TEXT}),
        ]
        # The output is compared as bytes, hence no `encoding`.
        lines = "".join(json.dumps(message, ensure_ascii=False) + "\n" for message in messages).encode()
        command = [*self.command, *options, url]
        done = subprocess.run(command, input=lines, capture_output=True, timeout=TIMEOUT, **self.options)
        expect(done.returncode == 0, f"{command}: {done}")
        answers = {answer["id"]: answer for answer in map(json.loads, done.stdout.decode().strip("\n").split("\n"))}
        expect("result" in answers.get(1, {}), f"initialize: {done}")
        expect(answers[2].get("result", {}).get("content") == [{"type": "text", "text": TEXT}], f"tools/call: {done}")

    def check_refused(self, url: str, text: str) -> None:
        """The server cannot be used, and the reason contains the text."""
        done = self.run("--check", url)
        expect(done.returncode == 1 and text in done.stdout + done.stderr, f"{url}: {done}")

    def check_signal(self, url: str, number: signal.Signals, code: int) -> None:
        """A signal to the command ends the program in order, although its stdin stays open."""
        process = self.start(url)
        try:
            greet(process)
            # A program that cannot read its stdin ends by itself, in order.
            time.sleep(PAUSE)
            expect(process.poll() is None, f"ended before {number.name} with {process.returncode}")
            process.send_signal(number)
            process.wait(TIMEOUT)
            expect(process.returncode == code, f"{number.name}: exit code {process.returncode}, not {code}")
        finally:
            process.kill()
            process.wait()


def request(number: int, method: str, **params) -> dict:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def initialize() -> dict:
    client = {"name": "client", "version": "1"}
    return request(1, "initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=client)


def greet(process: subprocess.Popen) -> None:
    """Waits until the program is connected."""
    process.stdin.write(json.dumps(initialize()) + "\n")
    process.stdin.flush()
    line = process.stdout.readline()
    expect('"result"' in line, f"initialize has no result: {line}")


def main(check) -> int:
    """Runs a check, and reports what failed."""
    try:
        check(*sys.argv[1:])
    except Failed as failed:
        print(f"FAILED: {failed}", file=sys.stderr)
        return 1
    return 0


def children(pid: int) -> list[int]:
    """The processes that a process has started, directly or not (Linux)."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                parent = int(Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            if parent == pid:
                found += [int(entry), *children(int(entry))]
    return found
