"""The proxy under test, with the driver as the editor in front of it."""

from __future__ import annotations

import contextlib
import json
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import processes

Params = dict[str, Any]
Id = str | int

#: How long an ordinary answer may take; generous, because the machine may be busy.
PATIENCE = 15.0


class Failure(Exception):
    """A check that did not hold."""


def expect(condition: bool, message: str) -> None:
    if not condition:
        raise Failure(message)


def shorten(text: str, length: int = 400) -> str:
    return text if len(text) <= length else f"{text[:length]}… ({len(text)} characters)"


def key_of(request_id: Id) -> str:
    """Tells the string "1" from the number 1."""
    return json.dumps(request_id)


def fault_of(message: object) -> str | None:
    """Why this is no JSON-RPC message, if it is none."""
    if not isinstance(message, dict):
        return "no JSON object"
    if message.get("jsonrpc") != "2.0":
        return "no jsonrpc 2.0"
    has_id, id_kind = "id" in message, type(message.get("id"))
    if "method" in message:
        if not isinstance(message["method"], str):
            return "the method is no string"
        if "result" in message or "error" in message:
            return "a method with an outcome"
        if has_id and id_kind not in (str, int):
            return "the id of a request is neither a string nor an integer"
        if not isinstance(message.get("params", {}), (dict, list)):
            return "params are neither an object nor an array"
        return None
    if not has_id or id_kind not in (str, int):
        return "an answer without an id"
    if ("result" in message) == ("error" in message):
        return "neither or both of result and error"
    if "error" in message:
        error = message["error"]
        if not isinstance(error, dict) or type(error.get("code")) is not int or type(error.get("message")) is not str:
            return "a malformed error"
    elif not isinstance(message["result"], dict):
        return "the result is no object"
    return None


@dataclass(frozen=True)
class Received:
    """A message from the proxy, with its place among all of them."""

    position: int
    at: float
    message: Params

    @property
    def result(self) -> Params:
        expect("result" in self.message, f"an error instead of a result: {shorten(json.dumps(self.message))}")
        return self.message["result"]

    @property
    def error(self) -> Params:
        expect("error" in self.message, f"a result instead of an error: {shorten(json.dumps(self.message))}")
        return self.message["error"]


class Proxy:
    """One running process.

    A thread reads every line that the process writes, checks it, and answers what the server asks.
    """

    def __init__(
        self,
        command: list[str],
        answers: dict[str, Callable[[Params], Params]],
        environment: dict[str, str] | None = None,
    ) -> None:
        self.started = time.monotonic()
        self._answers = answers
        self._lock = threading.Condition()
        self._writing = threading.Lock()
        self._open: dict[str, str] = {}
        self._cancelled: set[str] = set()
        self._responses: dict[str, Received] = {}
        self._others: list[Received] = []
        self._count = 0
        self._next_id = 100
        self._ended = False
        self.faults: list[str] = []
        self._transcript: list[str] = []
        self._process = processes.start(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment or processes.environment(),
        )
        self._threads = [threading.Thread(target=read, daemon=True) for read in (self._read, self._read_log)]
        for thread in self._threads:
            thread.start()

    # What the editor writes.

    def _write(self, message: Params) -> None:
        line = json.dumps(message, separators=(",", ":"))
        self._note("editor", line)
        with self._writing:
            assert self._process.stdin is not None
            try:
                self._process.stdin.write(line.encode() + b"\n")
                self._process.stdin.flush()
            except (OSError, ValueError) as error:
                raise Failure(f"the proxy does not read: {error}") from error

    def notify(self, method: str, params: Params | None = None) -> None:
        message: Params = {"jsonrpc": "2.0", "method": method}
        self._write(message if params is None else message | {"params": params})

    def send(self, method: str, params: Params | None = None, request_id: Id | None = None) -> Id:
        """Sends a request and returns its id."""
        with self._lock:
            if request_id is None:
                self._next_id += 1
                request_id = self._next_id
            self._open[key_of(request_id)] = method
        message: Params = {"jsonrpc": "2.0", "id": request_id, "method": method}
        self._write(message if params is None else message | {"params": params})
        return request_id

    def cancel(self, request_id: Id) -> None:
        """Cancels a request that is certainly not answered yet; from here on an answer to it is a fault."""
        with self._lock:
            expect(self._open.pop(key_of(request_id), None) is not None, "the call ended before it was cancelled")
            self._cancelled.add(key_of(request_id))
        self.notify("notifications/cancelled", {"requestId": request_id, "reason": "the user lost interest"})

    def end_input(self) -> None:
        with self._writing:
            assert self._process.stdin is not None
            self._process.stdin.close()

    # What the editor reads.

    def is_answered(self, request_id: Id) -> bool:
        with self._lock:
            return key_of(request_id) in self._responses

    def response(self, request_id: Id, patience: float = PATIENCE) -> Received:
        key = key_of(request_id)
        deadline = time.monotonic() + patience
        with self._lock:
            while key not in self._responses:
                rest = deadline - time.monotonic()
                expect(rest > 0, f"request {key} was not answered within {patience} s")
                expect(not self._ended, f"the proxy ended without an answer to request {key}")
                self._lock.wait(min(rest, 1.0))
            return self._responses[key]

    def ask(self, method: str, params: Params | None = None, patience: float = PATIENCE) -> Received:
        return self.response(self.send(method, params), patience)

    def progress(self, token: Id) -> list[Received]:
        """The progress notifications with exactly this token."""
        with self._lock:
            return [
                other
                for other in self._others
                if other.message["method"] == "notifications/progress"
                and key_of(other.message["params"]["progressToken"]) == key_of(token)
            ]

    def asked(self, method: str) -> int:
        """How often the server has asked for this."""
        with self._lock:
            return sum("id" in other.message and other.message["method"] == method for other in self._others)

    def wait_until(self, condition: Callable[[], bool], what: str, patience: float = PATIENCE) -> None:
        deadline = time.monotonic() + patience
        while not condition():
            expect(time.monotonic() < deadline, f"{what} did not happen within {patience} s")
            time.sleep(0.01)

    # The end.

    def kill(self) -> None:
        """Ends the process at once, as a crash does."""
        processes.kill(self._process)

    def wait_for_end(self, patience: float) -> int:
        """The exit code, once everything that was written has been read."""
        try:
            code = self._process.wait(patience)
        except subprocess.TimeoutExpired:
            raise Failure(f"the proxy did not end within {patience} s") from None
        for thread in self._threads:
            thread.join(PATIENCE)
        return code

    def finish(self) -> None:
        """Ends the process if it still runs, whatever it does."""
        processes.kill(self._process)
        for thread in self._threads:
            thread.join(PATIENCE)
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            assert pipe is not None
            # Closing stdin writes what is left in its buffer.
            with contextlib.suppress(OSError):
                pipe.close()

    def unanswered(self) -> list[str]:
        with self._lock:
            return [f"{method} with id {key}" for key, method in self._open.items()]

    def transcript(self, lines: int) -> list[str]:
        with self._lock:
            return self._transcript[-lines:]

    # The threads.

    def _note(self, who: str, line: str) -> None:
        with self._lock:
            self._transcript.append(f"{time.monotonic() - self.started:8.3f} {who:6} {shorten(line)}")

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._take(line)
        with self._lock:
            self._ended = True
            self._lock.notify_all()

    def _read_log(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._note("log", line.decode(errors="replace").rstrip())

    def _fault(self, what: str, line: bytes) -> None:
        with self._lock:
            self.faults.append(f"{what}: {shorten(line.decode(errors='replace'))}")

    def _take(self, line: bytes) -> None:
        self._note("proxy", line[:1000].decode(errors="replace").rstrip())
        if not line.endswith(b"\n") or b"\r" in line:
            self._fault("a line that does not end in LF alone", line)
        try:
            message = json.loads(line)
        except ValueError as error:
            self._fault(f"no JSON ({error})", line)
            return
        fault = fault_of(message)
        if fault is not None:
            self._fault(fault, line)
            return
        with self._lock:
            received = Received(self._count, time.monotonic(), message)
            self._count += 1
            if "method" in message:
                self._others.append(received)
            else:
                self._take_response(received, line)
            self._lock.notify_all()
        if "method" in message and "id" in message:
            self._answer(message)

    def _take_response(self, received: Received, line: bytes) -> None:
        key = key_of(received.message["id"])
        if self._open.pop(key, None) is not None:
            self._responses[key] = received
        elif key in self._responses:
            self._fault("a second answer", line)
        elif key in self._cancelled:
            self._fault("an answer to a cancelled request", line)
        else:
            self._fault("an answer to a request that was never made", line)

    def _answer(self, request: Params) -> None:
        head: Params = {"jsonrpc": "2.0", "id": request["id"]}
        answer = self._answers.get(request["method"])
        if answer is None:
            outcome: Params = {"error": {"code": -32601, "message": "the driver does not offer this"}}
        else:
            outcome = {"result": answer(request.get("params", {}))}
        # Input may have ended, or the process.
        with contextlib.suppress(Failure):
            self._write(head | outcome)
