"""A sample of the mutants that were caught, tried again with the tests that caught them."""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

from build import PURE, TARGET, cargo_in, copy_tree, described_now, generate, mutants_of, write_other_modules
from outcomes import Kept, Outcome, commit_now
from trials import Test, Workers, listed, patience, programs, run

# A copy of its own, with the mutants of the sample only, so that it takes no longer to build than the workspace.
TREE = TARGET / "sample"
# Dependencies are shared with the build of the workspace: their profiles do not follow this level.
SETTINGS = {"CARGO_TARGET_DIR": str(TARGET.parent), "CARGO_PROFILE_DEV_OPT_LEVEL": "0"}
# The tests of this package wait for no socket and no process, so that the same ones fail each time.
PACKAGE = "tests"
# A test that takes more seconds is not run.
LONGEST = 4.0


def check(kept: Kept, count: int, most: int, workers: int) -> int:
    """Tries some mutants of `kept`, whose functions have not changed."""
    start = time.monotonic()
    described = described_now()
    mutants = mutants_of(described)
    seed = commit_now()[0]
    # In a `const fn`, mutants would need a build that finds out which functions have to stay constant.
    constant = {mutant.key for mutant in mutants if f"{mutant.file}: {mutant.function}" in described["constants"]}
    candidates = [outcome for outcome in kept.outcomes.values() if outcome.state in ("caught", "tested")
                  and outcome.key.split("/")[0] in PURE and program_of(outcome) and outcome.key not in constant]
    order = lambda text: hashlib.sha256(f"{seed} {text}".encode()).digest()
    names = programs_for(candidates, most, order)
    # Twice as many, because some tests may have other names now.
    candidates = sorted((outcome for outcome in candidates if program_of(outcome) in names),
                        key=lambda outcome: order(outcome.key))[: 2 * count]
    wanted = {outcome.key for outcome in candidates}
    copy_tree(TREE)
    description = generate(TREE, {mutant.key for mutant in mutants} - wanted, described["constants"])
    write_other_modules(TREE, description)
    arguments = [argument for name in sorted(names) for argument in ("--test", name)]
    built, messages = cargo_in(TREE, SETTINGS, "test", "--no-run", "--package", PACKAGE, *arguments)
    if not built:
        errors = [message["message"]["rendered"] for message in messages if (message.get("message") or {}).get("level") == "error"]
        print("\n".join([*errors, "the copy with the mutants of the sample does not build"]))
        return 1
    print(f"built {len(wanted)} mutants and {len(names)} test programs in {time.monotonic() - start:.0f} s", flush=True)
    return try_sample(candidates, {mutant.key: mutant.id for mutant in mutants_of(description)}, messages, count, workers)


def program_of(outcome: Outcome) -> str | None:
    """The name of the test program that caught a mutant, if it is one of PACKAGE."""
    package, kind, name = outcome.test.split(" ")[0].split("/")
    return name if (package, kind) == (PACKAGE, "test") else None


def programs_for(candidates: Iterable[Outcome], most: int, order: Callable[[str], bytes]) -> set[str]:
    """Some of the programs that caught mutants, by chance; one that caught many is more likely to be among them."""
    counts = Counter(program_of(outcome) for outcome in candidates)
    chance = lambda name: (int.from_bytes(order(name)[:8]) / 2**64) ** (1 / counts[name])
    return set(sorted(counts, key=chance, reverse=True)[:most])


def try_sample(candidates: list[Outcome], numbers: dict[str, int], messages: Iterable[dict], count: int, workers: int) -> int:
    start = time.monotonic()
    tests = {test.title: test for program in programs(messages) for test in (Test(program, name) for name in listed(program))}
    pool = Workers(workers)

    def measure(test: Test, folder: Path) -> tuple[str, bool]:
        ended = run(test.program, [test.name], folder, {}, 10 * LONGEST)
        test.seconds = ended.seconds
        return test.title, ended.passed

    titles = dict.fromkeys(outcome.test for outcome in candidates if outcome.test in tests)
    passed = dict(pool.map(measure, [tests[title] for title in titles]))
    failing = sorted(title for title, has_passed in passed.items() if not has_passed)
    good = [outcome for outcome in candidates if passed.get(outcome.test) and tests[outcome.test].seconds < LONGEST][:count]

    def attempt(outcome: Outcome, folder: Path) -> tuple[Outcome, bool]:
        test = tests[outcome.test]
        ended = run(test.program, [test.name], folder, {"MUTANT": str(numbers[outcome.key])}, patience([test]))
        return outcome, not ended.passed

    missed = [outcome for outcome, is_caught in pool.map(attempt, good) if not is_caught]
    print(f"{len(good) - len(missed)} of {len(good)} mutants were caught again, in {time.monotonic() - start:.0f} s")
    for title in failing:
        print(f"fails without a mutant: {title}")
    for outcome in missed:
        print(f"was caught at {outcome.commit} by {outcome.test}, and is not any more: {outcome.key}")
    if len(good) < count:
        print(f"only {len(good)} outcomes of {count} are left to be tried: run tests/mutants/run --count 500, and commit outcomes.txt")
    return int(bool(missed or failing) or len(good) < count)
