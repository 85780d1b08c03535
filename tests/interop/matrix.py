"""The matrix: the clients of the SDKs as editors, each through the proxy to each server, feature by feature."""

from __future__ import annotations

import fnmatch
import json
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import processes
from checks import ANSWERS, expect_said
from grid import EDITORS, FEATURES, Editor, Row, lacking
from proxy import Failure, Params, expect, shorten
from report import Report
from servers import HERE, Call, Server

#: How long an editor may take with all features; each of its steps has 30 s.
PATIENCE = 240.0
#: It shows the matrix.
DOCUMENT = HERE.parents[1] / "docs/interop.md"
#: How much of what the proxy wrote is shown with a failure.
LOG_LINES = 12
#: A call that is cancelled would take this many seconds.
LONG = 60.0


@dataclass
class Cell:
    """What came of one editor and one row."""

    editor: Editor
    row: Row
    passed: list[str] = field(default_factory=list)
    lacking: dict[str, str] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    pair: str = "?"

    @property
    def letters(self) -> str:
        return "".join(self._mark(feature, letter) for feature, letter in FEATURES.items())

    def _mark(self, feature: str, letter: str) -> str:
        return letter if feature in self.passed else "-" if feature in self.lacking else "!"


def plan_of(row: Row, editor: Editor, features: list[str]) -> Params:
    """What the editor is told to do."""
    tools, mark = row.server.tools, f"{editor.name} to {row.name}"
    slow, seen = tools.work(LONG, int(LONG * 10), mark), tools.was_cancelled(mark)
    features_of: dict[str, Callable[[], Params]] = {
        "tools": lambda: {"call": params_of(tools.echo(mark))},
        "progress": lambda: {"call": params_of(tools.work(0.6, 4))},
        "elicitation": lambda: {"call": params_of(tools.asking("elicitation/create"))},
        "sampling": lambda: {"call": params_of(tools.asking("sampling/createMessage"))},
        "cancel": lambda: {
            "call": params_of(slow),
            "after": params_of(tools.echo(mark)),
            "seen": params_of(seen) if seen else None,
        },
        "list": lambda: dict(zip(("call", "of"), told(tools.changing()), strict=True)),
        "subscription": lambda: dict(zip(("call", "uri"), told(tools.touching()), strict=True)),
    }
    return {
        "mode": editor.mode,
        "answers": {
            "sampling": ANSWERS["sampling/createMessage"]({}),
            "elicitation": ANSWERS["elicitation/create"]({}),
        },
        "features": [{"name": feature} | features_of[feature]() for feature in features],
    }


def params_of(call: Call) -> Params:
    return {"name": call.name, "arguments": call.arguments}


def told(change: tuple[Call, str]) -> tuple[Params, str]:
    return params_of(change[0]), change[1]


def judge(feature: str, outcome: Params, row: Row, editor: Editor) -> None:
    """Whether what the editor saw is what it should have seen."""
    expect("error" not in outcome, outcome.get("error", ""))
    tools, mark = row.server.tools, f"{editor.name} to {row.name}"
    text = [outcome["text"]]
    if feature == "tools":
        call = tools.echo(mark)
        expect(call.name in outcome["tools"], f"no {call.name} among {outcome['tools']}")
        expect_said(text, call)
    elif feature == "progress":
        steps = outcome["steps"]
        # The TypeScript SDK drops what it reads together with the answer.
        expect(len(steps) >= 2 and steps == sorted(set(steps)), f"progress {steps}")
        expect_said(text, tools.work(0.6, 4))
    elif feature == "elicitation":
        expect_said(text, tools.asking("elicitation/create"))
    elif feature == "sampling":
        expect_said(text, tools.asking("sampling/createMessage"))
    elif feature == "cancel":
        expect(not outcome["early"], "the call was answered before it was cancelled")
        expect_said(text, tools.echo(mark))
    elif feature == "list":
        expect_said(text, tools.changing()[0])
    elif feature == "subscription":
        call, uri = tools.touching()
        expect_said(text, call)
        expect(outcome["uri"] == uri, f"an update of {outcome['uri']}")


class Matrix:
    def __init__(self, binary: str, install: Path, report: Report, pattern: str, rows: list[Row]) -> None:
        self._binary, self._install, self._report = binary, install.resolve(), report
        self.name, self._editors, self._rows = (*pattern.split(":"), "*", "*")[:3]
        self._folder = self._install / "run" / self.name
        self._count = len(rows)
        self.rows = [row for row in rows if fnmatch.fnmatch(row.name, self._rows)]
        self.editors = [editor for editor in EDITORS if fnmatch.fnmatch(editor.name, self._editors)]
        self.cells: dict[tuple[str, str], Cell] = {}

    def servers(self) -> list[Server]:
        """Each once, whatever its rows."""
        return list({row.server.name: row.server for row in self.rows}.values())

    def drive(self, server: Server) -> None:
        """All cells of a server, one after the other: what it tells all its clients, only one should hear."""
        folder = self._folder / server.name
        shutil.rmtree(folder, ignore_errors=True)
        mine = [row for row in self.rows if row.server is server]
        try:
            if mine[0].is_stdio:
                folder.mkdir(parents=True)
            elif not self._report.check(server.name, "-", "start", lambda: server.launch(self._install, folder)):
                return
            for row in mine:
                for editor in self.editors:
                    if editor.mode in row.editors:
                        self._fill(row, editor, folder)
        finally:
            server.kill()

    def _fill(self, row: Row, editor: Editor, folder: Path) -> None:
        started = time.monotonic()
        cell = Cell(editor, row)
        reasons = {feature: lacking(row, editor, feature) for feature in FEATURES}
        cell.lacking = {feature: reason for feature, reason in reasons.items() if reason}
        files = folder / f"{row.name}-{editor.name}"
        try:
            self._run(cell, files, folder)
        except Failure as error:
            cell.faults.append(str(error))
        if cell.faults:
            cell.faults += tail(files.with_suffix(".log")) + tail(files.with_suffix(".stderr"))
        if processes.is_stopping():
            raise processes.Stopping
        self.cells[editor.name, row.name] = cell
        took = f"{(time.monotonic() - started) * 1000:8.0f} ms"
        line = f"{row.name:<19} {editor.name:<11} {cell.pair:<22} {cell.letters} {took}"
        self._report.cell(line, len(cell.passed), cell.faults, len(cell.lacking))

    def _run(self, cell: Cell, files: Path, folder: Path) -> None:
        row, editor = cell.row, cell.editor
        log = files.with_suffix(".log")
        upstream = ["--", *row.server.command(self._install, folder, 0)] if row.is_stdio else [row.server.url()]
        watch = ["--log-level", "debug", "--log-file", str(log), "--record", str(files.with_suffix(".jsonl"))]
        proxy = [self._binary, *watch, *row.options, *upstream]
        plan = plan_of(row, editor, [feature for feature in FEATURES if feature not in cell.lacking])
        code, outcomes = self._talk([*editor.program(self._install), json.dumps(plan), *proxy], files)
        if code != 0:
            cell.faults.append(f"the editor ended with {code}")
        revision = outcomes.pop("connect", {}).get("revision", "?")
        cell.pair = f"{revision}→{spoken(log)}"
        wanted = f"{row.shown(editor)}→{row.revision(editor)}"
        if cell.pair != wanted:
            cell.faults.append(f"the revisions are {cell.pair} instead of {wanted}")
        for feature in plan["features"]:
            name = feature["name"]
            try:
                expect(name in outcomes, "the editor said nothing of it")
                judge(name, outcomes[name], row, editor)
                cell.passed.append(name)
            except Failure as error:
                cell.faults.append(f"{name}: {error}")

    def _talk(self, command: list[str], files: Path) -> tuple[int, dict[str, Params]]:
        """The editor's exit code, and what it says of each feature."""
        with files.with_suffix(".stderr").open("wb") as errors:
            process = processes.start(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=processes.environment(),
            )
            try:
                output, _ = process.communicate(timeout=PATIENCE)
            except subprocess.TimeoutExpired:
                raise Failure(f"the editor did not end within {PATIENCE} s") from None
            finally:
                processes.kill(process)
        outcomes = {}
        # Other characters that end lines elsewhere may be in a text.
        for line in filter(None, output.decode().split("\n")):
            outcome = json.loads(line)
            outcomes[outcome.pop("feature")] = outcome
        return process.returncode, outcomes

    # What is printed in the end.

    def table(self) -> Iterator[str]:
        width = len("2026-07-28→2026-07-28")
        yield ", ".join(f"{letter} {feature}" for feature, letter in FEATURES.items()) + "; - is lacking, ! failed"
        yield f"{'':<17}" + " ".join(f"{editor.name:<{width}}" for editor in self.editors)
        for row in self.rows:
            cells = [self.cells.get((editor.name, row.name)) for editor in self.editors]
            letters = " ".join(f"{cell.letters if cell else '':<{width}}" for cell in cells)
            pairs = " ".join(f"{cell.pair if cell else '':<{width}}" for cell in cells)
            yield f"{row.name:<17}{letters}".rstrip()
            yield f"{'':<17}{pairs}".rstrip()
        yield from self._reasons()

    def markdown(self) -> Iterator[str]:
        yield "| server | " + " | ".join(editor.title for editor in self.editors) + " |"
        yield "|---|" + "---|" * len(self.editors)
        for row in self.rows:
            cells = [self.cells.get((editor.name, row.name)) for editor in self.editors]
            shown = " | ".join(f"`{cell.letters}`<br>{cell.pair}" if cell else "" for cell in cells)
            yield f"| {row.title} | {shown} |"

    def is_whole(self) -> bool:
        """Whether nothing was left out."""
        return len(self.editors) == len(EDITORS) and len(self.rows) == self._count

    def check_document(self) -> None:
        """docs/interop.md shows what was found."""
        shown = DOCUMENT.read_text().split("\n")
        missing = [line for line in self.markdown() if line not in shown]
        expect(not missing, "\n    ".join(["tests/interop/run --markdown matrix prints what belongs there:", *missing]))

    def _reasons(self) -> Iterator[str]:
        for row in self.rows:
            cells = [self.cells.get((editor.name, row.name)) for editor in self.editors]
            reasons = {(feature, reason) for cell in cells if cell for feature, reason in cell.lacking.items()}
            for feature, reason in sorted(reasons):
                yield f"{row.name}: no {feature}: {reason}"


def spoken(log: Path) -> str:
    """The revision that the proxy says it speaks with the server."""
    found = re.findall(r"connected to .*, revision (\S+)", log.read_text(errors="replace")) if log.exists() else []
    return found[-1] if found else "?"


def tail(file: Path) -> list[str]:
    lines = file.read_text(errors="replace").splitlines() if file.exists() else []
    return [f"{file.suffix[1:]}: {shorten(line, 300)}" for line in lines[-LOG_LINES:]]
