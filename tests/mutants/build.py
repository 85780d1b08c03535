"""The copy of the workspace that contains all mutants, and its build."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", REPOSITORY / "target")).resolve() / "mutants"
TREE = TARGET / "tree"
BUILD = TARGET / "build"
DESCRIPTION = TARGET / "description.json"
# Mutants that do not build, each with a hash of the function's text; and functions that must stay `const`.
UNVIABLE = TARGET / "unviable.tsv"
CONSTANTS = TARGET / "constants.txt"

# The folders of the crates without I/O.
PURE = ["mcp-proto", "mcp-auth", "mcp-model", "mcp-intermediary", "mcp-application"]
ROOTS = [
    *(f"{folder}/src/lib.rs" for folder in PURE), "mcp-platform/src/lib.rs", "mcp-token-store/src/lib.rs", "mcp-tokio/src/lib.rs", "mcp-blocking/src/lib.rs",
    "mcp-proxy/src/main.rs",
]
# The folders with mutants, and the package of each.
CRATES = {
    **{folder: folder for folder in PURE}, "mcp-platform": "mcp-platform", "mcp-token-store": "mcp-token-store", "mcp-tokio": "mcp-tokio",
    "mcp-blocking": "mcp-blocking", "mcp-proxy": "mcp-proto-proxy",
}
PACKAGES = [*CRATES.values()]
# The packages whose tests are run.
TESTED = [*PACKAGES, "fuzz", "tests"]
# Errors about a value that was moved or borrowed before: what was inserted there is the cause, not the later use.
ABOUT_EARLIER = ("E0382", "E0499", "E0502", "E0505", "E0506")
# Tests write to a folder, of which each worker has its own.
TEST_FOLDER = ('env!("CARGO_TARGET_TMPDIR")', '&std::env::var("MUTANTS_TMPDIR").unwrap()')


@dataclass(frozen=True)
class Mutant:
    id: int
    key: str
    file: str
    line: int
    last_line: int
    span: tuple[int, int]
    function: str
    function_span: tuple[int, int]
    # One of: live, constant, left out (it does not build), not wanted.
    state: str

    @property
    def place(self) -> tuple[str, str]:
        return self.file, self.function


def sources() -> list[str]:
    """The paths of all files of the workspace, relative to its root."""
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=REPOSITORY,
                            stdout=subprocess.PIPE, text=True, check=True).stdout
    return sorted({name for name in listed.split("\0") if name and (REPOSITORY / name).is_file()})


def folder_links() -> list[str]:
    """The links of the workspace that lead to folders, relative to its root."""
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=REPOSITORY,
                            stdout=subprocess.PIPE, text=True, check=True).stdout
    paths = {name: REPOSITORY / name for name in listed.split("\0") if name}
    return sorted(name for name, path in paths.items() if path.is_symlink() and path.is_dir())


def generate(out: Path, left_out: Iterable[str] = (), constants: Iterable[str] = ()) -> dict:
    """Writes the instrumented files below `out`, and returns their description."""
    own = TARGET.parent
    subprocess.run(["cargo", "build", "--quiet", "--locked", "--package", "mutants", "--target-dir", str(own)], cwd=REPOSITORY,
                   env={name: value for name, value in os.environ.items() if name != "CARGO_PROFILE_DEV_OPT_LEVEL"}, check=True)
    request = TARGET / "request.json"
    description = out / "description.json"
    request.write_text(json.dumps({"roots": ROOTS, "left_out": sorted(left_out), "constants": sorted(constants)}))
    subprocess.run([own / "debug" / "mutants", REPOSITORY, out, request, description], check=True)
    described = json.loads(description.read_text())
    if out == TREE:
        description.replace(DESCRIPTION)
    return described


def mutants_of(description: dict) -> list[Mutant]:
    fields = {int(number): fields for number, fields in description["mutants"].items()}
    return [Mutant(id=number, **{**fields[number], "span": tuple(fields[number]["span"]),
                                 "function_span": tuple(fields[number]["function_span"])}) for number in sorted(fields)]


def described_now() -> dict:
    """The description of the sources as they are, without a build."""
    scratch = TARGET / "scratch"
    for name in sources():
        if name.startswith(tuple(f"{folder}/src/" for folder in CRATES)):
            (scratch / name).parent.mkdir(parents=True, exist_ok=True)
    return generate(scratch)


def mutants_now() -> list[Mutant]:
    return mutants_of(described_now())


def write_if_changed(path: Path, content: bytes) -> None:
    """Writes a file only if its content changes, so that an unchanged file is not built again."""
    if not path.is_file() or path.read_bytes() != content:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def copy_tree(tree: Path = TREE) -> str:
    """Copies all files except the instrumented sources, and returns a hash of the crates and the tests."""
    names = sources()
    digest = hashlib.sha256()
    for name in names:
        content = (REPOSITORY / name).read_bytes()
        if name.startswith((*CRATES, "fuzz/", "tests/src", "tests/testkit", "tests/tests", "tests/vectors", "tests/Cargo", "Cargo")):
            digest.update(f"{name} {len(content)}\n".encode() + content)
        if name.startswith(tuple(f"{folder}/src/" for folder in CRATES)):
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            continue
        if name.endswith(".rs"):
            content = content.replace(TEST_FOLDER[0].encode(), TEST_FOLDER[1].encode())
            if b"concat!(&std::env::var" in content:
                sys.exit(f"{name}: the folder of a worker is not constant: use Path::join instead of concat!")
        write_if_changed(tree / name, content)
        if os.access(REPOSITORY / name, os.X_OK):
            (tree / name).chmod(0o755)
    # A link leads to the folder of the repository, which contains no mutants: such sources are parts of a test.
    for name in folder_links():
        link = tree / name
        if not link.is_symlink():
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to((REPOSITORY / name).resolve())
    known = set(names)
    for folder, _, files in os.walk(tree, followlinks=False):
        for path in (Path(folder) / file for file in files):
            if str(path.relative_to(tree)) not in known and path.suffix == ".rs":
                path.unlink()
    return digest.hexdigest()[:16]


def function_hashes(mutants: Iterable[Mutant]) -> dict[str, str]:
    """A hash of the text of each mutant's function."""
    texts: dict[str, bytes] = {}
    hashes = {}
    for mutant in mutants:
        text = texts.setdefault(mutant.file, (REPOSITORY / mutant.file).read_bytes())
        hashes[mutant.key] = hashlib.sha256(text[slice(*mutant.function_span)]).hexdigest()[:8]
    return hashes


def cargo(*arguments: str) -> tuple[bool, list[dict]]:
    """Runs cargo in the copy, and returns whether it succeeded, and its messages."""
    settings = {
        "CARGO_TARGET_DIR": str(BUILD),
        "CARGO_PROFILE_DEV_OPT_LEVEL": os.environ.get("CARGO_PROFILE_DEV_OPT_LEVEL", "1"), "CARGO_PROFILE_DEV_DEBUG": "0",
        # Builds differ much from one another, and some fail, so that incremental builds would save little.
        "CARGO_INCREMENTAL": "0",
    }
    return cargo_in(TREE, settings, *arguments)


def cargo_in(folder: Path, settings: dict[str, str], *arguments: str) -> tuple[bool, list[dict]]:
    # The core has a level of its own, which takes longer to build.
    level = f"profile.dev.package.mcp-proto.opt-level={settings['CARGO_PROFILE_DEV_OPT_LEVEL']}"
    done = subprocess.run(["cargo", *arguments, "--config", level, "--locked", "--message-format", "json", "--color", "never"],
                          cwd=folder, env={**os.environ, **settings}, stdout=subprocess.PIPE, text=True)
    messages = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return done.returncode == 0, messages


class Blame:
    """Finds the mutants and functions that an error of the compiler refers to."""

    def __init__(self, description: dict) -> None:
        self.mutants = mutants_of(description)
        self.files = description["files"]
        self.constants: dict[str, str] = description["constants"]
        self.live = {mutant.id for mutant in self.mutants if mutant.state == "live"}
        self.by_file: dict[str, list[Mutant]] = {}
        for mutant in self.mutants:
            self.by_file.setdefault(mutant.file, []).append(mutant)

    def constant(self, message: str) -> set[str]:
        """The keys of the functions that an error requires to stay `const`."""
        found = re.search(r"non-const (?:associated function|method|function|fn) `([^`]+)`", message)
        if found is None:
            return set()
        path = re.sub(r"<[^<>]*>", "", re.sub(r"<[^<>]*>", "", found[1])).replace("::::", "::").split("::")
        named = lambda count: {key for key, name in self.constants.items() if re.sub(r"[<>]", "", name).split("::")[-count:] == path[-count:]}
        return named(2) or named(1)

    def inserted(self, file: str, start: int, end: int) -> set[int]:
        return {number for first, last, number in self.files[file]["inserted"] if first < max(end, start + 1) and start < last}

    def original(self, file: str, place: int) -> int | None:
        chunks = self.files[file]["chunks"]
        index = bisect_right(chunks, place, key=lambda chunk: chunk[0]) - 1
        return None if index < 0 else chunks[index][2] + min(place, chunks[index][1]) - chunks[index][0]

    def mutants_at(self, error: dict) -> set[int]:
        primary, others = [], []
        spans = [*error["spans"], *(span for child in error["children"] for span in child["spans"])]
        for span in spans:
            while span is not None:
                if span["file_name"] in self.files:
                    place = (span["file_name"], span["byte_start"], span["byte_end"])
                    (primary if span["is_primary"] and span in error["spans"] else others).append(place)
                span = (span.get("expansion") or {}).get("span")
        about_earlier = (error["code"] or {}).get("code") in ABOUT_EARLIER
        for places in (others, primary) if about_earlier else (primary, others):
            found = set().union(*(self.inserted(*place) for place in places)) & self.live
            if found:
                return found
        # The error is in unchanged text, so a mutant in the code around it is the cause.
        for file, start, _ in [*primary, *others]:
            place = self.original(file, start)
            if place is None:
                continue
            around = [mutant for mutant in self.by_file.get(file, ()) if mutant.id in self.live and mutant.span[0] <= place <= mutant.span[1]]
            if around:
                least = min(mutant.span[1] - mutant.span[0] for mutant in around)
                return {mutant.id for mutant in around if mutant.span[1] - mutant.span[0] == least}
            around = [mutant for mutant in self.by_file.get(file, ()) if mutant.id in self.live
                      and mutant.function_span[0] <= place <= mutant.function_span[1]]
            if around:
                return {mutant.id for mutant in around}
        return set()


def built_for(tested: list[str]) -> list[str]:
    """The folders with mutants that are built with the tests of these packages."""
    without_drivers = [*PURE, *(folder for folder in ("mcp-platform", "mcp-token-store") if folder in tested)]
    return without_drivers if set(tested) <= {*without_drivers, "fuzz", "tests"} else [*CRATES]


def write_other_modules(tree: Path, description: dict) -> None:
    """Copies the modules of the crates that only the tests have."""
    for name in sources():
        if name.startswith(tuple(f"{folder}/src/" for folder in CRATES)) and name not in description["files"]:
            write_if_changed(tree / name, (REPOSITORY / name).read_bytes())


def instrument_and_build(wanted: set[str], tested: list[str], programs: list[str]) -> tuple[str, list[Mutant], list[dict]]:
    """Builds the copy with those of the wanted mutants that build, and the tests of some packages, or these programs of
    theirs. Returns the hash of the copy, all mutants, and the messages of the last build."""
    TARGET.mkdir(parents=True, exist_ok=True)
    tree = copy_tree()
    constants = set(CONSTANTS.read_text().split("\n")) - {""} if CONSTANTS.exists() else set()
    known = dict(line.split("\t", 1)[::-1] for line in UNVIABLE.read_text().splitlines()) if UNVIABLE.exists() else {}
    hashes = function_hashes(mutants_now())
    left_out = {key for key, text in known.items() if hashes.get(key) == text}
    # Mutants that do not build are found by a check, which is quick and has all errors of a crate at once.
    check = ["check", "--lib", "--bins", "--all-features", *(f"--package={CRATES[folder]}" for folder in built_for(tested))]
    # The build includes the examples, which some tests start.
    build = ["test", "--no-run", *(f"--package={package}" for package in tested),
             *(argument for program in programs for argument in (["--lib"] if program == "lib" else ["--test", program]))]
    step = check
    for attempt in range(1, 100):
        description = generate(TREE, left_out | (hashes.keys() - wanted), constants)
        write_other_modules(TREE, description)
        built, messages = cargo(*step)
        if built and step is build:
            break
        if built:
            step = build
            continue
        blame = Blame(description)
        keys = {mutant.id: mutant.key for mutant in blame.mutants}
        before = len(left_out), len(constants)
        unknown = []
        for message in messages:
            error = message.get("message")
            if message["reason"] != "compiler-message" or error["level"] != "error" or not error["spans"]:
                continue
            constant = blame.constant(error["message"])
            constants |= constant
            if not constant:
                numbers = blame.mutants_at(error)
                left_out |= {keys[number] for number in numbers}
                if not numbers:
                    unknown.append(error["rendered"])
        after = len(left_out), len(constants)
        print(f"round {attempt} of the build: {after[0] - before[0]} more mutants do not build, "
              f"{after[1] - before[1]} more functions stay constant", flush=True)
        CONSTANTS.write_text("".join(f"{key}\n" for key in sorted(constants)))
        # Functions that were edited during the build are tried again.
        UNVIABLE.write_text("".join(f"{hashes[key]}\t{key}\n" for key in sorted(left_out) if key in hashes))
        if before == after:
            sys.exit("\n".join([*unknown, "the copy does not build, and no mutant is to blame"]))
    else:
        sys.exit("the copy does not build")
    mutants = [mutant if mutant.state != "left out" or mutant.key in left_out else replace(mutant, state="not wanted")
               for mutant in mutants_of(description)]
    print(f"built, with {sum(mutant.state == 'live' for mutant in mutants)} of {len(hashes)} mutants", flush=True)
    return tree, mutants, messages
