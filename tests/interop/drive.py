"""Drives the built proxy against real servers. `run` installs the servers, builds the proxy and starts this."""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from checks import ANSWERS, CONVERSATION, Conversation, dead_server, doctor, unknown_authority
from processes import Stopping, is_stopping, kill_all
from proxy import Failure, Proxy
from servers import REVISIONS, Server, all_servers

#: How many servers are driven at the same time.
AT_A_TIME = 3
#: How much of a conversation is shown with a failure.
TRANSCRIPT_LINES = 12

BEFORE_ELICITATION = REVISIONS[:2]
BEFORE_RESUMPTION = REVISIONS[:3]

HUB_IS_A_CLIENT = "the hub is a client of its servers that offers them nothing, and passes on no progress token"
HUB_IGNORES = "the hub passes on no cancellation"
EVERYTHING_IGNORES = "its long-running operation is not stopped, and the result dropped"
NO_RESUMPTION = "it never ends the stream of a call early"
JSON_BODY = "an answer that is one JSON body leaves no room for what belongs before it"
NO_SESSION = "without sessions, nothing that the editor sends later finds the way to a call"
PRIMING = "the SDK ends streams early from 2025-11-25 on, where an event with an id opens each of them"

#: What a server truly does not do, at which revisions, and why: (server, check) to (revisions, reason).
#: `*` stands for every server. What is here is printed, and not checked.
NOT_OFFERED: dict[tuple[str, str], tuple[tuple[str, ...], str]] = {
    ("*", "elicitation"): (BEFORE_ELICITATION, "elicitation came with 2025-06-18"),
    ("everything-http", "cancellation seen"): (REVISIONS, EVERYTHING_IGNORES),
    ("everything-http", "resumption"): (REVISIONS, NO_RESUMPTION),
    ("everything-sse", "cancellation seen"): (REVISIONS, EVERYTHING_IGNORES),
    ("everything-sse", "resumption"): (REVISIONS, NO_RESUMPTION),
    ("mcp-hub", "progress"): (REVISIONS, HUB_IS_A_CLIENT),
    ("mcp-hub", "sampling"): (REVISIONS, HUB_IS_A_CLIENT),
    ("mcp-hub", "roots"): (REVISIONS, HUB_IS_A_CLIENT),
    ("mcp-hub", "elicitation"): (REVISIONS, HUB_IS_A_CLIENT),
    ("mcp-hub", "cancellation seen"): (REVISIONS, HUB_IGNORES),
    ("mcp-hub", "resumption"): (REVISIONS, NO_RESUMPTION),
    ("mcp-hub", "sampling again"): (REVISIONS, HUB_IS_A_CLIENT),
    ("python-1-http", "resumption"): (BEFORE_RESUMPTION, PRIMING),
    ("python-1-sse", "resumption"): (REVISIONS, NO_RESUMPTION),
    ("python-2-http", "resumption"): (BEFORE_RESUMPTION, PRIMING),
    ("python-2-sse", "resumption"): (REVISIONS, NO_RESUMPTION),
    ("python-2-json", "progress"): (REVISIONS, JSON_BODY),
    ("python-2-json", "sampling"): (REVISIONS, JSON_BODY),
    ("python-2-json", "elicitation"): (REVISIONS, JSON_BODY),
    ("python-2-json", "resumption"): (REVISIONS, NO_RESUMPTION),
    ("python-2-json", "sampling again"): (REVISIONS, JSON_BODY),
    ("python-2-stateless", "sampling"): (REVISIONS, NO_SESSION),
    ("python-2-stateless", "roots"): (REVISIONS, NO_SESSION),
    ("python-2-stateless", "elicitation"): (REVISIONS, NO_SESSION),
    ("python-2-stateless", "cancellation seen"): (REVISIONS, NO_SESSION),
    ("python-2-stateless", "resumption"): (REVISIONS, NO_RESUMPTION),
    ("python-2-stateless", "sampling again"): (REVISIONS, NO_SESSION),
    ("tls", "resumption"): (BEFORE_RESUMPTION, PRIMING),
}


class Report:
    """Prints a line per check, and counts."""

    def __init__(self) -> None:
        self.passed = self.failed = self.not_offered = 0
        self._lock = threading.Lock()

    def _print(self, server: str, revision: str, check: str, outcome: str, details: Sequence[str] = ()) -> None:
        lines = [f"{server:<19} {revision:<11} {check:<18} {outcome}", *(f"    {line}" for line in details)]
        print("\n".join(lines), flush=True)

    def check(
        self, server: str, revision: str, name: str, check: Callable[[], None], proxy: Proxy | None = None
    ) -> bool:
        """Makes a check; what the proxy wrote and read last is shown if it fails."""
        started = time.monotonic()
        failure: str | None = None
        try:
            check()
        except Failure as error:
            failure = str(error)
        except Stopping:
            raise
        except Exception as error:
            failure = f"{type(error).__name__}: {error}"
        took = f"{(time.monotonic() - started) * 1000:8.0f} ms"
        if is_stopping():
            raise Stopping
        with self._lock:
            if failure is None:
                self.passed += 1
                self._print(server, revision, name, f"ok     {took}")
            else:
                self.failed += 1
                transcript = proxy.transcript(TRANSCRIPT_LINES) if proxy else []
                self._print(server, revision, name, f"FAILED {took}", [failure, *transcript])
        return failure is None

    def offers_not(self, server: str, revision: str, name: str, reason: str) -> None:
        with self._lock:
            self.not_offered += 1
            self._print(server, revision, name, f"not offered by the server: {reason}")


def not_offered(server: str, revision: str, check: str) -> str | None:
    for name in (server, "*"):
        revisions, reason = NOT_OFFERED.get((name, check), ((), ""))
        if revision in revisions:
            return reason
    return None


class Driver:
    def __init__(self, binary: str, install: Path, report: Report) -> None:
        self._binary, self._install, self._report = binary, install.resolve(), report
        self._folder = self._install / "run"

    def command(self, server: Server) -> list[str]:
        """The proxy's, for this server."""
        trust = ["--ca-file", str(server.folder / "ca.pem")] if server.scheme == "https" else []
        return [self._binary, *trust, server.url()]

    def drive(self, server: Server) -> None:
        folder = self._folder / server.name
        shutil.rmtree(folder, ignore_errors=True)
        try:
            if not self._report.check(server.name, "-", "start", lambda: server.launch(self._install, folder)):
                return
            for revision in REVISIONS:
                self._converse(server, revision)
            self._report.check(server.name, "-", "--check", lambda: doctor(self.command(server), server))
            if server.scheme == "https":
                bare = [self._binary, server.url()]
                self._report.check(server.name, "-", "no --ca-file", lambda: unknown_authority(bare))
        finally:
            server.kill()

    def _converse(self, server: Server, revision: str) -> None:
        proxy = Proxy(self.command(server), ANSWERS)
        talk = Conversation(server, revision, proxy)
        is_usable = True
        try:
            for name, check in CONVERSATION.items():
                reason = not_offered(server.name, revision, name)
                if reason is not None:
                    self._report.offers_not(server.name, revision, name, reason)
                    continue
                made = partial(check, talk) if is_usable else unusable
                passed = self._report.check(server.name, revision, name, made, proxy)
                is_usable = is_usable and (passed or name != "initialize")
        finally:
            proxy.finish()

    def dead_server(self, server: Server) -> None:
        folder = self._folder / "dead-server"
        shutil.rmtree(folder, ignore_errors=True)

        def check() -> None:
            # Only a server that has run knows its port and its files.
            server.launch(self._install, folder)
            server.kill()
            dead_server(self.command(server), server)

        try:
            self._report.check("dead server", "-", "comes up later", check)
        finally:
            server.kill()


def unusable() -> None:
    raise Failure("not made, because nothing works without initialize")


def stop(*_: object) -> None:
    raise KeyboardInterrupt


def drive_all(driver: Driver, chosen: list[Server]) -> None:
    """Several servers at a time, because most of the time is spent waiting."""
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        try:
            jobs = [pool.submit(driver.drive, server) for server in chosen]
            for job in jobs:
                job.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            kill_all()
            raise
    driver.dead_server(chosen[0])


def main() -> int:
    parser = argparse.ArgumentParser(prog="run", description=__doc__)
    servers = {server.name: server for server in all_servers()}
    parser.add_argument("--binary", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--install", required=True, type=Path, help=argparse.SUPPRESS)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(servers)}; all without any")
    args = parser.parse_args()
    unknown = [name for name in args.names if name not in servers]
    if unknown:
        parser.error(f"no server is called {' or '.join(unknown)}; there are {', '.join(servers)}")
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)
    report = Report()
    driver = Driver(args.binary, args.install, report)
    started = time.monotonic()
    chosen = [servers[name] for name in args.names or servers]
    try:
        drive_all(driver, chosen)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
        return 130
    finally:
        kill_all()
    took = time.monotonic() - started
    print(
        f"{report.passed} ok, {report.failed} failed, {report.not_offered} not offered by the server, in {took:.0f} s"
    )
    return 0 if report.failed == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
