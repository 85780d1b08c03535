"""Prints what came of each check, and counts."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from processes import Stopping, is_stopping
from proxy import Failure

#: How much of a conversation is shown with a failure.
TRANSCRIPT_LINES = 12


class Transcript(Protocol):
    """What has the last lines of what was written and read."""

    def transcript(self, lines: int) -> list[str]: ...


class Report:
    """Prints a line per check, and counts."""

    def __init__(self) -> None:
        self.passed = self.failed = self.not_offered = 0
        self._failures: list[str] = []
        self._lock = threading.Lock()

    def _print(self, server: str, revision: str, check: str, outcome: str, details: Sequence[str] = ()) -> str:
        lines = [f"{server:<19} {revision:<11} {check:<18} {outcome}", *(f"    {line}" for line in details)]
        shown = "\n".join(lines)
        print(shown, flush=True)
        return shown

    def cell(self, line: str, passed: int, faults: Sequence[str], lacking: int) -> None:
        """A cell of the matrix."""
        with self._lock:
            self.passed += passed
            self.failed += len(faults)
            self.not_offered += lacking
            shown = "\n".join([f"{line} {'FAILED' if faults else 'ok'}", *(f"    {fault}" for fault in faults)])
            print(shown, flush=True)
            if faults:
                self._failures.append(shown)

    def print_failures(self) -> None:
        """Prints again what failed, which may be far up in the output."""
        for shown in self._failures:
            print(shown, flush=True)

    def check(
        self, server: str, revision: str, name: str, check: Callable[[], None], proxy: Transcript | None = None
    ) -> bool:
        """Makes a check; what was written and read last is shown if it fails."""
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
                shown = self._print(server, revision, name, f"FAILED {took}", [failure, *transcript])
                self._failures.append(shown)
        return failure is None

    def offers_not(self, server: str, revision: str, name: str, reason: str) -> None:
        with self._lock:
            self.not_offered += 1
            self._print(server, revision, name, f"not offered by the server: {reason}")
