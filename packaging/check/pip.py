"""Installs the wheel into a virtual environment, and runs the program: pip.py WHEEL BINARY FOLDER"""

import shutil
import signal
import subprocess
import sys
from pathlib import Path

from peers import HttpServer, Tools
from program import Program, expect, main
from project import PYPI_NAME


def check(wheel: str, binary: str, folder: str) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    scripts = Path(folder) / "bin"
    pip = [scripts / "pip", "--disable-pip-version-check", "--quiet"]
    subprocess.run([*pip, "install", "--no-index", "--no-deps", wheel], check=True)
    program = scripts / "mcp-proxy"
    expect(program.read_bytes() == Path(binary).read_bytes(), "the program is another one")
    proxy = Program(program)
    proxy.check_version()
    proxy.check_exit_codes()
    with HttpServer(Tools) as server:
        url = f"http://127.0.0.1:{server.port}/mcp"
        proxy.check_bridge(url)
        proxy.check_signal(url, signal.SIGTERM, 0)
    subprocess.run([*pip, "check"], check=True)
    subprocess.run([*pip, "uninstall", "--yes", PYPI_NAME], check=True)
    expect(not program.exists(), "the program is left behind")
    print(f"{Path(wheel).name}: installed, run and removed in a virtual environment")


if __name__ == "__main__":
    raise SystemExit(main(check))
