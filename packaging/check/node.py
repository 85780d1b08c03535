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
from project import NAME, NPM_NAME


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

        omitted = project(work, "omitted")
        npm(environment, omitted, "install", "--omit=optional", NPM_NAME)
        done = Program(omitted / "node_modules" / ".bin" / NAME, env=environment).run("--version")
        expect(done.returncode == 1 and "optional dependency" in done.stderr, f"without the program: {done}")
        print("npm install --omit=optional: an error that states what to do")


if __name__ == "__main__":
    raise SystemExit(main(check))
