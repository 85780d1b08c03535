"""The clients of the SDKs at several instances: each feature of the matrix, and the resumption of a stream."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import processes
from fleet import Fleet, own, running
from grid import EDITORS, Editor, Row
from matrix import judge, plan_of
from proxy import Failure, Params, expect
from report import Report
from servers import MODERN, OwnTools, Server

#: All that an editor does, in this order.
FEATURES = ("tools", "progress", "resumption", "elicitation", "sampling", "cancel", "list", "subscription")
PATIENCE = 240.0
#: What is asked in one go, so that two instances are seldom the same by chance.
ROUNDS = 3

ONE_ONLY = {
    "resumption": "the events for replay are in the memory of another instance",
    "elicitation": "the client's answer arrives at an instance that has not sent the request",
    "sampling": "the client's answer arrives at an instance that has not sent the request",
    "cancel": "the cancellation arrives at an instance that does not have the call",
    "list": "the client's stream is at an instance that does not know of the change",
    "subscription": "the client's stream is at an instance that does not know of the subscription or the update",
}
#: What a revision without sessions does not need a session for.
MODERN_HAS = ("resumption", "elicitation", "sampling", "cancel")


def lacking(mode: str, editor: Editor, feature: str) -> str | None:
    if feature == "resumption" and editor.mode == "modern":
        return "2026-07-28 has no resumption"
    if mode == "sealed" and not (editor.mode == "modern" and feature in MODERN_HAS):
        return ONE_ONLY.get(feature)
    return None


def plan(row: Row, editor: Editor, features: list[str], rounds: int) -> Params:
    known = [feature for feature in features if feature != "resumption"]
    made = plan_of(row, editor, known)
    of = {feature["name"]: feature for feature in made["features"]}
    call = OwnTools().hang_up(0.3)
    of["resumption"] = {"name": "resumption", "call": {"name": call.name, "arguments": call.arguments}}
    made["features"] = [of[feature] for feature in features] * rounds
    return made


def talk(editor: Editor, install: Path, made: Params, url: str, files: Path, patience: float = PATIENCE) -> tuple[int, list[Params]]:
    """The exit code of the editor, and what it has observed, line by line."""
    files.parent.mkdir(parents=True, exist_ok=True)
    with files.with_suffix(".stderr").open("wb") as errors:
        command = [*editor.program(install), json.dumps(made), url]
        process = processes.start(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, env=processes.environment()
        )
        try:
            output, _ = process.communicate(timeout=patience)
        except subprocess.TimeoutExpired:
            raise Failure(f"the client did not end within {patience} s; see {files}.stderr") from None
        finally:
            processes.kill(process)
    return process.returncode, [json.loads(line) for line in output.decode().split("\n") if line]


def use(editor: Editor, install: Path, fleet: Fleet, features: list[str], rounds: int, patience: float = PATIENCE) -> str:
    """Lets the client do all this, and returns its revision."""
    row = Row("everything", "", described())
    files = fleet.folder / editor.name
    made = plan(row, editor, features, rounds)
    if patience < PATIENCE:
        made["patience"] = patience
    code, lines = talk(editor, install, made, fleet.url(), files)
    faults = [] if code == 0 else [f"the client ended with {code}; see {files}.stderr"]
    revision = lines.pop(0).get("revision", "?") if lines else "?"
    for number in range(rounds):
        for position, feature in enumerate(features):
            index = number * len(features) + position
            try:
                expect(index < len(lines), "nothing was observed")
                outcome = lines[index]
                if feature == "resumption":
                    expect(outcome.get("text") == "fetched", outcome.get("error", str(outcome)))
                else:
                    judge(feature, outcome, row, editor)
            except Failure as error:
                faults.append(f"{feature}, round {number + 1}: {error}")
    expect(not faults, "\n    ".join(faults))
    return str(revision)


def described() -> Server:
    return Server("everything", "/mcp", OwnTools(), lambda install, folder, port: [], newest=MODERN)


def check(report: Report, program: Path, install: Path, folder: Path, modes: list[str], short: bool) -> None:
    for mode in modes:
        for editor in EDITORS:
            if short and editor.mode == "modern":
                continue
            reasons = {feature: lacking(mode, editor, feature) for feature in FEATURES}
            features = [feature for feature, why in reasons.items() if why is None]
            fleet = own(program, folder / f"{mode}-{editor.name}", mode, order="round-robin" if short else "random:7")
            report.check(mode, editor.name, "client", lambda: one(editor, install, fleet, features, 1 if short else ROUNDS))
            for feature, why in reasons.items():
                if why is not None:
                    report.offers_not(mode, editor.name, feature, why)
    if "stored" in modes or "shared" in modes:
        editor = next(editor for editor in EDITORS if editor.name == "py1")
        for fault, feature in (("save", "subscription"), ("send", "cancel"), ("append", "resumption")):
            fleet = own(program, folder / f"control-{fault}", "shared", order="round-robin", options=("--fault", fault))
            name = f"control: {fault}"
            report.check(name, editor.name, feature, lambda: must_fail(editor, install, fleet, feature))


def one(editor: Editor, install: Path, fleet: Fleet, features: list[str], rounds: int) -> None:
    with running(fleet):
        try:
            revision = use(editor, install, fleet, features, rounds)
        finally:
            shares = fleet.shares()
            bad = [exchange for exchange in fleet.exchanges() if exchange["status"] not in (200, 202, 204)]
            print(f"    {' '.join(features)}; requests per instance: {shares}; other statuses: {sorted({(e['method'], e['rpc'], e['status']) for e in bad})}")
    wanted = MODERN if editor.mode == "modern" else "2025-11-25"
    expect(revision == wanted, f"the revision is {revision} instead of {wanted}")


def must_fail(editor: Editor, install: Path, fleet: Fleet, feature: str) -> None:
    with running(fleet):
        try:
            use(editor, install, fleet, [feature], 1, patience=5.0)
        except Failure as failure:
            print(f"    {str(failure)[:160]}")
            expect(f"no {feature} within" in str(failure), "it fails for another reason")
            return
    raise Failure("it passes although the store has a fault")
