"""Installs the Debian package into an empty root, and runs it there: debian.py PACKAGE ROOT

Needs root, as `dpkg` does.
"""

import gzip
import shutil
import subprocess
from pathlib import Path

from peers import HttpServer, Tools
from program import BARE, Program, expect, main

FILES = [
    "usr/bin/mcp-proxy",
    "usr/share/bash-completion/completions/mcp-proxy",
    "usr/share/doc/mcp-proxy/LICENSE-APACHE",
    "usr/share/doc/mcp-proxy/LICENSE-MIT",
    "usr/share/doc/mcp-proxy/THIRD-PARTY-LICENSES.txt",
    "usr/share/doc/mcp-proxy/copyright",
    "usr/share/fish/vendor_completions.d/mcp-proxy.fish",
    "usr/share/man/man1/mcp-proxy.1.gz",
    "usr/share/man/man1/mcp-proxy-demo.1.gz",
    "usr/share/man/man1/mcp-proxy-login.1.gz",
    "usr/share/man/man1/mcp-proxy-logout.1.gz",
    "usr/share/man/man1/mcp-proxy-serve.1.gz",
    "usr/share/man/man1/mcp-proxy-whoami.1.gz",
    "usr/share/zsh/vendor-completions/_mcp-proxy",
]


def dpkg(root: Path, *arguments: str) -> str:
    # `dpkg` warns about a root without a shell, which no file of this package needs.
    done = subprocess.run(["dpkg", f"--root={root}", *arguments], capture_output=True, text=True)
    expect(done.returncode == 0, f"dpkg {arguments}: {done.stdout}{done.stderr}")
    return done.stdout


def installed(root: Path) -> list[str]:
    """The files in the root, except for the database of `dpkg`."""
    files = (path.relative_to(root) for path in root.rglob("*") if not path.is_dir())
    return sorted(str(path) for path in files if path.parts[:2] != ("var", "lib") and path.parts[:2] != ("var", "log"))


def check(package: str, folder: str) -> None:
    root = Path(folder)
    shutil.rmtree(root, ignore_errors=True)
    for part in ["info", "updates", "triggers"]:
        (root / "var/lib/dpkg" / part).mkdir(parents=True)
    (root / "var/lib/dpkg/status").touch()

    dpkg(root, "--install", package)
    expect(installed(root) == sorted(FILES), f"the files are {installed(root)}")
    dpkg(root, "--verify", "mcp-proxy")
    page = gzip.decompress((root / "usr/share/man/man1/mcp-proxy.1.gz").read_bytes())
    expect(b".TH" in page, "the man page is empty")
    copyright = (root / "usr/share/doc/mcp-proxy/copyright").read_text()
    expect("MIT" in copyright and "Apache" in copyright, copyright)
    proxy = Program("chroot", root, "/usr/bin/mcp-proxy", env=BARE)
    proxy.check_version()
    with HttpServer(Tools) as server:
        proxy.check_bridge(f"http://127.0.0.1:{server.port}/mcp")
    dpkg(root, "--purge", "mcp-proxy")
    expect(not installed(root), f"left behind: {installed(root)}")
    print(f"{Path(package).name}: installed, run and removed in an empty root")


if __name__ == "__main__":
    raise SystemExit(main(check))
