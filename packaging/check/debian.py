"""Checks a Debian package, with `lintian` too: debian.py PACKAGE ROOT

One for this machine is installed into an empty root, and run, upgraded and removed there, which needs root, as `dpkg` does,
and a static `busybox`. The program of another one is run by qemu, if that is installed.
"""

import gzip
import re
import shutil
import subprocess
import time
import urllib.request
from pathlib import Path

from peers import HttpServer, Tools
from program import BARE, TIMEOUT, Program, expect, main
from team import Service, check_team

DOCUMENTS = "usr/share/doc/mcp-proxy"
UNIT = "usr/lib/systemd/system/mcp-proxy.service"
CONFIGURATION = "etc/mcp-proxy/environment"
FILES = [
    CONFIGURATION,
    UNIT,
    "usr/bin/mcp-proxy",
    "usr/share/bash-completion/completions/mcp-proxy",
    f"{DOCUMENTS}/SECURITY.md",
    f"{DOCUMENTS}/THIRD-PARTY-LICENSES.txt",
    f"{DOCUMENTS}/changelog.Debian.gz",
    f"{DOCUMENTS}/changelog.gz",
    f"{DOCUMENTS}/copyright",
    f"{DOCUMENTS}/docs/bridging.md",
    f"{DOCUMENTS}/docs/gateway.md",
    f"{DOCUMENTS}/docs/proxy.md",
    f"{DOCUMENTS}/examples/servers.json",
    "usr/share/fish/vendor_completions.d/mcp-proxy.fish",
    "usr/share/lintian/overrides/mcp-proxy",
    "usr/share/man/man1/mcp-proxy.1.gz",
    "usr/share/man/man1/mcp-proxy-demo.1.gz",
    "usr/share/man/man1/mcp-proxy-login.1.gz",
    "usr/share/man/man1/mcp-proxy-logout.1.gz",
    "usr/share/man/man1/mcp-proxy-serve.1.gz",
    "usr/share/man/man1/mcp-proxy-whoami.1.gz",
    "usr/share/zsh/vendor-completions/_mcp-proxy",
]
# What the scripts of the package start, and what they start of it that changes something.
SYSTEMD = ["systemctl", "deb-systemd-helper", "deb-systemd-invoke"]
CHANGES = re.compile(r"\b(enable|start|stop|restart|try-restart)\b.*")
# The exposure of the service as `systemd-analyze security` counts it, times ten.
MOST_EXPOSURE = 20
# First there was no package, of which a bug of Debian would tell.
IGNORED = ["initial-upload-closes-no-bugs"]


def output(*command: str | Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    expect(done.returncode == 0, f"{command}: {done.stdout}{done.stderr}")
    return done.stdout


def dpkg(root: Path, *arguments: str) -> None:
    output("dpkg", f"--root={root}", *arguments)


def check_fields(package: str) -> str:
    """Returns the architecture."""
    fields: dict[str, list[str]] = {}
    for line in output("dpkg-deb", "--field", package).splitlines():
        if not line.startswith(" "):
            name, _, line = line.partition(":")
            fields[name] = []
        fields[name].append(line.strip())
    # The program is static.
    expect("Depends" not in fields, f"Depends: {fields.get('Depends')}")
    synopsis, *description = fields["Description"]
    expect(20 <= len(synopsis) <= 60, f"the synopsis has {len(synopsis)} characters: {synopsis}")
    expect(not synopsis.endswith(("-", ",")) and "." in description, f"the description begins within a sentence: {description}")
    expect("mcp-proto" not in synopsis and not synopsis.startswith("mcp-proxy"), f"the synopsis of a library: {synopsis}")
    return fields["Architecture"][0]


def check_files(root: Path, files: list[str]) -> None:
    expect(files == sorted(FILES), f"besides, or missing: {sorted({*files} ^ {*FILES})}")
    for page in (root / "usr/share/man/man1").iterdir():
        expect(b".TH" in gzip.decompress(page.read_bytes()), f"{page.name} is empty")
    copyright = (root / DOCUMENTS / "copyright").read_text()
    expect("License: Apache-2.0 or Expat" in copyright and "WITHOUT WARRANTY" in copyright, copyright)
    changes = gzip.decompress((root / DOCUMENTS / "changelog.gz").read_bytes()).decode()
    expect(changes.startswith("# Changelog"), changes[:80])
    expect((root / CONFIGURATION).stat().st_mode & 0o777 == 0o640, "all users can read the tokens")


def check_unit(root: Path) -> None:
    """The unit is valid, restricts the service, and its command starts the gateway with the example."""
    # The program has to be where the unit says.
    unit = root / "run" / Path(UNIT).name
    unit.write_text((root / UNIT).read_text().replace("=/usr/bin/", f"={root.resolve()}/usr/bin/"))
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True)
    expect((done.returncode, done.stderr) == (0, ""), f"systemd-analyze verify: {done.stderr}")
    output("systemd-analyze", "security", "--offline=true", f"--threshold={MOST_EXPOSURE}", unit)
    unit.unlink()
    print("systemd-analyze: verify, security")
    configuration = root / "etc/mcp-proxy/servers.json"
    shutil.copy(root / DOCUMENTS / "examples/servers.json", configuration)
    variables = {"ISSUES_TOKEN": "1", "SEARCH_KEY": "2", "ADA_TOKEN": "a" * 64, "BOB_TOKEN": "b" * 64}
    service = Service(root, (root / UNIT).read_text(), variables, "--listen 127.0.0.1:0 --health")
    (root / "run/mcp-proxy").mkdir()
    service.start()
    try:
        service.wait_for("serves all 3 servers")
        health = service.wait_for("/health").split()[1]
        configuration.write_text(configuration.read_text().replace('"time"', '"clock"'))
        service.reload()
        until = time.monotonic() + TIMEOUT
        while "/clock/mcp" not in (page := urllib.request.urlopen(health).read().decode()):
            expect(time.monotonic() < until, f"after SIGHUP: {page}")
            time.sleep(0.05)
        expect("/time/mcp" not in page and service.process.poll() is None, f"after SIGHUP: {page}")
        service.stop()
    finally:
        service.process.kill()
        service.process.wait()
        configuration.unlink()
    print("the commands of the unit, with the example configuration: started, read it again, and ended by SIGTERM")


def empty(root: Path) -> None:
    """A root without packages, in which scripts run and what they start of systemd is written to `/calls`."""
    for part in ["info", "updates", "triggers"]:
        (root / "var/lib/dpkg" / part).mkdir(parents=True)
    (root / "var/lib/dpkg/status").touch()
    for part in ["bin", "dev", "usr/bin", "run/systemd/system"]:
        (root / part).mkdir(parents=True)
    (root / "dev/null").touch()
    busybox = shutil.which("busybox")
    expect(busybox is not None, "there is no busybox")
    for name in ["sh", "rm"]:
        shutil.copy(busybox, root / "bin" / name)
    for name in SYSTEMD:
        script = root / "usr/bin" / name
        # Nothing is enabled before.
        script.write_text(f'#!/bin/sh\necho "{name} $*" >>/calls\ncase "$*" in *was-enabled*) exit 1 ;; esac\n')
        script.chmod(0o755)


def check_installed(package: str, root: Path) -> None:
    empty(root)
    before = set(root.rglob("*"))

    def installed() -> list[str]:
        """The files that were added, except for the database of `dpkg`."""
        files = (path for path in {*root.rglob("*")} - before if not path.is_dir())
        names = (path.relative_to(root) for path in files)
        return sorted(str(path) for path in names if path.parts[:2] not in [("var", "lib"), ("var", "log")])

    def changes(*arguments: str) -> list[str]:
        """What `dpkg` with these arguments changes about services."""
        dpkg(root, *arguments)
        calls = (root / "calls").read_text()
        (root / "calls").unlink()
        return [match.group() for match in CHANGES.finditer(calls)]

    done = changes("--install", package)
    expect(not done, f"installing changes the service: {done}")
    check_files(root, installed())
    dpkg(root, "--verify", "mcp-proxy")
    proxy = Program("chroot", root, "/usr/bin/mcp-proxy", env=BARE)
    proxy.check_version()
    with HttpServer(Tools) as server:
        proxy.check_bridge(f"http://127.0.0.1:{server.port}/mcp")
    check_unit(root)

    def upgrade() -> None:
        done = changes("--install", package)
        expect(done == ["try-restart mcp-proxy.service"], f"an upgrade: {done}")

    check_team(root, (root / UNIT).read_text(), upgrade)
    state = root / "var/lib/private/mcp-proxy"
    state.mkdir(parents=True)
    done = changes("--remove", "mcp-proxy")
    expect(done == ["stop mcp-proxy.service"], f"a removal: {done}")
    expect(installed() == [CONFIGURATION] and state.exists(), f"left by a removal: {installed()}")
    changes("--purge", "mcp-proxy")
    expect(not installed() and not state.exists(), f"left by a purge: {installed()}")
    print(f"{Path(package).name}: installed, run, upgraded, removed and purged in an empty root")


def check_extracted(package: str, root: Path) -> None:
    output("dpkg-deb", "--extract", package, root)
    check_files(root, sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()))
    name = Path(package).name
    if emulator := shutil.which("qemu-aarch64-static"):
        proxy = Program(emulator, root / "usr/bin/mcp-proxy", env=BARE)
        proxy.check_version()
        with HttpServer(Tools) as server:
            proxy.check_bridge(f"http://127.0.0.1:{server.port}/mcp")
        print(f"{name}: unpacked, and run by qemu")
    else:
        print(f"NOT RUN: the program of {name}, for which there is no qemu-aarch64-static; its files are complete")


def check(package: str, folder: str) -> None:
    root = Path(folder)
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    if check_fields(package) == output("dpkg", "--print-architecture").strip():
        check_installed(package, root)
    else:
        check_extracted(package, root)
    command = ["lintian", "--allow-root", "--fail-on=error,warning", "--suppress-tags", ",".join(IGNORED), package]
    output(*command)
    print("lintian: neither errors nor warnings")


if __name__ == "__main__":
    raise SystemExit(main(check))
