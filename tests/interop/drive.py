"""Drives the built proxy against real servers. `run` installs the servers, builds the proxy and starts this."""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from checks import ANSWERS, CONVERSATION, Conversation, dead_server, doctor, unknown_authority
from proxy import Failure, Proxy
from servers import REVISIONS, Server, all_servers, free_port

OLDER_THAN_ELICITATION = REVISIONS[:2]
OLDER_THAN_RESUMPTION = REVISIONS[:3]

HUB_ENDS_IT = "the hub calls its own servers as a client without capabilities, and passes on neither token nor request"
NO_STREAM = "an answer that is one JSON body leaves no room for anything before it"
NO_SESSION = "without sessions, no answer of the editor finds its way to the call that asked"
NO_EVENT_IDS = "its streams cannot be resumed"

#: What a server truly does not do, at which revisions, and why: (server, check) -> (revisions, reason).
#: `*` stands for every server. What is here is printed, and not checked.
NOT_OFFERED: dict[tuple[str, str], tuple[tuple[str, ...], str]] = {
    ("*", "elicitation"): (OLDER_THAN_ELICITATION, "elicitation came with 2025-06-18"),
}


class Report:
    """Prints a line per check, and counts."""

    def __init__(self) -> None:
        self.passed = self.failed = self.not_offered = 0

    def line(self, server: str, revision: str, check: str, outcome: str, ms: float | None = None) -> None:
        took = "" if ms is None else f"{ms:8.0f} ms"
        print(f"{server:<20} {revision:<11} {check:<18} {outcome:<7}{took}", flush=True)

    def check(self, server: str, revision: str, name: str, check: Callable[[], None]) -> bool:
        started = time.monotonic()
        failure: str | None = None
        try:
            check()
        except Failure as error:
            failure = str(error)
        except Exception as error:
            failure = f"{type(error).__name__}: {error}"
        ms = (time.monotonic() - started) * 1000
        self.line(server, revision, name, "ok" if failure is None else "FAILED", ms)
        if failure is None:
            self.passed += 1
            return True
        self.failed += 1
        print(f"    {failure}", flush=True)
        return False

    def offers_not(self, server: str, revision: str, name: str, reason: str) -> None:
        self.not_offered += 1
        self.line(server, revision, name, f"not offered by the server: {reason}")


def not_offered(server: str, revision: str, check: str) -> str | None:
    for name in (server, "*"):
        revisions, reason = NOT_OFFERED.get((name, check), ((), ""))
        if revision in revisions:
            return reason
    return None


class Driver:
    def __init__(self, binary: str, install: Path, report: Report) -> None:
        self._binary, self._install, self._report = binary, install, report
        self._folder = install / "run"

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
        try:
            for name, check in CONVERSATION.items():
                reason = not_offered(server.name, revision, name)
                if reason is not None:
                    self._report.offers_not(server.name, revision, name, reason)
                elif not self._report.check(server.name, revision, name, lambda check=check: check(talk)):
                    print("".join(f"    | {line}\n" for line in proxy.transcript(12)), end="", flush=True)
        finally:
            proxy.finish()

    def dead_server(self, server: Server) -> None:
        folder = self._folder / "dead-server"
        shutil.rmtree(folder, ignore_errors=True)
        try:
            # Only a server that has run knows its port and its files.
            server.launch(self._install, folder)
            server.kill()
            command = self.command(server)
            self._report.check("dead server", "-", "comes up later", lambda: dead_server(command, server))
        finally:
            server.kill()


def stop(*_: object) -> None:
    raise KeyboardInterrupt


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
        for server in chosen:
            driver.drive(server)
        driver.dead_server(chosen[0])
    except KeyboardInterrupt:
        print("interrupted", flush=True)
        return 130
    finally:
        for server in list(Server.running):
            server.kill()
    took = time.monotonic() - started
    print(
        f"{report.passed} ok, {report.failed} failed, {report.not_offered} not offered by the server, in {took:.0f} s"
    )
    return 0 if report.failed == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
