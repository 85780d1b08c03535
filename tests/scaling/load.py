"""Sessions held, calls per second, processor time and memory, with one and three instances, with and without a store."""

from __future__ import annotations

import json
import socket
import statistics
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fleet import Fleet, own, redis_answers, running
from kill import REVISION
from report import Report

SESSIONS = 2000
CALLS = 6000
#: The connections over which calls are made at once.
CONNECTIONS = 8
ROUNDS = 3


class Connection:
    """HTTP with as little cost as possible for the one who measures."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._file = self._socket.makefile("rb")

    def post(self, body: bytes, session: str = "") -> tuple[dict[bytes, bytes], bytes]:
        in_session = f"Mcp-Session-Id: {session}\r\nMCP-Protocol-Version: {REVISION}\r\n" if session else ""
        head = (
            "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            f"Accept: application/json, text/event-stream\r\n{in_session}Content-Length: {len(body)}\r\n\r\n"
        )
        self._socket.sendall(head.encode() + body)
        status = self._file.readline()
        headers: dict[bytes, bytes] = {}
        while (line := self._file.readline()) not in (b"\r\n", b""):
            name, _, value = line.partition(b":")
            headers[name.lower()] = value.strip()
        if status.split(b" ")[1] not in (b"200", b"202"):
            raise RuntimeError(status.decode())
        if headers.get(b"transfer-encoding") == b"chunked":
            body = b""
            while size := int(self._file.readline(), 16):
                body += self._file.read(size + 2)[:-2]
            self._file.readline()
            return headers, body
        return headers, self._file.read(int(headers.get(b"content-length", b"0")))

    def open(self) -> str:
        params = {"protocolVersion": REVISION, "capabilities": {}, "clientInfo": {"name": "load", "version": "1"}}
        request = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
        headers, _ = self.post(json.dumps(request).encode())
        session = headers[b"mcp-session-id"].decode()
        self.post(b'{"jsonrpc":"2.0","method":"notifications/initialized"}', session)
        return session


@dataclass
class Figures:
    """What is measured of a fleet."""

    rate: float
    """Calls per second, over all connections."""
    median: float
    """The median time of a call, one at a time, in microseconds."""
    server: float
    """Processor time of the instances per call, in microseconds."""
    store: float
    """Processor time of Redis per call, in microseconds."""
    opened: float
    """Sessions opened per second, one after the other."""
    held: float
    """Bytes of all instances per idle session."""
    stored: float
    """Bytes of Redis per idle session."""


def measure(make: Callable[[], Fleet]) -> Figures:
    with running(make()) as fleet:
        connections = [[Connection(port) for port in fleet.targets] for _ in range(CONNECTIONS)]
        for each in connections[0]:
            each.open()
        before, stored_before = memory(fleet), stored(fleet)
        begun = time.monotonic()
        count = len(fleet.targets)
        sessions = [connections[0][number % count].open() for number in range(SESSIONS)]
        opened = SESSIONS / (time.monotonic() - begun)
        held, in_store = (memory(fleet) - before) / SESSIONS, (stored(fleet) - stored_before) / SESSIONS

        times = []
        for number in range(1000):
            begun = time.perf_counter()
            call(connections[0][number % count], sessions[number % CONNECTIONS], number)
            times.append(time.perf_counter() - begun)

        def work(worker: int) -> None:
            for number in range(CALLS // CONNECTIONS):
                # Each call of a session is at the next instance.
                call(connections[worker][number % count], sessions[worker], number)

        server, store = sum(each.cpu() for each in fleet.instances), fleet.redis.cpu() if fleet.redis else 0.0
        threads = [threading.Thread(target=work, args=(worker,)) for worker in range(CONNECTIONS)]
        begun = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        rate = CALLS / (time.monotonic() - begun)
        server = sum(each.cpu() for each in fleet.instances) - server
        store = (fleet.redis.cpu() if fleet.redis else 0.0) - store
    per_call = 1e6 / CALLS
    return Figures(rate, statistics.median(times) * 1e6, server * per_call, store * per_call, opened, held, in_store)


def call(connection: Connection, session: str, number: int) -> None:
    params = b'{"name":"echo","arguments":{"text":"hello"}}'
    request = b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":%s}' % (number + 1, params)
    _, answer = connection.post(request, session)
    if b'"hello"' not in answer or b'"id":%d' % (number + 1) not in answer:
        raise RuntimeError("another answer than that of the call")


def memory(fleet: Fleet) -> int:
    return sum(each.memory() for each in fleet.instances)


def stored(fleet: Fleet) -> int:
    if fleet.redis is None:
        return 0
    info = redis_answers(fleet.redis, "INFO", "memory")
    return next(int(line.split(":")[1]) for line in info.splitlines() if line.startswith("used_memory:"))


CONTENDERS = (("memory", 1), ("sealed", 1), ("sealed", 3), ("stored", 1), ("stored", 3), ("stored, fsync each second", 3))


def check(report: Report, program: Path, folder: Path) -> None:
    table: dict[tuple[str, int], list[Figures]] = {}
    # In turns, so that what else runs here concerns all alike.
    for _ in range(ROUNDS):
        for mode, count in CONTENDERS:

            def one(mode: str = mode, count: int = count) -> None:
                name, _, relaxed = mode.partition(",")
                make = lambda: own(program, folder / f"{name}-{count}", name, count, relaxed=bool(relaxed))
                table.setdefault((mode, count), []).append(measure(make))

            report.check(mode, str(count), "load", one)
    print(f"\nmedians of {ROUNDS} rounds; {CALLS} calls over {CONNECTIONS} connections, {SESSIONS} idle sessions; in brackets: ratio to the first row")
    print("| sessions | instances | calls/s | µs one at a time | server CPU µs/call | Redis CPU µs/call | opened/s | B/session, instances | B/session, Redis |")
    print("|---|---|---|---|---|---|---|---|---|")
    first: list[float] = []
    for (mode, count), rounds in table.items():
        values = [statistics.median(getattr(figures, name) for figures in rounds) for name in Figures.__dataclass_fields__]
        first = first or values
        shown = [f"{value:.0f} ({value / base:.2f})" if base else f"{value:.0f}" for value, base in zip(values, first, strict=True)]
        print(f"| {mode} | {count} | {' | '.join(shown)} |")
