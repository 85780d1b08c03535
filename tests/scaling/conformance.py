"""The scenarios of the official suite for servers, against several instances."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import processes
from fleet import Fleet, own, running
from proxy import Failure, expect
from report import Report

#: The scenarios that the suite runs for what a server of a revision must pass, scored or not.
REVISIONS = {"2025-11-25": 33, "2026-07-28": 49}
ORDERS = ("round-robin", "random:1", "random:2")
#: How long the suite may take for all scenarios of a revision.
PATIENCE = 180.0

ANSWER_ELSEWHERE = "the client's answer to a request of the server arrives at an instance that has not sent the request"
EVENTS_ELSEWHERE = "the events for the client that resumes a stream are in the memory of another instance"
TASK_ELSEWHERE = "the server of the test has its tasks in the memory of each instance"

#: What sealed sessions do not have across instances.
NOT_SEALED = {
    "tools-call-sampling": ANSWER_ELSEWHERE,
    "tools-call-elicitation": ANSWER_ELSEWHERE,
    "elicitation-sep1034-defaults": ANSWER_ELSEWHERE,
    "elicitation-sep1330-enums": ANSWER_ELSEWHERE,
    "server-sse-polling": EVENTS_ELSEWHERE,
}
#: What the server of the test does not share with other instances in any mode.
NOT_SHARED: dict[str, str] = {}


@dataclass
class Ran:
    """The scenarios of a run of the suite."""

    passed: set[str]
    failed: set[str]
    log: Path

    @property
    def all(self) -> set[str]:
        return self.passed | self.failed


class Suite:
    def __init__(self, install: Path) -> None:
        self._program = install / "node_modules/conformance-0.2/dist/index.js"
        own_node = [str(path) for path in sorted((install / "node_modules").glob("node-*/bin"))]
        self._path = ":".join([*own_node, os.environ["PATH"]])

    def run(self, url: str, revision: str, out: Path) -> Ran:
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir(parents=True)
        log = out / "suite.log"
        command = ["node", str(self._program), "server", "--url", url, "-o", str(out), "--requirements", revision]
        with log.open("wb") as file:
            process = processes.start(
                command, stdout=file, stderr=subprocess.STDOUT, env=processes.environment() | {"PATH": self._path}
            )
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                raise Failure(f"the suite did not end within {PATIENCE} s; see {log}") from None
            finally:
                processes.kill(process)
        summary = log.read_text().partition("=== SUMMARY ===")[2]
        lines = re.findall(r"^([✓✗]) ([^ ]+): (\d+) passed, (\d+) failed", summary, re.MULTILINE)
        good = {name for mark, name, passed, failed in lines if mark == "✓" and passed != "0" and failed == "0"}
        unsuccessful = {name for name in good if self._has_unsuccessful(out, name)}
        names = {name for _, name, _, _ in lines}
        return Ran(good - unsuccessful, names - (good - unsuccessful), log)

    def _has_unsuccessful(self, out: Path, name: str) -> bool:
        """Whether there is a warning or a skipped check, which the suite counts as a success."""
        bad = {"FAILURE", "WARNING"} if name == "server-tasks-status-notifications" else {"FAILURE", "WARNING", "SKIPPED"}
        return any(
            check["status"] in bad
            for file in out.glob(f"server-{name}-2*/checks.json")
            for check in json.loads(file.read_text())
        )


def check(report: Report, program: Path, install: Path, folder: Path, modes: list[str], short: bool) -> None:
    """All that pass with one instance pass with three, but for what the mode does not have."""
    suite = Suite(install)
    for revision, count in REVISIONS.items():
        single: Ran | None = None

        def alone(revision: str = revision, count: int = count) -> None:
            nonlocal single
            with running(own(program, folder / f"{revision}-one", "memory", count=1)) as fleet:
                single = suite.run(fleet.url(), revision, fleet.folder / "results")
            expect(len(single.passed) == count, f"{len(single.passed)} of {count} pass; see {single.log}")

        if not report.check("one instance", revision, "conformance", alone) or single is None:
            continue
        for mode in modes:
            lacking = {name: why for name, why in {**NOT_SHARED, **(NOT_SEALED if mode == "sealed" else {})}.items() if name in single.all}
            for order in ORDERS[:1] if short else ORDERS:
                name = f"{mode}, {order}"
                fleet = own(program, folder / f"{revision}-{mode}-{order.replace(':', '-')}", mode, order=order)
                report.check(name, revision, "conformance", lambda: three(suite, fleet, revision, single, lacking))
            for scenario, why in lacking.items():
                report.offers_not(mode, revision, scenario, why)
    for mode in ("memory", "sealed-differently"):
        fleet = own(program, folder / f"control-{mode}", mode, order="round-robin")
        report.check(f"control: {mode}", "2025-11-25", "conformance", lambda: control(suite, fleet))


def three(suite: Suite, fleet: Fleet, revision: str, single: Ran, lacking: dict[str, str]) -> None:
    with running(fleet):
        ran = suite.run(fleet.url(), revision, fleet.folder / "results")
        shares = fleet.shares()
    print(f"    {len(ran.passed)} of {len(single.passed)} scenarios pass; requests per instance: {shares}")
    lost = single.passed - ran.passed - set(lacking)
    expect(not lost, f"do not pass: {', '.join(sorted(lost))}; see {ran.log}")
    expect(all(int(share) > 0 for share in shares.split("+")), f"an instance received no request: {shares}")
    if fleet.order == "round-robin":
        # The list of what a mode lacks is not longer than it must be.
        more = ran.passed & set(lacking)
        expect(not more, f"pass although they are listed as lacking: {', '.join(sorted(more))}")


def control(suite: Suite, fleet: Fleet) -> None:
    """Where no instance knows the sessions of another, the suite must fail."""
    with running(fleet):
        ran = suite.run(fleet.url(), "2025-11-25", fleet.folder / "results")
    print(f"    {len(ran.passed)} of {len(ran.all)} scenarios pass")
    expect(len(ran.failed) > len(ran.all) / 2, f"the suite does not notice that sessions are not shared; see {ran.log}")
