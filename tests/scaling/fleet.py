"""The instances of a server, the forwarder in front of them, and Redis."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import processes
from proxy import Failure
from servers import free_port

HERE = Path(__file__).parent
#: How long a process may take until it listens.
PATIENCE = 30.0
TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")

#: Makes the command of an instance from its number, from 1 on, and its port.
Command = Callable[[int, int], list[str]]


def listens(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False


def wait_until(condition: Callable[[], bool], what: str, patience: float = PATIENCE) -> None:
    deadline = time.monotonic() + patience
    while not condition():
        if time.monotonic() > deadline:
            raise Failure(f"no {what} within {patience} s")
        time.sleep(0.02)


@dataclass
class Process:
    """A process that listens on a port, and that can be killed and started again."""

    name: str
    command: list[str]
    port: int
    folder: Path
    running: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / f"{self.name}.log").open("ab") as log:
            self.running = processes.start(
                self.command,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=processes.environment() | {"PORT": str(self.port)},
            )
        running = self.running

        def is_up() -> bool:
            if running.poll() is not None:
                raise Failure(f"{self.name} ended with {running.returncode}; see {self.folder}/{self.name}.log")
            return listens(self.port)

        wait_until(is_up, self.name)

    def kill(self) -> None:
        """Ends it with SIGKILL."""
        if self.running is not None:
            processes.kill(self.running)
            self.running = None

    def terminate(self) -> None:
        """Asks it to end, and waits for it."""
        if self.running is not None:
            self.running.terminate()
            self.running.wait(PATIENCE)
            self.kill()

    @property
    def pid(self) -> int:
        if self.running is None:
            raise Failure(f"{self.name} does not run")
        return self.running.pid

    def cpu(self) -> float:
        """The processor time that it has used, in seconds."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def memory(self) -> int:
        """Its resident memory, in bytes."""
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * PAGE


def redis(folder: Path, *options: str) -> Process:
    """A Redis with a directory of its own, which writes each change to its file before it answers."""
    program = shutil.which("redis-server")
    if program is None:
        raise Failure("there is no redis-server: apt-get update && apt-get install redis-server")
    data = folder / "redis"
    data.mkdir(parents=True, exist_ok=True)
    port = free_port()
    safe = ["--bind", "127.0.0.1", "--port", str(port), "--dir", str(data), "--save", "", "--daemonize", "no"]
    durable = ["--appendonly", "yes", "--appendfsync", "always"]
    return Process("redis", [program, *safe, *durable, *options], port, folder)


def redis_answers(server: Process, *command: str) -> str:
    """What Redis answers to a command, as a line or a bulk string."""
    request = b"*%d\r\n" % len(command) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word.encode()) for word in command)
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection, connection.makefile("rb") as file:
        connection.sendall(request)
        line = file.readline().decode().strip()
        if line.startswith("$"):
            return file.read(int(line[1:])).decode()
        return line[1:]


@dataclass
class Fleet:
    """Instances behind a forwarder."""

    folder: Path
    instances: list[Process]
    order: str
    targets: list[int]
    """The ports to which requests are forwarded."""
    forwarder: subprocess.Popen[bytes] | None = None
    port: int = 0
    redis: Process | None = None
    _log: Path = field(init=False)

    def __post_init__(self) -> None:
        self._log = self.folder / "forwarder.jsonl"

    def start(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        if self.redis is not None:
            (self.folder / "redis").mkdir()
            self.redis.start()
        for instance in self.instances:
            instance.start()
        with (self.folder / "forwarder.log").open("ab") as log:
            self.forwarder = processes.start(
                [sys.executable, "-B", str(HERE / "forwarder.py"), str(self._log), self.order, *map(str, self.targets)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        line = self.forwarder.stdout.readline() if self.forwarder.stdout else b""
        if not line:
            raise Failure(f"the forwarder does not start; see {self.folder}/forwarder.log")
        self.port = int(line)

    def stop(self) -> None:
        if self.forwarder is not None:
            processes.kill(self.forwarder)
        for instance in self.instances:
            instance.kill()
        if self.redis is not None:
            self.redis.terminate()

    def url(self, path: str = "/mcp") -> str:
        return f"http://localhost:{self.port}{path}"

    def exchanges(self) -> list[dict[str, object]]:
        """The requests that were forwarded."""
        return [json.loads(line) for line in self._log.read_text().splitlines()] if self._log.exists() else []

    def forget_exchanges(self) -> None:
        self._log.write_text("")

    def shares(self) -> str:
        """How many requests each instance has received."""
        counts = [sum(1 for exchange in self.exchanges() if exchange["target"] == number + 1) for number in range(len(self.targets))]
        return "+".join(map(str, counts))


@contextmanager
def running(fleet: Fleet) -> Iterator[Fleet]:
    try:
        fleet.start()
        yield fleet
    finally:
        fleet.stop()


#: A key of sealed sessions that everybody may know, because the servers are reachable from this machine only.
SEALED_KEY = "5c" * 32


def own(
    program: Path, folder: Path, mode: str, count: int = 3, order: str = "random:1", options: tuple[str, ...] = (), relaxed: bool = False
) -> Fleet:
    """Instances of everything-server.

    `one`: a single one; `memory`: the sessions are in the memory of each instance; `sealed`: in their ids; `sealed-differently`: the same,
    with other keys at each instance; `shared`: in a store in the memory of one process with all instances; `stored`: in Redis,
    which may be relaxed to write to its disk each second only.
    """
    if mode == "shared":
        ports = [free_port() for _ in range(count)]
        addresses = [f"127.0.0.1:{port}" for port in ports]
        command = [str(program), "tokio", *addresses, "--store", "memory", *options]
        return Fleet(folder, [Process("instances", command, ports[-1], folder)], order, ports)
    store = redis(folder, *(("--appendfsync", "everysec") if relaxed else ())) if mode == "stored" else None
    if mode == "one":
        mode, count = "memory", 1

    def sessions(number: int) -> list[str]:
        if store is not None:
            return ["--store", f"redis://127.0.0.1:{store.port}"]
        return {
            "memory": [],
            "sealed": ["--sealed-key", SEALED_KEY],
            "sealed-differently": ["--sealed-key", f"{number:02x}" * 32],
        }[mode]

    def of(number: int, port: int) -> list[str]:
        return [str(program), "tokio", f"127.0.0.1:{port}", *sessions(number), "--instance", str(number), *options]

    return fleet_of(folder, of, count, order, store)


def fleet_of(folder: Path, command: Command, count: int, order: str, store: Process | None = None) -> Fleet:
    ports = [free_port() for _ in range(count)]
    instances = [
        Process(f"instance-{number}", command(number, port), port, folder) for number, port in enumerate(ports, 1)
    ]
    return Fleet(folder, instances, order, ports, redis=store)


def name_of(text: str) -> str:
    """The text as the name of a file."""
    return re.sub(r"[^A-Za-z0-9.-]+", "-", text)
