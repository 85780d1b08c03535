"""What became of each mutant that was tried, kept in outcomes.txt, so that a clone has it."""

from __future__ import annotations

import datetime
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from build import REPOSITORY, Mutant, function_hashes

FILE = Path(__file__).resolve().parent / "outcomes.txt"
CAUGHT = ("caught", "timeout", "tested")
MISSED = ("missed", "undecided", "unreached")

HEADER = """\
# What became of the mutants that were tried. tests/mutants/run writes this file; `tests/mutants/run score` reads it.
#
# `area` and the number of its mutants that build; `commit` with its date; then for each file and each function, with a hash
# of its text, one line for each mutant: the state, the commit, the test that caught it, and the change.
#
# caught, timeout: a test failed, or did not end. tested: the same, after no test had failed when it was tried first.
# missed: no test failed. unreached: no test gets there. undecided: the tests took too long.
"""


@dataclass(frozen=True)
class Outcome:
    key: str
    # One of CAUGHT or MISSED, or while it is not kept: unviable, constant.
    state: str
    # The title of the test that caught it, or nothing.
    test: str
    commit: str = ""
    # The hash of the text of its function.
    text: str = ""


class Kept:
    """The outcomes in the file."""

    def __init__(self) -> None:
        self.sizes: dict[str, int] = {}
        self.dates: dict[str, str] = {}
        self.outcomes: dict[str, Outcome] = {}
        place = ["", "", ""]
        for line in FILE.read_text().splitlines() if FILE.exists() else ():
            if line.startswith("#") or not line:
                continue
            if line.startswith("area "):
                _, name, count = line.split()
                self.sizes[name] = int(count)
            elif line.startswith("commit "):
                _, commit, date = line.split()
                self.dates[commit] = date
            elif not line.startswith(" "):
                place[0] = line
            elif not line.startswith("    "):
                place[1], _, place[2] = line.strip().rpartition(" ")
            else:
                start, _, change = line.strip().partition(" | ")
                state, commit, *test = start.split(" ", 2)
                key = f"{place[0]}: {place[1]}: {change}"
                self.outcomes[key] = Outcome(key, state, test[0] if test else "", commit, place[2])

    def add(self, outcome: Outcome) -> None:
        before = self.outcomes.get(outcome.key)
        if outcome.state in ("caught", "timeout") and before and before.text == outcome.text and before.state in (*MISSED, "tested"):
            outcome = replace(outcome, state="tested")
        self.outcomes[outcome.key] = outcome

    def forget_changed(self, mutants: Iterable[Mutant]) -> int:
        """Leaves out the outcomes of mutants that are not there any more, or whose function has changed. Returns their
        number."""
        texts = function_hashes(mutants)
        fresh = {key: outcome for key, outcome in self.outcomes.items() if texts.get(key) == outcome.text}
        gone = len(self.outcomes) - len(fresh)
        self.outcomes = fresh
        return gone

    def write(self, mutants: list[Mutant]) -> None:
        lines = [HEADER, *(f"area {name} {count}\n" for name, count in sorted(self.sizes.items()))]
        used = {outcome.commit for outcome in self.outcomes.values()}
        lines += [f"commit {commit} {date}\n" for commit, date in sorted(self.dates.items(), key=lambda pair: pair[::-1]) if commit in used]
        file = function = None
        for mutant in sorted(mutants, key=lambda mutant: (mutant.file, mutant.id)):
            outcome = self.outcomes.get(mutant.key)
            if outcome is None:
                continue
            if mutant.file != file:
                file, function = mutant.file, None
                lines.append(f"{file}\n")
            if (mutant.function, outcome.text) != function:
                function = (mutant.function, outcome.text)
                lines.append(f"  {mutant.function} {outcome.text}\n")
            change = mutant.key.removeprefix(f"{mutant.file}: {mutant.function}: ")
            test = f" {outcome.test}" if outcome.test else ""
            lines.append(f"    {outcome.state} {outcome.commit}{test} | {change}\n")
        temporary = FILE.with_suffix(".new")
        temporary.write_text("".join(lines))
        temporary.replace(FILE)


def commit_now() -> tuple[str, str]:
    """The commit that is checked out, and its date."""
    done = subprocess.run(["git", "log", "-1", "--format=%h %cs", "--abbrev=8"], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True)
    words = done.stdout.split()
    return (words[0], words[1]) if len(words) == 2 else ("unknown", datetime.date.today().isoformat())
