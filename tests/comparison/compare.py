"""Compares programs of this project with the same programs on rmcp. `run` has the usage."""

import contextlib
import json
import os
import re
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parent.parent
SIDES = ["ours", "rmcp"]
LIBRARIES = {"ours": "here", "rmcp": "`rmcp`"}
SOURCES = {"ours": REPOSITORY / "mcp-tokio/examples", "rmcp": HERE / "rmcp/src/bin"}
# The programs, with the feature of both packages that they need.
PROGRAMS = {"tool_server": "server", "tool_client": "client", "counter": "server"}
MEASURED = ["tool_server", "tool_client"]
BLOCKING_CLIENT = REPOSITORY / "mcp-blocking/examples/blocking_tool_client.rs"
TOKEN = "the-token-of-ada"
# For what is not measured.
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", REPOSITORY / "target")).resolve() / "comparison"
# The most seconds for a client.
PATIENCE = 60
EXPECTED = """\
revision 2026-07-28
tool add: Adds two numbers.
tool count: Counts slowly.
tool greet: Greets the user.
the sum is 5
the server asks: Who are you?
Hello, Ada!
progress 1
progress 2
the count is cancelled
resource welcome: Welcome!
prompt: Review welcome.
"""

NO_THREADS = "it has no driver on threads"
COMPILES = "it is no mistake"
# What the first error is to name: what is the application's, and what is missing or wrong. Or why the library has none.
Words = tuple[str, str] | str
MISTAKES: dict[str, tuple[str, Words, Words]] = {
    "argument_not_read": ("arguments that cannot be read", *[(r"\bSum\b", "Deserialize")] * 2),
    "argument_without_schema": ("arguments without a schema", *[(r"\bSum\b", "JsonSchema")] * 2),
    "blocking_function_async": ("an async function for threads", ("async", r"expected `Result"), NO_THREADS),
    "connect_without_await": ("a client that is not awaited", *[("connect|serve", "await|Future")] * 2),
    "error_is_none": (
        "an error without the trait of errors, or without a conversion",
        *[(r"\bBroken\b", "std::error::Error|From<Broken>")] * 2,
    ),
    "function_not_async": ("a function that is not async", ("hello|Ok", "is not a future"), COMPILES),
    "parameter_missing": (
        "parameters that the library does not pass",
        ("NoArguments", "2 arguments"),
        (r"\bsum\b|\bSum\b", "FromContextPart|Parameters"),
    ),
    "prompt_of_texts": (
        "a prompt of texts without roles",
        (r"Vec<.*String>", "GetPromptRe(quest|sult)"),
        (r"Vec<.*String>|\bgreet\b", "IntoGetPromptResult"),
    ),
    "result_of_own_type": (
        "a result of a type of one's own",
        (r"\bPlace\b", "Structured"),
        (r"\bPlace\b", r"Json\b|IntoCallToolResult|IntoContents"),
    ),
    "state_not_send": ("a state that threads cannot share", *[(r"\bRc<", "between threads safely|: Send")] * 2),
    "structured_without_schema": ("a structured result without a schema", *[(r"\bPlace\b", "JsonSchema")] * 2),
}


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def cargo(folder: Path, *arguments: str) -> None:
    if subprocess.run(["cargo", *arguments], cwd=folder).returncode != 0:
        sys.exit(f"{folder}: cargo {' '.join(arguments)} failed")


def lines(path: Path) -> int:
    """Lines that are neither blank nor comments."""
    return sum(not re.fullmatch(r"\s*(//.*)?", line) for line in path.read_text().splitlines())


def crates(side: str, feature: str) -> int:
    """The crates that a program is built from, without itself and without what only builds them."""
    command = ["cargo", "tree", "--offline", "--edges", "normal", "--prefix", "none", "--features", feature]
    printed = subprocess.run(command, cwd=HERE / side, check=True, capture_output=True, text=True).stdout
    return len({line.removesuffix(" (*)") for line in printed.splitlines() if line}) - 1


def build(side: str, target: Path, name: str) -> None:
    options = ["--quiet", "--offline", "--features", PROGRAMS[name], "--bin", name, "--target-dir", str(target)]
    cargo(HERE / side, "build", "--release", *options)


def built(work: Path, side: str, name: str) -> Path:
    return work / f"{side}-{name}"


def measure(work: Path) -> dict[tuple[str, str], tuple[float, float]]:
    """Builds each program in a folder of its own, in turns, and returns the seconds, and those of the processors."""
    seconds = {}
    for round, name in enumerate(MEASURED):
        for side in SIDES if round % 2 == 0 else reversed(SIDES):
            target = work / "target"
            start, before = time.monotonic(), processor_seconds()
            build(side, target, name)
            seconds[side, name] = time.monotonic() - start, processor_seconds() - before
            say(f"{name} of {side} is built in {seconds[side, name][0]:.0f} s, {seconds[side, name][1]:.0f} s of processors")
            shutil.copy(target / "release" / name, built(work, side, name))
            if name == "tool_server":
                build(side, target, "counter")
                shutil.copy(target / "release/counter", built(work, side, "counter"))
            shutil.rmtree(target)
    return seconds


def processor_seconds() -> float:
    """What all finished children have used."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def build_for_pairs(work: Path) -> None:
    """Builds all programs, without optimization. Both packages have one folder, because they share dependencies."""
    for side in SIDES:
        say(f"building {side}")
        cargo(HERE / side, "build", "--quiet", "--offline", "--all-features", "--bins", "--target-dir", str(TARGET))
        for name in PROGRAMS:
            shutil.copy(TARGET / "debug" / name, built(work, side, name))


def free_port() -> int:
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as listener:
        return listener.getsockname()[1]


@contextlib.contextmanager
def served(server: Path):
    """The address of a server that listens."""
    port = free_port()
    process = subprocess.Popen([server, f"127.0.0.1:{port}"])
    try:
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                if process.poll() is not None or time.monotonic() > deadline:
                    sys.exit(f"{server} does not listen")
                time.sleep(0.05)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.kill()
        process.wait()


def check_client(what: str, *command: str | Path) -> None:
    client = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    if client.returncode != 0 or client.stdout != EXPECTED:
        sys.exit(f"{what}: it ended with {client.returncode}, after\n{client.stdout}{client.stderr}")


def check_pairs(work: Path) -> None:
    for server_side in SIDES:
        server = built(work, server_side, "tool_server")
        for client_side in SIDES:
            client = built(work, client_side, "tool_client")
            what = f"the client of {client_side} with the server of {server_side}"
            say(what)
            check_client(f"{what}, over stdio", client, server)
            with served(server) as address:
                check_client(f"{what}, over HTTP", client, address, TOKEN)
                refused = subprocess.run([client, address, "another"], capture_output=True, timeout=PATIENCE)
                if refused.returncode == 0:
                    sys.exit(f"{what}, over HTTP: a wrong token is accepted")
        check_legacy(server, built(work, server_side, "counter"))


class Legacy:
    """A client of a program over stdio, in the revision of 2025-11-25."""

    def __init__(self, program: Path) -> None:
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        about = {"clientInfo": {"name": "c", "version": "1"}, "capabilities": {"elicitation": {}}}
        self.request("initialize", protocolVersion="2025-11-25", **about)
        self.send(method="notifications/initialized")

    def send(self, **message: object) -> None:
        assert self.process.stdin
        print(json.dumps({"jsonrpc": "2.0", **message}), file=self.process.stdin, flush=True)

    def request(self, method: str, **params: object) -> dict:
        """The result; a form is filled in."""
        assert self.process.stdout
        self.send(id=1, method=method, params=params)
        while True:
            message = json.loads(self.process.stdout.readline())
            if message.get("method") == "elicitation/create":
                self.send(id=message["id"], result={"action": "accept", "content": {"name": "Ada"}})
            elif "method" not in message:
                return message["result"]

    def call(self, tool: str, **arguments: object) -> str:
        return self.request("tools/call", name=tool, arguments=arguments)["content"][0]["text"]

    def __enter__(self) -> "Legacy":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()


def check_legacy(server: Path, counter: Path) -> None:
    """The form of a server in an earlier revision, and each part of a counter."""
    with Legacy(server) as client:
        greeting = client.call("greet")
    if greeting != "Hello, Ada!":
        sys.exit(f"{server}: {greeting}")
    with Legacy(counter) as client:
        resources = [resource["uri"] for resource in client.request("resources/list")["resources"]]
        prompt = client.request("prompts/get", name="example_prompt", arguments={"message": "m"})
        found = [
            *[client.call(name) for name in ["increment", "increment", "decrement", "get_value", "say_hello"]],
            client.call("echo", message="again"),
            client.call("sum", a=2, b=3),
            *[client.request("resources/read", uri=uri)["contents"][0]["text"] for uri in sorted(resources)],
            prompt["messages"][0]["content"]["text"],
        ]
    expected = ["1", "2", "1", "1", "Hello!", "again", "5", "Business intelligence memo", "/Users/to/some/path/"]
    if found != [*expected, "This is an example prompt with your message here: 'm'"]:
        sys.exit(f"{counter}: {found}")


def table(header: list[str], rows: list[list[object]]) -> None:
    for row in [header, ["---"] * len(header), *rows]:
        print(f"| {' | '.join(str(cell).replace('|', '&#124;') for cell in row)} |")


def counts() -> list[list[object]]:
    """What needs no builds."""
    rows: list[list[object]] = []
    for name in PROGRAMS:
        rows.append([f"`{name}`: lines", *[lines(SOURCES[side] / f"{name}.rs") for side in SIDES]])
    rows.append(["`blocking_tool_client`: lines", lines(BLOCKING_CLIENT), "it needs tokio"])
    for name in MEASURED:
        rows.append([f"`{name}`: crates", *[crates(side, PROGRAMS[name]) for side in SIDES]])
    return rows


def compare(work: Path) -> None:
    seconds = measure(work)
    check_pairs(work)
    rows = counts()
    for name in MEASURED:
        for place, unit in enumerate(["seconds", "processor seconds"]):
            row = [f"{seconds[side, name][place]:.0f}" for side in SIDES]
            rows.append([f"`{name}`: {unit} of a cold release build", *row])
        sizes = [f"{built(work, side, name).stat().st_size:,}" for side in SIDES]
        rows.append([f"`{name}`: bytes of the stripped binary", *sizes])
    table(["", *LIBRARIES.values()], rows)


def errors_of(side: str, name: str) -> tuple[list[dict], int]:
    """The errors of a program, and how many lines the compiler prints."""
    options = ["--quiet", "--offline", "--package", f"mistakes-{side}", "--bin", name, "--message-format", "json"]
    command = ["cargo", "check", *options, "--target-dir", str(TARGET / "mistakes")]
    done = subprocess.run(command, cwd=HERE / "mistakes", capture_output=True, text=True)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    mine = [each["message"] for each in found if each["reason"] == "compiler-message" and each["target"]["name"] == name]
    errors = [each for each in mine if each["level"] == "error" and each["spans"]]
    if bool(errors) != bool(done.returncode):
        sys.exit(f"{name} of {side}: {done.stderr}")
    return errors, sum(each["rendered"].count("\n") for each in mine)


def compare_mistakes() -> None:
    present = {path.stem for path in (REPOSITORY / "tests/packages/mistakes").glob("*.rs")}
    if present != set(MISTAKES):
        sys.exit(f"not the same mistakes as in tests/packages/mistakes: {present ^ set(MISTAKES)}")
    rows: list[list[object]] = []
    firsts: list[list[object]] = []
    for name, (what, *words) in MISTAKES.items():
        rows.append([what])
        for side, needed in zip(SIDES, words):
            if needed == NO_THREADS:
                rows[-1] += ["", "", needed]
                continue
            say(f"{name} of {side}")
            errors, printed = errors_of(side, name)
            if (needed == COMPILES) != (not errors):
                sys.exit(f"{name} of {side} has {len(errors)} errors")
            if not errors:
                rows[-1] += [0, printed, needed]
                continue
            first = errors[0]
            named = all(re.search(word, first["rendered"]) for word in needed)
            rows[-1] += [len(errors), printed, "yes" if named else "no"]
            # Where the marked code begins.
            code = next(span for span in first["spans"] if span["is_primary"])["text"][0]
            marked = code["text"][code["highlight_start"] - 1 : code["highlight_end"] - 1].strip()
            firsts.append([what, LIBRARIES[side], first["message"].splitlines()[0], f"`{marked}`"])
    columns = [f"{column}, {LIBRARIES[side]}" for side in SIDES for column in ["errors", "lines", "named"]]
    table(["mistake", *columns], rows)
    print()
    table(["mistake", "library", "first error", "the code that it marks"], firsts)


def main() -> None:
    arguments = sys.argv[1:]
    if arguments not in ([], ["--counts"], ["--mistakes"], ["--pairs"]):
        sys.exit("usage: tests/comparison/run [--counts | --mistakes | --pairs]")
    for folder in ["mistakes"] if arguments == ["--mistakes"] else SIDES:
        cargo(HERE / folder, "fetch", "--quiet")
    if arguments == ["--mistakes"]:
        compare_mistakes()
        return
    if arguments == ["--counts"]:
        table(["", *LIBRARIES.values()], counts())
        return
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        if arguments == ["--pairs"]:
            build_for_pairs(work)
            check_pairs(work)
        else:
            compare(work)


if __name__ == "__main__":
    main()
