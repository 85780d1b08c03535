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
#: How long a scenario may take, in seconds, where some wait for what never comes.
SOON = 5
#: How long the suite may take for all scenarios of a revision.
PATIENCE = 180.0

ANSWER_ELSEWHERE = "the client's answer to a request of the server arrives at an instance that has not sent the request"
EVENTS_ELSEWHERE = "the events for the client that resumes a stream are in the memory of another instance"
ENDED_ELSEWHERE = "a session that one instance has ended is known to the others until it expires"
CHANGE_ELSEWHERE = "a change that one instance publishes is not known to the others"
TASK_ELSEWHERE = "a task is known to the instance that has created it"

#: What sealed sessions do not have across instances.
NOT_SEALED = {
    "tools-call-sampling": ANSWER_ELSEWHERE,
    "tools-call-elicitation": ANSWER_ELSEWHERE,
    "elicitation-sep1034-defaults": ANSWER_ELSEWHERE,
    "elicitation-sep1330-enums": ANSWER_ELSEWHERE,
    "server-sse-polling": EVENTS_ELSEWHERE,
    "server-session-lifecycle": ENDED_ELSEWHERE,
    "server-stateless": CHANGE_ELSEWHERE,
    "tasks-dispatch-and-envelope": TASK_ELSEWHERE,
    "tasks-lifecycle": TASK_ELSEWHERE,
    "tasks-mrtr-composition": TASK_ELSEWHERE,
    "tasks-mrtr-input": TASK_ELSEWHERE,
    "tasks-request-headers": TASK_ELSEWHERE,
    "tasks-request-state-removal": TASK_ELSEWHERE,
    "tasks-wire-fields": TASK_ELSEWHERE,
}
#: Instances with which the suite has to fail.
CONTROLS = (
    ("memory", ()),
    ("sealed-differently", ()),
    ("shared", ("--fault", "append")),
    ("shared", ("--fault", "send")),
)


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

    def run(self, url: str, revision: str, out: Path, timeout: int = 30) -> Ran:
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir(parents=True)
        log = out / "suite.log"
        command = ["node", str(self._program), "server", "--url", url, "-o", str(out), "--requirements", revision]
        command += ["--timeout", str(timeout * 1000)]
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
            lacks = NOT_SEALED if mode == "sealed" else {}
            lacking = {name: why for name, why in lacks.items() if name in single.all}
            failed: set[str] = set()
            orders = ORDERS[:1] if short else ORDERS
            for order in orders:
                name = f"{mode}, {order}"
                fleet = own(program, folder / f"{revision}-{mode}-{order.replace(':', '-')}", mode, order=order)
                report.check(name, revision, "conformance", lambda: failed.update(three(suite, fleet, revision, single, lacking)))
            if lacking and not short:
                report.check(mode, revision, "what is lacking", lambda: all_fail(lacking, failed))
            for scenario, why in lacking.items():
                report.offers_not(mode, revision, scenario, why)
    for mode, options in CONTROLS:
        fleet = own(program, folder / f"control-{mode}{''.join(options)}", mode, order="round-robin", options=options)
        name = " ".join(["control:", mode, *options])
        report.check(name, "2025-11-25", "conformance", lambda: control(suite, fleet))


def three(suite: Suite, fleet: Fleet, revision: str, single: Ran, lacking: dict[str, str]) -> set[str]:
    """The scenarios that do not pass, which are only such as the mode lacks."""
    with running(fleet):
        ran = suite.run(fleet.url(), revision, fleet.folder / "results", SOON if lacking else 30)
        shares = fleet.shares()
    print(f"    {len(ran.passed)} of {len(single.passed)} scenarios pass; requests per instance: {shares}")
    lost = single.passed - ran.passed - set(lacking)
    expect(not lost, f"do not pass: {', '.join(sorted(lost))}; see {ran.log}")
    expect(all(int(share) > 0 for share in shares.split("+")), f"an instance received no request: {shares}")
    return single.passed - ran.passed


def all_fail(lacking: dict[str, str], failed: set[str]) -> None:
    """The list of what a mode lacks is not longer than it must be."""
    expect(set(lacking) <= failed, f"pass in every order: {', '.join(sorted(set(lacking) - failed))}")


def control(suite: Suite, fleet: Fleet) -> None:
    """Where an instance does not know what it has to know of the sessions of another, the suite must fail."""
    with running(fleet):
        ran = suite.run(fleet.url(), "2025-11-25", fleet.folder / "results", SOON)
    print(f"    {len(ran.failed)} of {len(ran.all)} scenarios fail: {', '.join(sorted(ran.failed)[:8])}")
    expect(len(ran.failed) > 0, f"the suite does not notice what is wrong; see {ran.log}")
