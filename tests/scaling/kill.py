"""Instances are killed while they serve calls, and Redis is started again."""

from __future__ import annotations

import collections
import http.client
import itertools
import json
import random
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from fleet import Fleet, own, running, wait_until
from proxy import Failure, expect
from report import Report

REVISION = "2025-11-25"
#: How long a call may take until it has an outcome. That an instance has ended is known after ten seconds, and read by
#: another instance after five more, which may end in between.
PATIENCE = 40.0
WORKERS = 4
#: How long instances are killed, in the short run and otherwise.
TIMES = (15.0, 60.0)
#: How often the answer of a killed instance is fetched.
FETCHES = (3, 12)


@dataclass(frozen=True)
class Event:
    id: str
    message: dict[str, object] | None


class Refused(Exception):
    """A response with this status."""

    def __init__(self, status: int) -> None:
        super().__init__(f"status {status}")
        self.status = status


def events_of(response: http.client.HTTPResponse) -> Iterator[Event]:
    """The server-sent events of a response, until it ends in any way."""
    name, data = "", []
    try:
        while line := response.readline():
            text = line.decode().rstrip("\r\n")
            if text.startswith("id:"):
                name = text[3:].strip()
            elif text.startswith("data:"):
                data.append(text[5:].removeprefix(" "))
            elif not text and (name or data):
                joined = "\n".join(data)
                yield Event(name, json.loads(joined) if joined else None)
                name, data = "", []
    except (OSError, http.client.HTTPException, ValueError):
        return


@dataclass
class Session:
    """A client of one session, which resumes streams that break."""

    port: int
    id: str = ""
    statuses: collections.Counter[str] = field(default_factory=collections.Counter)
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def exchange(self, method: str, message: dict[str, object] | None = None, after: str = "", timeout: float = PATIENCE):
        """Sends a request; the response, if its status is 200 or 202."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
        headers |= {"Mcp-Session-Id": self.id, "MCP-Protocol-Version": REVISION} if self.id else {}
        headers |= {"Last-Event-ID": after} if after else {}
        body = None if message is None else json.dumps({"jsonrpc": "2.0"} | message)
        connection.request(method, "/mcp", body, headers)
        response = connection.getresponse()
        self.statuses[f"{method} {response.status}"] += 1
        if response.status not in (200, 202):
            raise Refused(response.status)
        return response

    def open(self, patience: float = PATIENCE) -> None:
        params = {"protocolVersion": REVISION, "capabilities": {}, "clientInfo": {"name": "kill", "version": "1"}}
        request = {"id": 0, "method": "initialize", "params": params}

        def opened() -> bool:
            try:
                response = self.exchange("POST", request)
                self.id = response.headers["Mcp-Session-Id"]
                response.read()
                self.exchange("POST", {"method": "notifications/initialized"}).read()
            except (OSError, http.client.HTTPException, Refused):
                self.id = ""
            return bool(self.id)

        wait_until(opened, "session", patience)

    def is_served(self) -> bool:
        try:
            self.exchange("POST", {"id": next(self._numbers), "method": "ping"}).read()
        except Refused as refused:
            expect(refused.status in (502, 503), f"a session is refused with {refused.status}")
            return False
        except (OSError, http.client.HTTPException):
            return False
        return True

    def call(self, tool: str, arguments: dict[str, object], pause: float = 0.05, until_resumed=lambda: None) -> tuple[str, str]:
        """Makes a call. Its outcome: what has happened, and the text of the result.

        `result`, `error`: the answer of the server. `not begun`: no instance had answered. `unknown`: the response broke
        before it had an event that could be resumed.
        """
        number = next(self._numbers)
        params = {"name": tool, "arguments": arguments, "_meta": {"progressToken": number}}
        request = {"id": number, "method": "tools/call", "params": params}
        deadline = time.monotonic() + PATIENCE
        try:
            response = self.exchange("POST", request)
        except Refused as refused:
            expect(refused.status in (502, 503), f"a call is refused with {refused.status}")
            return "not begun", ""
        except (OSError, http.client.HTTPException):
            return "not begun", ""
        if response.headers.get_content_type() == "application/json":
            try:
                return self._outcome(json.loads(response.read()), number, "result")
            except (OSError, http.client.HTTPException):
                return "unknown", ""
        seen, last, outcomes, steps, resumed = set(), "", [], [], False
        while True:
            for event in events_of(response):
                expect(event.id not in seen, "an event arrives twice")
                seen.add(event.id)
                last = event.id or last
                if event.message is None:
                    continue
                if "method" in event.message:
                    steps.append(event.message["params"]["progress"])
                    continue
                outcomes.append(self._outcome(event.message, number, "result after resumption" if resumed else "result"))
            expect(steps == sorted(set(steps)), f"progress {steps}")
            expect(len(outcomes) <= 1, f"{len(outcomes)} outcomes of one call")
            if outcomes:
                if outcomes[0][1] == "worked":
                    expect(steps == list(range(1, len(steps) + 1)), f"progress {steps} is not complete")
                return outcomes[0]
            if not last:
                return "unknown", ""
            expect(time.monotonic() < deadline, f"no outcome within {PATIENCE} s")
            if not resumed:
                until_resumed()
            resumed = True
            time.sleep(pause)
            try:
                response = self.exchange("GET", after=last)
            except Refused as refused:
                expect(refused.status in (502, 503), f"a resumption is refused with {refused.status}")
                response = None
            except (OSError, http.client.HTTPException):
                response = None
            if response is None:
                response = EMPTY

    @staticmethod
    def _outcome(message: dict[str, object], number: int, what: str) -> tuple[str, str]:
        expect(message.get("id") == number, f"the answer of {message.get('id')} instead of {number}")
        if "error" in message:
            return "error", str(message["error"])
        return what, message["result"]["content"][0]["text"]


class Empty:
    """The response of a request that has failed."""

    def readline(self) -> bytes:
        return b""


EMPTY = Empty()


class Worker(threading.Thread):
    """Makes calls in one session until it is told to stop."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self.session, self.stop = Session(port), threading.Event()
        self.outcomes: collections.Counter[str] = collections.Counter()
        self.failures: list[str] = []
        self.longest = 0.0

    def run(self) -> None:
        try:
            self.session.open()
            while not self.stop.is_set():
                begun = time.monotonic()
                what, _ = self.session.call("work", {"steps": 4, "seconds": 0.2})
                self.longest = max(self.longest, time.monotonic() - begun)
                self.outcomes[what] += 1
                time.sleep(0.01)
            wait_until(self.session.is_served, "served session", 15)
        except Exception as failure:
            self.failures.append(f"{type(failure).__name__}: {failure}")


def check(report: Report, program: Path, folder: Path, short: bool) -> None:
    def fleet(name: str, *options: str) -> Fleet:
        return own(program, folder / name, "stored", order="random:3", options=options)

    report.check("stored", "SIGKILL", "one outcome", lambda: one_outcome(fleet("calls"), TIMES[not short]))
    report.check("stored", "SIGKILL", "answers survive", lambda: fetch(fleet("answers"), FETCHES[not short]))
    report.check("stored", "restart of Redis", "sessions go on", lambda: restart(fleet("restart")))
    report.check("control: append", "SIGKILL", "answers survive", lambda: must_fail(fleet("control", "--fault", "append")))


def one_outcome(fleet: Fleet, duration: float) -> None:
    """Instances are killed at random times; each call has one outcome, and each session goes on."""
    numbers = random.Random(11)
    with running(fleet):
        workers = [Worker(fleet.port) for _ in range(WORKERS)]
        for worker in workers:
            worker.start()
        kills, end = 0, time.monotonic() + duration
        while time.monotonic() < end:
            time.sleep(numbers.uniform(1.0, 3.0))
            instance = numbers.choice(fleet.instances)
            instance.kill()
            kills += 1
            time.sleep(numbers.uniform(0.0, 0.5))
            instance.start()
        for worker in workers:
            worker.stop.set()
        for worker in workers:
            worker.join(2 * PATIENCE)
        hanging = sum(worker.is_alive() for worker in workers)
    outcomes = sum((worker.outcomes for worker in workers), collections.Counter())
    statuses = sum((worker.session.statuses for worker in workers), collections.Counter())
    longest = max(worker.longest for worker in workers)
    print(f"    {kills} kills, {sum(outcomes.values())} calls: {dict(outcomes)}; longest {longest:.1f} s; {dict(statuses)}")
    failures = [failure for worker in workers for failure in worker.failures]
    expect(not failures, "\n    ".join(failures))
    expect(hanging == 0, f"{hanging} calls have no outcome")
    expect(outcomes["result"] > 0 and outcomes["result after resumption"] + outcomes["error"] > 0, "no call was hit by a kill")


def fetch(fleet: Fleet, count: int) -> None:
    """An instance is killed after it has stored the answer of a call, whose client is away."""
    with running(fleet):
        session = Session(fleet.port)
        session.open()
        served = collections.Counter()
        for _ in range(count):
            victim = None

            def kill() -> None:
                nonlocal victim
                # The answer is stored after 0.1 s.
                time.sleep(0.6)
                calls = [exchange["target"] for exchange in fleet.exchanges() if exchange["rpc"] == "tools/call"]
                victim = fleet.instances[int(calls[-1]) - 1]
                served[victim.name] += 1
                victim.kill()

            outcome = session.call("hang_up", {"seconds": 0.1}, until_resumed=kill)
            expect(outcome == ("result after resumption", "fetched"), f"the answer is lost: {outcome}")
            if victim is not None:
                victim.start()
        print(f"    {count} of {count} answers were fetched at other instances; killed: {dict(served)}")


def restart(fleet: Fleet) -> None:
    """Redis is ended, and killed, and continues with its file: no session and no stored answer is lost."""
    with running(fleet):
        store = fleet.redis
        assert store is not None
        sessions = [Session(fleet.port) for _ in range(8)]
        for session in sessions:
            session.open()
        for end in (store.terminate, store.kill):

            def again() -> None:
                # The answer is stored after 0.1 s.
                time.sleep(0.6)
                end()
                time.sleep(0.3)
                store.start()

            outcome = sessions[0].call("hang_up", {"seconds": 0.1}, until_resumed=again)
            expect(outcome == ("result after resumption", "fetched"), f"the answer is lost: {outcome}")
            begun = time.monotonic()
            for session in sessions:
                wait_until(session.is_served, "served session", 15)
            print(f"    8 sessions go on {time.monotonic() - begun:.2f} s after the first answer, and a stored answer was fetched")
        end_of_store(sessions[0], store)


def end_of_store(session: Session, store) -> None:
    """Without Redis, requests are refused with 503; with it, they are served again."""
    store.kill()
    begun = time.monotonic()
    try:
        session.exchange("POST", {"id": 9999, "method": "ping"}).read()
        raise Failure("a request is served without the store")
    except Refused as refused:
        expect(refused.status == 503, f"a request without the store is refused with {refused.status}")
    print(f"    without Redis: 503 after {time.monotonic() - begun:.1f} s")
    store.start()
    wait_until(session.is_served, "served session", 15)


def must_fail(fleet: Fleet) -> None:
    try:
        fetch(fleet, 1)
    except Failure as failure:
        print(f"    {failure}")
        expect("a resumption is refused with 400" in str(failure), "it fails for another reason")
        return
    raise Failure("it passes although the store drops events")
