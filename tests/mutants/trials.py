"""Runs the tests of the copy: each alone to record the mutants that it reaches, and with a mutant to see which fail."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import threading
import time
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field
from pathlib import Path

from build import REPOSITORY, TARGET, Mutant
from outcomes import Outcome

BASELINE = TARGET / "baseline.json"
# The timeout of a test, in seconds: FLOOR, plus up to TIMES its duration without a mutant (see `patience`).
FLOOR = 6.0
TIMES = 8.0
# The most memory of a process, in KiB: a mutant may allocate without a limit.
MEMORY = 6 * 1024 * 1024
# Tests that take more seconds are not used.
LONGEST = 45.0
# The seconds of tests in one run; the time limit of a mutant is checked between runs.
PORTION = 10.0
# A test that only computes may take at most this many times as long as its processor time.
STANDSTILL = 6.0
DRIVERS = ("mcp-tokio", "mcp-blocking", "mcp-proxy")
# Programs whose tests compare whole transcripts of machines. They catch the most mutants and therefore run first.
ATTENTIVE = ("fuzz/test/corpora", "tests/test/random_peers")


@dataclass(frozen=True)
class Program:
    """A test binary."""

    name: str
    package: str
    executable: str
    folder: str

    @property
    def waits(self) -> bool:
        """Whether its tests wait for sockets, pipes and processes."""
        return self.package in DRIVERS


@dataclass
class Test:
    program: Program
    name: str
    seconds: float = 0.0
    reached: list[int] = field(default_factory=list)

    @property
    def title(self) -> str:
        return f"{self.program.name} {self.name}"


@dataclass
class Ended:
    """How a run of some tests ended; `seconds` as in `seconds_of`."""

    passed: bool
    timed_out: bool
    # The test that failed, or that was running when the process ended.
    culprit: str | None
    seconds: float
    output: str


def programs(messages: Iterable[dict]) -> list[Program]:
    found = []
    for message in messages:
        if message["reason"] == "compiler-artifact" and message["executable"] and message["profile"]["test"]:
            folder = Path(message["manifest_path"]).parent
            kind = message["target"]["kind"][0]
            name = f"{folder.name}/{'unit' if kind in ('lib', 'bin') else kind}/{message['target']['name']}"
            found.append(Program(name, folder.name, message["executable"], str(folder)))
    return sorted(found, key=lambda program: program.name)


def listed(program: Program) -> list[str]:
    done = subprocess.run([program.executable, "--list", "--format", "terse"], cwd=program.folder, text=True,
                          stdout=subprocess.PIPE, check=True)
    ignored = subprocess.run([program.executable, "--list", "--format", "terse", "--ignored"], cwd=program.folder, text=True,
                             stdout=subprocess.PIPE, check=True)
    names = [line.removesuffix(": test") for line in done.stdout.splitlines() if line.endswith(": test")]
    return [name for name in names if f"{name}: test" not in ignored.stdout.splitlines()]


def end_session(leader: int) -> None:
    """Ends all processes that a run has started and left behind, in any process group."""
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        try:
            with open(f"/proc/{entry.name}/stat") as file:
                fields = file.read().rpartition(")")[2].split()
            if int(fields[3]) == leader and fields[0] != "Z":
                os.kill(int(entry.name), signal.SIGKILL)
        except (OSError, IndexError, ValueError):
            continue


TICK = os.sysconf("SC_CLK_TCK")


def seconds_of(program: Program, process: int, start: float) -> float:
    """The seconds that a process has taken: processor time if its tests only compute, because the load of the computer
    changes that little; else elapsed time."""
    wall = time.monotonic() - start
    if program.waits:
        return wall
    try:
        with open(f"/proc/{process}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return wall
    # A test that uses no processor time must also end.
    return max((int(fields[11]) + int(fields[12])) / TICK, wall / STANDSTILL)


def run(program: Program, names: list[str], folder: Path, settings: dict[str, str], patience: float, threads: int = 1) -> Ended:
    """Runs some tests of a program until one fails, or until no test has ended for `patience` seconds."""
    environment = {
        **os.environ,
        "RUST_BACKTRACE": "0",
        # The cases are the same each time; a failing case is not shrunk, and not stored for the next mutant.
        "PROPTEST_RNG_SEED": "1", "PROPTEST_MAX_SHRINK_ITERS": "0", "PROPTEST_DISABLE_FAILURE_PERSISTENCE": "true",
        "MUTANTS_TMPDIR": str(folder),
        **settings,
    }
    schemas = (REPOSITORY / "../shared/spec/schema").resolve()
    if schemas.is_dir():
        environment.setdefault("MCP_SCHEMAS", str(schemas))
    start = time.monotonic()
    process = subprocess.Popen(
        ["sh", "-c", f'ulimit -v {MEMORY}; exec "$0" "$@"', program.executable, "--exact", *names, f"--test-threads={threads}"],
        cwd=program.folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    output = bytearray()
    handle = os.pidfd_open(process.pid)
    stdout = process.stdout.fileno()
    os.set_blocking(stdout, False)
    seconds = last = 0.0
    counted, timed_out, is_open = 0, False, True
    try:
        while True:
            ready, _, _ = select.select([stdout, handle] if is_open else [handle], [], [], max(0.01, min(1.0, last + patience - seconds)))
            # The times of the process must be read before it is waited for; afterwards they are gone.
            seconds = seconds_of(program, process.pid, start)
            part = b""
            if is_open:
                try:
                    part = os.read(stdout, 65536)
                    # No bytes mean that stdout is closed, which may happen before the process ends.
                    is_open = bool(part)
                except BlockingIOError:
                    pass
            output += part[: max(0, 1_000_000 - len(output))]
            if b"... FAILED" in output or b"\nFAILED" in output:
                break
            if handle in ready and not part:
                break
            ended = output.count(b"... ok")
            if ended > counted:
                counted, last = ended, seconds
            if not part and seconds > last + patience:
                timed_out = True
                break
    finally:
        os.close(handle)
        process.stdout.close()
        status = process.poll()
        text = output.decode(errors="replace")
        passed = status == 0 and f"test result: ok. {len(names)} passed" in text
        if not passed or program.waits:
            end_session(process.pid)
        process.wait()
    culprit = None
    if not passed:
        failed = re.search(r"^test (\S+)(?: - should panic)? \.\.\. FAILED", text, re.MULTILINE)
        started = re.findall(r"^test (\S+)(?: - should panic)? \.\.\. ?", text, re.MULTILINE)
        done = re.findall(r"^test (\S+)(?: - should panic)? \.\.\. .*(?:ok|ignored)", text, re.MULTILINE)
        left = [name for name in started if name not in done] or [name for name in names if name not in done]
        culprit = failed[1] if failed else left[0] if left else names[0]
        if culprit not in names:
            culprit = names[0]
    return Ended(passed, timed_out, culprit, seconds, text)


def worker_folder(worker: int) -> Path:
    folder = TARGET / f"tmp-{worker}"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


class Workers:
    """A pool of threads, each with its own folder. Results are returned in the order in which they are ready."""

    def __init__(self, count: int) -> None:
        self.pool = ThreadPoolExecutor(count)
        self.free = list(range(count))
        self.lock = threading.Lock()

    def map(self, work: Callable, items: Iterable) -> Iterable:
        def with_folder(item: object) -> object:
            with self.lock:
                worker = self.free.pop()
            try:
                return work(item, worker_folder(worker))
            finally:
                with self.lock:
                    self.free.append(worker)
        return (done.result() for done in as_completed([self.pool.submit(with_folder, item) for item in items]))


def baseline(messages: Iterable[dict], workers: int) -> list[Test]:
    """All tests that pass without a mutant, with the seconds that they take and the mutants that they reach."""
    found = programs(messages)
    stamps = {program.executable: os.stat(program.executable).st_mtime_ns for program in found}
    kept = json.loads(BASELINE.read_text()) if BASELINE.exists() else {"tests": [], "slow": [], "stamps": {}}
    # The programs that are as they were when their tests were measured.
    same = {program for program, stamp in stamps.items() if kept["stamps"].get(program) == stamp}
    known = {(test["program"]["executable"], test["name"]): test for test in kept["tests"]}
    tests = [Test(program, name) for program in found for name in listed(program)]
    slow = [[executable, name] for executable, name in kept["slow"] if executable in same]
    tests = [test for test in tests if [test.program.executable, test.name] not in slow]

    def measure(test: Test, folder: Path) -> Test | None:
        before = known.get((test.program.executable, test.name))
        if test.program.executable in same and before:
            test.seconds, test.reached = before["seconds"], before["reached"]
            return test
        record = folder / "reached"
        for attempt in range(2):
            record.unlink(missing_ok=True)
            ended = run(test.program, [test.name], folder, {"MUTANT_REACHED": str(record)}, LONGEST)
            if ended.passed or ended.timed_out:
                break
        test.seconds = ended.seconds
        test.reached = sorted({int(line) for line in record.read_text().split()}) if record.exists() else []
        if ended.passed and attempt == 0:
            return test
        if ended.timed_out:
            slow.append([test.program.executable, test.name])
        why = "fails at times" if ended.passed else f"takes more than {LONGEST:.0f} s" if ended.timed_out else "fails"
        print(f"not used, since it {why} without a mutant: {test.title}", flush=True)
        if not ended.passed and not ended.timed_out:
            print("    " + "\n    ".join(ended.output.splitlines()[-12:]), flush=True)
        return None

    start = time.monotonic()
    good = []
    for place, test in enumerate(Workers(workers).map(measure, tests), 1):
        if test:
            good.append(test)
        if place % 100 == 0:
            print(f"{place} of {len(tests)} tests ran without a mutant, in {time.monotonic() - start:.0f} s", flush=True)
    BASELINE.write_text(json.dumps({"stamps": stamps, "slow": slow, "tests": [asdict(test) for test in good]}))
    print(f"{len(good)} of {len(tests)} tests pass, in {sum(test.seconds for test in good):.0f} s one by one"
          f" ({time.monotonic() - start:.0f} s now)", flush=True)
    return good


def patience(tests: Iterable[Test]) -> float:
    """The seconds to wait until the next of these tests ends."""
    most = max(test.seconds for test in tests)
    return FLOOR + min(TIMES * most, 12 + 2 * most)


def portions(tests: list[Test]) -> Iterable[list[Test]]:
    """The tests in portions of at most PORTION seconds, if no single test takes longer."""
    portion: list[Test] = []
    for test in tests:
        if portion and sum(test.seconds for test in portion) + test.seconds > PORTION:
            yield portion
            portion = []
        portion.append(test)
    yield portion


class Trials:
    """Tries mutants."""

    def __init__(self, tests: list[Test], cap: float, kept: dict[str, Outcome]) -> None:
        self.cap, self.kept = cap, kept
        self.tests = {test.title: test for test in tests}
        self.reaching: dict[int, list[Test]] = defaultdict(list)
        for test in sorted(tests, key=lambda test: test.seconds):
            for number in test.reached:
                self.reaching[number].append(test)
        # For each place, the tests that caught mutants in it, the latest first.
        self.catchers: dict[object, OrderedDict[str, None]] = defaultdict(OrderedDict)
        self.lock = threading.Lock()

    def caught_by(self, mutant: Mutant, test: Test) -> None:
        with self.lock:
            for place in (mutant.place, mutant.file):
                self.catchers[place].pop(test.title, None)
                self.catchers[place][test.title] = None

    def favourites(self, mutant: Mutant, reaching: dict[str, Test]) -> list[Test]:
        with self.lock:
            near = list(reversed(self.catchers[mutant.place]))[:4] + list(reversed(self.catchers[mutant.file]))[:3]
        before = self.kept.get(mutant.key)
        titles = dict.fromkeys([*([before.test] if before else []), *near])
        return [reaching[title] for title in titles if title in reaching and reaching[title].seconds < 3]

    def bundles(self, mutant: Mutant, reaching: dict[str, Test]) -> Iterable[list[Test]]:
        """The tests for each run: first those that are likely to fail, then all others, the quick ones first."""
        rest = dict(reaching)
        by_program: dict[Program, list[Test]] = defaultdict(list)
        for test in self.favourites(mutant, reaching):
            by_program[test.program].append(rest.pop(test.title))
        yield from by_program.values()
        for test in [test for test in rest.values() if test.program.name in ATTENTIVE]:
            yield [rest.pop(test.title)]
        for bound in (0.1, 0.5, 2.0, float("inf")):
            by_program = defaultdict(list)
            for title in [title for title, test in rest.items() if test.seconds < bound]:
                test = rest.pop(title)
                by_program[test.program].append(test)
            for tests in sorted(by_program.values(), key=lambda tests: (tests[0].program.waits, sum(test.seconds for test in tests))):
                yield from portions(tests)

    def try_mutant(self, mutant: Mutant, folder: Path) -> Outcome:
        seconds = 0.0
        outcome = lambda state, test="": Outcome(mutant.key, state, test)
        reaching = {test.title: test for test in self.reaching[mutant.id]}
        if not reaching:
            return outcome("unreached")
        settings = {"MUTANT": str(mutant.id)}
        for bundle in self.bundles(mutant, reaching):
            left = bundle
            while left:
                if seconds > self.cap:
                    return outcome("undecided")
                program = left[0].program
                time_left = patience(left)
                threads = min(4, len(left)) if program.waits else 1
                ended = run(program, [test.name for test in left], folder, settings, time_left, threads)
                seconds += ended.seconds
                if ended.passed:
                    break
                test = next(test for test in left if test.name == ended.culprit)
                # With other tests in the same run, or with sockets and timers, a test may fail for another reason.
                is_alone = len(left) == 1 and not program.waits
                if not is_alone and run(program, [test.name], folder, settings, time_left).passed:
                    done = re.findall(r"^test (\S+)(?: - should panic)? \.\.\. ok", ended.output, re.MULTILINE)
                    left = [other for other in left if other is not test and other.name not in done]
                    continue
                self.caught_by(mutant, test)
                return outcome("timeout" if ended.timed_out else "caught", test.title)
        return outcome("missed")
