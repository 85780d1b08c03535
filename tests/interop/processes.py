"""Starts processes, and knows them all, so that none outlives the driver."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from typing import Any


class Stopping(Exception):
    """Nothing is started any more."""


_lock = threading.Lock()
_running: list[subprocess.Popen[bytes]] = []
_is_stopping = False


def environment() -> dict[str, str]:
    """The environment without variables that would send loopback traffic elsewhere."""
    return {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}


def start(command: list[str], **options: Any) -> subprocess.Popen[bytes]:
    """Starts a process as the leader of a group of its own, so that its children can be ended with it."""
    with _lock:
        if _is_stopping:
            raise Stopping
        process = subprocess.Popen(command, start_new_session=True, **options)
        _running.append(process)
        return process


def kill(process: subprocess.Popen[bytes]) -> None:
    """Ends a process and its children at once. Once it has been waited for, its number may belong to another."""
    with _lock:
        if process not in _running:
            return
        _running.remove(process)
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def kill_all() -> None:
    """Ends everything; nothing can be started from here on."""
    global _is_stopping
    with _lock:
        _is_stopping = True
        processes = list(_running)
    for process in processes:
        kill(process)


def is_stopping() -> bool:
    return _is_stopping
