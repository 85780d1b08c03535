"""Tests servers with several instances. `run` builds and installs what it needs, and starts it."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[1:1] = [str(HERE.parent / "interop")]

import clients
import conformance
import kill
import load
import others
import processes
from report import Report

PARTS = ("conformance", "clients", "kill", "load", "others")


def main() -> int:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("part", choices=("run", *PARTS), nargs="?", default="run")
    arguments.add_argument("--server", type=Path, required=True, help="the built everything-server")
    arguments.add_argument("--conformance", type=Path, required=True, help="where the suite is installed")
    arguments.add_argument("--interop", type=Path, required=True, help="where the SDKs are installed")
    arguments.add_argument("--folder", type=Path, required=True, help="for logs")
    arguments.add_argument("--mode", action="append", choices=("one", "memory", "sealed", "shared", "stored"), help="only these")
    given = arguments.parse_args()
    modes = given.mode or ["sealed", "stored"]
    short = given.part == "run"
    parts = ("conformance", "clients", "kill") if short else (given.part,)
    report, started = Report(), time.monotonic()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        for part in parts:
            print(f"\n== {part}", flush=True)
            folder = given.folder.resolve() / part
            if part == "conformance":
                conformance.check(report, given.server, given.conformance.resolve(), folder, modes, short)
            elif part == "clients":
                clients.check(report, given.server, given.interop.resolve(), folder, modes, short)
            elif part == "kill":
                kill.check(report, given.server, folder, short)
            elif part == "load":
                load.check(report, given.server, folder)
            elif part == "others":
                others.check(report, given.server, given.interop.resolve(), folder)
    finally:
        processes.kill_all()
    counts = f"{report.passed} passed, {report.failed} failed, {report.not_offered} set aside"
    print(f"\n{counts}, in {time.monotonic() - started:.0f} s")
    return 1 if report.failed or not report.passed else 0


if __name__ == "__main__":
    sys.exit(main())
