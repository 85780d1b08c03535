"""Drives the built proxy against real servers. `run` installs the servers, builds the proxy and starts this."""

from __future__ import annotations

import argparse
import fnmatch
import shlex
import shutil
import signal
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TypeVar

from authorization.browser import Browser
from authorization.cells import CELLS
from authorization.world import World
from checks import ANSWERS, CONVERSATION, Conversation, dead_server, doctor, unknown_authority
from grid import gateway_rows, rows
from matrix import Matrix
from processes import kill_all
from proxy import Failure, Proxy
from report import Report
from servers import REVISIONS, Server, all_servers

T = TypeVar("T")

#: How many servers are driven at the same time.
AT_A_TIME = 3
#: What asks for the matrix, or with `:EDITOR:SERVER` for a part of it.
MATRIX = "matrix"
#: What asks for the same with the servers over stdio behind a gateway.
GATEWAY = "gateway"
#: What of it is made without names: a client in either era, and a server of both.
GATEWAY_SAMPLE = f"{GATEWAY}:py2-*:python-2-*"
#: What asks for the cells of authorization, or with `:CELL` for some of them.
AUTHORIZATION = "authorization"

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

    def sign_in(self, cells: list[str]) -> None:
        """Makes cells of authorization, in one browser."""
        browsers: list[Browser] = []

        def start() -> None:
            browsers.append(Browser(self._install, self._folder / AUTHORIZATION / "browser"))

        if not self._report.check(AUTHORIZATION, "-", "browser", start):
            return
        with closing(browsers[0]) as browser:
            drive_all(lambda cell: self._sign_in(cell, browser), cells)

    def _sign_in(self, cell: str, browser: Browser) -> None:
        world = World(self._binary, self._install, self._folder / AUTHORIZATION / cell, browser)
        with closing(world):
            self._report.check(AUTHORIZATION, "-", cell, lambda: CELLS[cell](world), world)

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


def is_cell(cell: str, wanted: str) -> bool:
    return fnmatch.fnmatch(cell, wanted.partition(":")[2] or "*")


def stop(*_: object) -> None:
    raise KeyboardInterrupt


def drive_all(drive: Callable[[T], None], parts: list[T]) -> None:
    """Several parts at a time, because most of the time is spent waiting."""
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        try:
            jobs = [pool.submit(drive, part) for part in parts]
            for job in jobs:
                job.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            kill_all()
            raise


def main() -> int:
    parser = argparse.ArgumentParser(prog="run", description=__doc__)
    servers = {server.name: server for server in all_servers()}
    parser.add_argument("--binary", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--install", required=True, type=Path, help=argparse.SUPPRESS)
    parser.add_argument(
        "--gateway",
        required=True,
        type=shlex.split,
        metavar="COMMAND",
        help="starts a gateway at {address}, followed by the command of its server; that of mcp-tokio without it",
    )
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help=f"of {', '.join(servers)}, matrix[:EDITOR[:SERVER]], gateway[:EDITOR[:SERVER]], authorization[:CELL]; all without any, but a sample for the gateway",
    )
    parser.add_argument("--markdown", action="store_true", help="prints the matrix as docs/interop.md shows it, too")
    args = parser.parse_args()
    names = args.names or [*servers, MATRIX, GATEWAY_SAMPLE, AUTHORIZATION]
    of_matrices = {MATRIX: rows(), GATEWAY: gateway_rows(args.gateway)}
    patterns = [name for name in names if name.split(":")[0] in of_matrices]
    wanted_cells = [name for name in names if name.split(":")[0] == AUTHORIZATION]
    unknown = [name for name in names if name not in (*servers, *patterns, *wanted_cells)]
    if unknown:
        others = f"{', '.join(servers)}, {MATRIX}, {GATEWAY} and {AUTHORIZATION}"
        parser.error(f"no server is called {' or '.join(unknown)}; there are {others}")
    cells = [cell for cell in CELLS if any(is_cell(cell, wanted) for wanted in wanted_cells)]
    if wanted_cells and not cells:
        parser.error(f"no cell of {AUTHORIZATION} is called so; there are {', '.join(CELLS)}")
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)
    report = Report()
    driver = Driver(args.binary, args.install, report)
    kinds = [(pattern, of_matrices[pattern.split(":")[0]]) for pattern in patterns]
    matrices = [Matrix(args.binary, args.install, report, pattern, kind) for pattern, kind in kinds]
    if any(not matrix.rows or not matrix.editors for matrix in matrices):
        parser.error("no cell of the matrix is called so")
    started = time.monotonic()
    chosen = [servers[name] for name in names if name in servers]
    try:
        if chosen:
            drive_all(driver.drive, chosen)
            driver.dead_server(chosen[0])
        if cells:
            driver.sign_in(cells)
        for matrix in matrices:
            drive_all(matrix.drive, matrix.servers())
            print("", *matrix.table(), *(matrix.markdown() if args.markdown else ()), "", sep="\n", flush=True)
            if matrix.name == MATRIX and matrix.is_whole():
                report.check("docs/interop.md", "-", "matrix", matrix.check_document)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
        return 130
    finally:
        kill_all()
    took = time.monotonic() - started
    report.print_failures()
    print(
        f"{report.passed} ok, {report.failed} failed, {report.not_offered} not offered by the server, in {took:.0f} s"
    )
    return 0 if report.failed == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
