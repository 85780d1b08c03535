"""Runs the tests of a program for another processor, each in a process of its own.

Usage: emulated.py EMULATOR PROGRAM [ARGUMENT]…      PROGRAM is one of Rust's tests, and gets the arguments that select tests

The user-mode emulation of qemu 7.2 can hang when a process with several threads starts a program: the child waits for a lock
that another thread held when it was copied. Such a child is recognized, since it has the command line of its parent for long,
and the test is run again. A test that fails is run again too, because a child may have hung until the test gave it up; each
such repetition is printed.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

ATTEMPTS = 3
# Seconds: for one test, until a child counts as hung, and between two looks at the processes.
MOST_TIME, HUNG_AFTER, LOOK_EVERY = 400, 15, 3


def command_line(process: str) -> bytes:
    with open(f"/proc/{process}/cmdline", "rb") as file:
        return file.read()


def is_hung(process: str, session: int) -> bool:
    """Whether this is a copy of a process of the session that has not become another program."""
    try:
        with open(f"/proc/{process}/stat") as file:
            _, parent, _, own = file.read().rpartition(") ")[2].split()[:4]
        if int(own) != session or int(process) == session:
            return False
        line = command_line(process)
        return bool(line) and line == command_line(parent)
    except OSError:
        # It has ended meanwhile.
        return False


def attempt(command: list[str]) -> tuple[str, str]:
    """Runs a test; returns why it has not passed, or nothing, and its output."""
    child = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    )
    output: list[bytes] = []
    reader = threading.Thread(target=lambda: output.append(child.stdout.read()), daemon=True)
    reader.start()
    began, since, reason = time.monotonic(), {}, ""
    while child.poll() is None:
        try:
            child.wait(LOOK_EVERY)
            break
        except subprocess.TimeoutExpired:
            now = time.monotonic()
        hung = {process for process in os.listdir("/proc") if process.isdigit() and is_hung(process, child.pid)}
        since = {process: since.get(process, now) for process in hung}
        if any(now - begun >= HUNG_AFTER for begun in since.values()):
            reason = "a child hung in the emulator"
        elif now - began >= MOST_TIME:
            reason = f"it did not end within {MOST_TIME} s"
        if reason:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
    # A process that the test has left behind may keep the output open.
    reader.join(10)
    if not reason and child.returncode != 0:
        reason = f"it ended with {child.returncode}"
    return reason, b"".join(output).decode(errors="replace")


def run(command: list[str], test: str) -> bool:
    for number in range(1, ATTEMPTS + 1):
        reason, output = attempt([*command, "--exact", test, "--test-threads=1"])
        if not reason:
            print(f"test {test} ... ok", flush=True)
            return True
        print(f"    attempt {number} of {test}: {reason}", flush=True)
    print(f"{output}\ntest {test} ... FAILED", flush=True)
    return False


def main() -> int:
    command, arguments = sys.argv[1:3], sys.argv[3:]
    jobs = os.cpu_count() or 1
    selecting = []
    for argument in arguments:
        if argument.startswith("--test-threads="):
            jobs = int(argument.partition("=")[2])
        else:
            selecting.append(argument)
    listed = subprocess.run([*command, *selecting, "--list"], stdout=subprocess.PIPE, text=True, check=False)
    if listed.returncode != 0:
        return listed.returncode
    names = re.findall(r"^(.*): test$", listed.stdout, re.MULTILINE)
    with ThreadPoolExecutor(jobs) as pool:
        outcomes = list(pool.map(lambda name: run(command, name), names))
    failed = outcomes.count(False)
    print(
        f"test result: {'FAILED' if failed else 'ok'}. {len(names) - failed} passed; {failed} failed; 0 ignored; 0 measured; "
        "0 filtered out",
        flush=True,
    )
    return 101 if failed else 0


sys.exit(main())
