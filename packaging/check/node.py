"""Installs the npm packages from a registry on this machine, and runs them: node.py ARCHIVES FOLDER"""

import contextlib
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

from peers import HOST, HttpServer, Tools, registry
from program import TIMEOUT, Program, children, expect, greet, main
from project import NAME, NPM_NAME, PLATFORMS, manifest


def npm(environment: dict, folder: Path, *arguments: str) -> str:
    done = subprocess.run(["npm", *arguments], cwd=folder, env=environment, capture_output=True, text=True, timeout=TIMEOUT)
    expect(done.returncode == 0, f"npm {arguments}: {done.stdout}{done.stderr}")
    return done.stdout


def project(folder: Path, name: str) -> Path:
    (folder / name).mkdir()
    (folder / name / "package.json").write_text('{"private": true}\n')
    return folder / name


def check_signals(program: Program, url: str) -> None:
    for number in [signal.SIGTERM, signal.SIGINT, signal.SIGHUP]:
        program.check_signal(url, number, 0)


def check_killed(program: Program, url: str) -> None:
    """If the program dies of a signal, its launcher dies of the same one."""
    process = program.start(url)
    try:
        greet(process)
        (child,) = children(process.pid)
        os.kill(child, signal.SIGKILL)
        process.wait(TIMEOUT)
        expect(process.returncode == -signal.SIGKILL, f"exit code {process.returncode} after SIGKILL")
    finally:
        process.kill()
        process.wait()


def check_npx_ended(npx: Program, url: str) -> None:
    """`npx` passes SIGTERM to a shell, which ends without passing it on. The end of stdin then ends the program."""
    process = npx.start(url)
    running = []
    try:
        greet(process)
        running = children(process.pid)
        process.send_signal(signal.SIGTERM)
        process.wait(TIMEOUT)
        process.stdin.close()
        deadline = time.monotonic() + TIMEOUT
        while alive := [pid for pid in running if Path(f"/proc/{pid}").exists()]:
            expect(time.monotonic() < deadline, f"{alive} are still there")
            time.sleep(0.1)
    finally:
        for pid in running:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def check_platforms(environment: dict, folder: Path, archives: Path) -> None:
    """npm installs the package of the platform on each for which there is one here."""
    seen = []
    for platform in PLATFORMS:
        system, processor = platform.npm_os, platform.npm_cpu
        if not [*archives.glob(f"*-mcp-proxy-{system}-{processor}-*.tgz")]:
            continue
        place = project(folder, f"on-{system}-{processor}")
        npm(environment, place, "install", f"--os={system}", f"--cpu={processor}", NPM_NAME)
        found = sorted(path.name for path in (place / "node_modules" / "@mcp-proto").iterdir())
        expect(found == ["mcp-proxy", f"mcp-proxy-{system}-{processor}"], f"installed were {found}")
        expect((place / "node_modules" / platform.npm_name / "bin" / platform.binary).is_file(), f"no program in {found}")
        seen.append(f"{system} on {processor}")
    print(f"npm install on other platforms: the package of {', '.join(seen)}")


def check_explained(launcher: Program, *words: str) -> None:
    """The launcher starts nothing, and says why on stderr."""
    done = launcher.run("--version")
    expect((done.returncode, done.stdout) == (1, ""), f"without a program: {done}")
    lacking = [word for word in words if word not in done.stderr]
    expect(not lacking and len(done.stderr.splitlines()) == 1, f"the message does not say {lacking}: {done.stderr}")


def elsewhere(environment: dict, folder: Path, system: str, processor: str) -> dict:
    """The environment in which Node claims to run on this platform."""
    values = {"platform": system, "arch": processor}
    lines = [f"Object.defineProperty(process, '{name}', {{ value: '{value}' }});\n" for name, value in values.items()]
    preload = folder / f"{system}-{processor}.js"
    preload.write_text("".join(lines))
    return environment | {"NODE_OPTIONS": f"--require {preload}"}


def check(archives: str, folder: str) -> None:
    work = Path(folder).resolve()
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    environment = os.environ | {
        "HOME": str(work / "home"),
        "npm_config_audit": "false",
        "npm_config_cache": str(work / "cache"),
        "npm_config_fund": "false",
        "npm_config_update_notifier": "false",
    }
    with registry(sorted(Path(archives).glob("*.tgz"))) as packages, HttpServer(Tools) as server:
        environment["npm_config_registry"] = f"http://{HOST}:{packages.port}/"
        url = f"http://{HOST}:{server.port}/mcp"

        npx = Program("npx", "--yes", NPM_NAME, cwd=project(work, "npx"), env=environment)
        npx.check_version()
        npx.check_exit_codes()
        npx.check_bridge(url)
        check_npx_ended(npx, url)
        print("npx: --version, exit codes, a bridge; the end of stdin after SIGTERM")

        usual = project(work, "usual")
        npm(environment, usual, "install", NPM_NAME)
        found = sorted(path.name for path in (usual / "node_modules" / "@mcp-proto").iterdir())
        expect(found == ["mcp-proxy", "mcp-proxy-linux-x64"], f"installed were {found}")
        launcher = Program(usual / "node_modules" / ".bin" / NAME, env=environment)
        launcher.check_version()
        launcher.check_exit_codes()
        launcher.check_bridge(url)
        check_signals(launcher, url)
        check_killed(launcher, url)
        print("npm install: the package of this platform alone; SIGTERM, SIGINT, SIGHUP and death by SIGKILL are passed on")

        check_platforms(environment, work, Path(archives))

        omitted = project(work, "omitted")
        npm(environment, omitted, "install", "--omit=optional", NPM_NAME)
        launcher = Program(omitted / "node_modules" / ".bin" / NAME, env=environment)
        check_explained(launcher, f"{NPM_NAME}-linux-x64 is not installed", "--omit=optional", "--no-optional")
        print("npm install --omit=optional: an error that states what to do")

        # The files that were installed for this machine, used on another one.
        command = usual / "node_modules" / ".bin" / NAME
        other = Program(command, env=elsewhere(environment, work, "win32", "arm64"))
        check_explained(other, f"{NPM_NAME}-win32-arm64 is not installed", "install that again", "on which it runs")
        unknown = Program(command, env=elsewhere(environment, work, "freebsd", "riscv64"))
        check_explained(unknown, "no program for freebsd on riscv64", f"{NPM_NAME}-linux-x64", f"cargo install {manifest()['name']}")
        print("another platform, and one without a program: errors that state what to do")


if __name__ == "__main__":
    raise SystemExit(main(check))
