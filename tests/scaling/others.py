"""The servers of other SDKs, with their sessions, as three instances behind the same forwarder: what fails, and how."""

from __future__ import annotations

import collections
import http.client
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from clients import talk
from fleet import Fleet, fleet_of, own, running
from grid import EDITORS, Row
from kill import Refused, Session
from matrix import judge, plan_of
from proxy import Failure, expect
from report import Report
from servers import EVERYTHING, EverythingTools, OwnTools, Server, Tools, node, python, rmcp

#: The features, of which each is tried in sessions of its own.
FEATURES = ("tools", "progress", "resumption", "elicitation", "sampling", "cancel", "list", "subscription")
#: The sessions for each feature.
TRIES = 6


@dataclass
class Contender:
    name: str
    start: Callable[[Path, Path], Fleet]
    tools: Tools
    lacks: tuple[str, ...] = ()
    """What the server does not have with one instance either."""


def contenders(program: Path, install: Path) -> list[Contender]:
    def other(command: Callable[[Path, Path, int], list[str]], count: int) -> Callable[[Path, Path], Fleet]:
        return lambda folder, _: fleet_of(folder, lambda number, port: command(install, folder, port), count, "random:5")

    def both(name: str, command: Callable[[Path, Path, int], list[str]], tools: Tools, lacks: tuple[str, ...] = ()):
        yield Contender(f"{name}, 1", other(command, 1), tools, lacks)
        yield Contender(f"{name}, 3", other(command, 3), tools, lacks)

    own_tools, everything = OwnTools(), EverythingTools()
    no_break = ("resumption",)
    return [
        *both("TypeScript (server-everything)", node(EVERYTHING, "streamableHttp"), everything, no_break),
        *both("Python 1.30", python("python-1", "http"), own_tools, ("subscription",)),
        *both("Python 2.3", python("python-2", "http"), own_tools),
        *both("rmcp 3.9", rmcp("http"), own_tools, no_break),
        *(
            Contender(f"mcp-tokio {mode}, {1 if mode == 'one' else 3}", lambda folder, _, mode=mode: own(program, folder, mode, order="random:5"), own_tools)
            for mode in ("one", "memory", "sealed", "stored")
        ),
    ]


def check(report: Report, program: Path, install: Path, folder: Path) -> None:
    table = []
    for number, contender in enumerate(contenders(program, install)):
        fleet = contender.start(folder / str(number), install)

        def one(contender: Contender = contender, fleet: Fleet = fleet) -> None:
            with running(fleet):
                table.append((contender.name, *observe(contender, fleet, install)))

        report.check(contender.name, "-", "observed", one)
    print(f"\nof {TRIES} sessions of the Python SDK's client 1.30 each, those in which the feature works; - is not offered by the server\n")
    print(f"| server, instances | opened | {' | '.join(FEATURES)} | statuses of failures |")
    print("|---|---|" + "---|" * len(FEATURES) + "---|")
    for name, opened, works, statuses in table:
        print(f"| {name} | {opened} | {' | '.join(works)} | {statuses} |")


def observe(contender: Contender, fleet: Fleet, install: Path) -> tuple[str, list[str], str]:
    opened = 0
    for _ in range(TRIES):
        opened += opens(fleet)
    editor = next(editor for editor in EDITORS if editor.name == "py1")
    row = Row(contender.name, "", Server("other", "/mcp", contender.tools, lambda *_: []))
    works = []
    for feature in FEATURES:
        if feature in contender.lacks:
            works.append("-")
            continue
        works.append(str(sum(try_feature(editor, row, feature, fleet, install) for _ in range(TRIES))))
    bad = collections.Counter(
        f"{exchange['method']} {exchange['rpc']}".strip() + f" {exchange['status']}"
        for exchange in fleet.exchanges()
        if exchange["status"] not in (200, 202, 204)
    )
    total = len(fleet.exchanges())
    shown = ", ".join(f"{what} × {count}" for what, count in bad.most_common(6)) or "none"
    return f"{opened}", works, f"{shown} (of {total} requests)"


def opens(fleet: Fleet) -> bool:
    """Whether a client that opens a session can use it for ten requests."""
    session = Session(fleet.port)
    try:
        session.open(patience=3.0)
        for number in range(10):
            session.exchange("POST", {"id": 100 + number, "method": "tools/list"}, timeout=5.0).read()
    except (Failure, Refused, OSError, http.client.HTTPException):
        return False
    return True


def try_feature(editor, row: Row, feature: str, fleet: Fleet, install: Path) -> bool:
    if feature == "resumption":
        call = OwnTools().hang_up(0.3)
        made = plan_of(row, editor, [])
        made["features"] = [{"name": feature, "call": {"name": call.name, "arguments": call.arguments}}]
    else:
        made = plan_of(row, editor, [feature])
    made["patience"] = 4.0
    try:
        begun = time.monotonic()
        _, lines = talk(editor, install, made, fleet.url(), fleet.folder / f"{feature}-{begun}", patience=12.0)
        expect(len(lines) == 2, "nothing was observed")
        if feature == "resumption":
            return lines[1].get("text") == "fetched"
        judge(feature, lines[1], row, editor)
    except Failure:
        return False
    return True
