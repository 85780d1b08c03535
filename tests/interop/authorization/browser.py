"""A real browser, and a person who signs in with it."""

from __future__ import annotations

import contextlib
import json
import queue
import shutil
import subprocess
import threading
from dataclasses import dataclass
from pathlib import Path

import processes
from proxy import Failure

HERE = Path(__file__).resolve().parent
#: The names of Chromium in Debian and elsewhere.
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
#: How long the start of the browser, or all steps of a sign-in may take.
PATIENCE = 60.0
#: How long the browser may take to end.
END_PATIENCE = 5.0


@dataclass(frozen=True)
class Page:
    """Where a sign-in has ended in the browser."""

    url: str
    text: str


class Browser:
    """One process with a headless Chromium. Each sign-in has its own session, as in a private window."""

    def __init__(self, install: Path, folder: Path) -> None:
        """Starts it; the folder is for its temporary files."""
        program = next(filter(None, map(shutil.which, NAMES)), None)
        if program is None:
            raise Failure(f"no browser ({', '.join(NAMES)}) is installed: apt-get install chromium")
        folder.mkdir(parents=True, exist_ok=True)
        self._process = processes.start(
            ["node", str(HERE / "browser.mjs"), str(install / "authorization"), program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=processes.environment() | {"TMPDIR": str(folder)},
        )
        self._lock = threading.Lock()
        self._waiting: dict[int | None, queue.Queue[dict[str, str]]] = {}
        self._next_id = 0
        started = self._expect(None)
        threading.Thread(target=self._read, daemon=True).start()
        self.version = self._take(started, "the browser")["version"]

    def sign_in(self, url: str, answer: str = "allow", code: str = "") -> Page:
        """Opens a URL, fills in the forms, and returns the page at the end. `browser.mjs` lists the answers."""
        with self._lock:
            self._next_id += 1
            request_id = self._next_id
            ended = self._expect(request_id)
            assert self._process.stdin is not None
            request = {"id": request_id, "url": url, "answer": answer, "code": code}
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
        page = self._take(ended, "the sign-in")
        if "error" in page:
            raise Failure(f"in the browser: {page['error']}")
        return Page(page["url"], page["text"])

    def close(self) -> None:
        """Lets the browser end by itself, so that nothing of it remains."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(END_PATIENCE)
        processes.kill(self._process)

    def _expect(self, request_id: int | None) -> queue.Queue[dict[str, str]]:
        return self._waiting.setdefault(request_id, queue.Queue())

    def _take(self, answers: queue.Queue[dict[str, str]], what: str) -> dict[str, str]:
        try:
            return answers.get(timeout=PATIENCE)
        except queue.Empty:
            raise Failure(f"{what} did not end within {PATIENCE} s") from None

    def _read(self) -> None:
        assert self._process.stdout is not None and self._process.stderr is not None
        for line in self._process.stdout:
            message = json.loads(line)
            self._waiting[message.get("id")].put(message)
        error = self._process.stderr.read().decode(errors="replace")[-600:]
        for answers in list(self._waiting.values()):
            answers.put({"error": f"it has ended: {error}", "version": "none"})
