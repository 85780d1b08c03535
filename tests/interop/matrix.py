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
from proxy import Failure, Params, expect, shorten
from report import Report
from servers import (
    EVERYTHING,
    HERE,
    MODERN,
    REVISIONS,
    Call,
    EverythingTools,
    OwnTools,
    Server,
    all_servers,
    node,
    python,
    rmcp,
    typescript_2,
)

Command = Callable[[Path, Path, int], list[str]]

#: The features, and the letter of each in the matrix.
FEATURES = {
    "tools": "T",
    "progress": "P",
    "elicitation": "E",
    "sampling": "S",
    "cancel": "C",
    "list": "L",
    "subscription": "U",
}
#: How long an editor may take with all features; each of its steps has 30 s.
PATIENCE = 240.0
#: How much of what the proxy wrote is shown with a failure.
LOG_LINES = 12
#: A call that is cancelled would take this many seconds.
LONG = 60.0


@dataclass(frozen=True)
class Editor:
    """A client of an SDK in one of its ways to begin."""

    name: str
    title: str
    mode: str
    """`legacy` or `modern`."""
    program: Callable[[Path], list[str]]

    @property
    def revision(self) -> str:
        return MODERN if self.mode == "modern" else REVISIONS[-1]


def javascript(name: str) -> Callable[[Path], list[str]]:
    return lambda install: ["node", str(HERE / "editors" / f"{name}.mjs"), str(install / "npm")]


def interpreted(name: str) -> Callable[[Path], list[str]]:
    script = HERE / "editors" / f"{name.replace('-', '_')}.py"
    return lambda install: [str(install / name / "bin" / "python"), "-B", str(script)]


def compiled(install: Path) -> list[str]:
    return [str(install / "rmcp" / "rmcp-client")]


EDITORS = (
    Editor("ts1", "TypeScript 1.32", "legacy", javascript("typescript_1")),
    Editor("ts2-legacy", "TypeScript 2.4 legacy", "legacy", javascript("typescript_2")),
    Editor("ts2-modern", "TypeScript 2.4 modern", "modern", javascript("typescript_2")),
    Editor("py1", "Python 1.30", "legacy", interpreted("python-1")),
    Editor("py2-legacy", "Python 2.3 legacy", "legacy", interpreted("python-2")),
    Editor("py2-modern", "Python 2.3 modern", "modern", interpreted("python-2")),
    Editor("rmcp", "rmcp 3.9", "legacy", compiled),
    Editor("rmcp-modern", "rmcp 3.9 modern", "modern", compiled),
)


@dataclass
class Row:
    """A server, and how the proxy is told to reach it."""

    name: str
    title: str
    server: Server
    options: tuple[str, ...] = ()
    editors: tuple[str, ...] = ("legacy", "modern")
    """The editors whose cells say something that another row does not."""
    stdio: Command | None = None
    """The command of the server, if the proxy starts it."""
    forced: str = ""
    """The era that the options leave."""

    def era(self, editor: Editor) -> str:
        """The one that the proxy speaks with the server: the editor's own, if the server has it."""
        if self.forced:
            return self.forced
        has = {"legacy": bool(self.server.highest), "modern": bool(self.server.newest)}
        return editor.mode if has[editor.mode] else {"legacy": "modern", "modern": "legacy"}[editor.mode]

    def revision(self, editor: Editor) -> str:
        return self.server.newest if self.era(editor) == "modern" else self.server.highest


def rows() -> list[Row]:
    known = {server.name: server for server in all_servers()}
    own = OwnTools()
    fastmcp_4 = Server("fastmcp-4", "/mcp", own, python("fastmcp-4", "http"), newest=MODERN)
    ts2 = Server("typescript-2", "/mcp", own, typescript_2("http"), highest="", newest=MODERN)
    rust = Server("rmcp", "/mcp", own, rmcp("http"), newest=MODERN)
    python_2 = known["python-2-http"]
    everything = known["everything-http"]
    modern = {"options": ("--protocol", "modern"), "editors": ("legacy",), "forced": "modern"}
    legacy = {"options": ("--protocol", "legacy"), "editors": ("modern",), "forced": "legacy"}
    return [
        Row("every", "server-everything 2026.8.31", everything),
        Row("python-1", "Python 1.30", known["python-1-http"]),
        Row("python-2", "Python 2.3", python_2),
        Row("python-2-modern", "Python 2.3, `--protocol modern`", python_2, **modern),
        Row("python-2-legacy", "Python 2.3, `--protocol legacy`", python_2, **legacy),
        Row("fastmcp-4", "FastMCP 4.1", fastmcp_4),
        Row("fastmcp-4-modern", "FastMCP 4.1, `--protocol modern`", fastmcp_4, **modern),
        Row("ts2", "TypeScript 2.4, modern only", ts2),
        Row("rmcp", "rmcp 3.9", rust),
        Row("rmcp-modern", "rmcp 3.9, `--protocol modern`", rust, **modern),
        Row("mcp-hub", "mcp-hub 4.2 (HTTP+SSE)", known["mcp-hub"]),
        Row(
            "every-stdio",
            "server-everything over stdio",
            Server("everything-stdio", "", EverythingTools(), node(EVERYTHING, "stdio")),
            stdio=node(EVERYTHING, "stdio"),
        ),
        Row(
            "python-2-stdio",
            "Python 2.3 over stdio",
            Server("python-2-stdio", "", own, python("python-2", "stdio"), newest=MODERN),
            stdio=python("python-2", "stdio"),
        ),
        Row(
            "ts2-stdio",
            "TypeScript 2.4 over stdio, modern only",
            Server("typescript-2-stdio", "", own, typescript_2("stdio"), highest="", newest=MODERN),
            stdio=typescript_2("stdio"),
        ),
    ]


HUB_IS_A_CLIENT = "the hub is a client of its servers that offers them nothing, and passes on no progress token"
NO_SUBSCRIPTIONS = "the server takes no subscriptions"
NOT_SAID = "whatever a program does, the SDK says that it takes no subscriptions"
NO_LISTEN = "FastMCP does not answer subscriptions/listen"

#: What a server truly does not do, in which eras, and why: (server, feature) to (eras, reason).
LACKS: dict[tuple[str, str], tuple[tuple[str, ...], str]] = {
    ("mcp-hub", "progress"): (("legacy",), HUB_IS_A_CLIENT),
    ("mcp-hub", "elicitation"): (("legacy",), HUB_IS_A_CLIENT),
    ("mcp-hub", "sampling"): (("legacy",), HUB_IS_A_CLIENT),
    ("mcp-hub", "subscription"): (("legacy",), NO_SUBSCRIPTIONS),
    ("python-1-http", "subscription"): (("legacy",), NOT_SAID),
    ("fastmcp-4", "subscription"): (("legacy", "modern"), NO_SUBSCRIPTIONS),
    ("fastmcp-4", "list"): (("modern",), NO_LISTEN),
}


def lacking(row: Row, editor: Editor, feature: str) -> str | None:
    eras, reason = LACKS.get((row.server.name, feature), ((), ""))
    return reason if row.era(editor) in eras else None


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
    steps: dict[str, Callable[[], Params]] = {
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
        "features": [{"name": feature} | steps[feature]() for feature in features],
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
    def __init__(self, binary: str, install: Path, report: Report, pattern: str) -> None:
        self._binary, self._install, self._report = binary, install.resolve(), report
        self._folder = self._install / "run" / "matrix"
        _, self._editors, self._rows = (*pattern.split(":"), "*", "*")[:3]
        self.rows = [row for row in rows() if fnmatch.fnmatch(row.name, self._rows)]
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
            if any(row.stdio is None for row in mine):
                if not self._report.check(server.name, "-", "start", lambda: server.launch(self._install, folder)):
                    return
            else:
                folder.mkdir(parents=True)
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
        upstream = ["--", *row.stdio(self._install, folder, 0)] if row.stdio else [row.server.url()]
        watch = ["--log-level", "debug", "--log-file", str(log), "--record", str(files.with_suffix(".jsonl"))]
        proxy = [self._binary, *watch, *row.options, *upstream]
        plan = plan_of(row, editor, [feature for feature in FEATURES if feature not in cell.lacking])
        outcomes = self._outcomes([*editor.program(self._install), json.dumps(plan), *proxy], files)
        revision = outcomes.pop("connect", {}).get("revision")
        cell.pair = f"{revision}→{spoken(log)}"
        wanted = f"{row_revision(row, editor)}→{row.revision(editor)}"
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

    def _outcomes(self, command: list[str], files: Path) -> dict[str, Params]:
        """What the editor says of each feature."""
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
        for line in output.decode().splitlines():
            outcome = json.loads(line)
            outcomes[outcome.pop("feature")] = outcome
        expect(process.returncode == 0, f"the editor ended with {process.returncode} after {sorted(outcomes)}")
        return outcomes

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
            shown = " | ".join(f"`{cell.letters}` {cell.pair}" if cell else "" for cell in cells)
            yield f"| {row.title} | {shown} |"

    def _reasons(self) -> Iterator[str]:
        for row in self.rows:
            cells = [self.cells.get((editor.name, row.name)) for editor in self.editors]
            reasons = {(feature, reason) for cell in cells if cell for feature, reason in cell.lacking.items()}
            for feature, reason in sorted(reasons):
                yield f"{row.name}: no {feature}: {reason}"


def row_revision(row: Row, editor: Editor) -> str:
    """The revision that the editor ends up with: its own, unless an earlier server of its era has less."""
    return row.revision(editor) if row.era(editor) == editor.mode else editor.revision


def spoken(log: Path) -> str:
    """The revision that the proxy says it speaks with the server."""
    found = re.findall(r"connected to .*, revision (\S+)", log.read_text(errors="replace")) if log.exists() else []
    return found[-1] if found else "?"


def tail(file: Path) -> list[str]:
    lines = file.read_text(errors="replace").splitlines() if file.exists() else []
    return [f"{file.suffix[1:]}: {shorten(line, 300)}" for line in lines[-LOG_LINES:]]
