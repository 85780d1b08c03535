"""Installs the wheel into a virtual environment, and runs the program: pip.py WHEEL BINARY FOLDER

The package `mcp-proxy` of PyPI is installed beside it, and `uvx` runs it, if PyPI can be reached.
"""

import os
import shutil
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

from peers import HttpServer, Tools
from program import Program, expect, main
from project import NAME, PLATFORMS, PYPI_NAME


class Environment:
    """A new virtual environment."""

    def __init__(self, folder: Path):
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        self.scripts = folder / "bin"

    def pip(self, *arguments: str | Path) -> None:
        subprocess.run([self.scripts / "pip", "--disable-pip-version-check", "--quiet", *arguments], check=True)

    def installs(self, package: str) -> bool:
        """Whether this package of PyPI can be installed, without those that it needs."""
        try:
            self.pip("install", "--no-deps", "--only-binary=:all:", package)
        except subprocess.CalledProcessError:
            return False
        return True

    def files(self, package: str) -> set[str]:
        """Where the files of the package are, as it has recorded them."""
        code = "import sys; from importlib.metadata import files\nfor file in files(sys.argv[1]): print(file.locate().resolve())"
        command = [self.scripts / "python", "-c", code, package]
        return {*subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()}


def check_alone(wheel: str, binary: bytes, folder: Path) -> None:
    environment = Environment(folder)
    before = {*environment.scripts.iterdir()}
    environment.pip("install", "--no-index", "--no-deps", wheel)
    added = {*environment.scripts.iterdir()} - before
    program = environment.scripts / PYPI_NAME
    expect(added == {program}, f"the commands are {added}")
    expect(program.read_bytes() == binary, "the program is another one")
    proxy = Program(program)
    proxy.check_version()
    proxy.check_exit_codes()
    with HttpServer(Tools) as server:
        url = f"http://127.0.0.1:{server.port}/mcp"
        proxy.check_bridge(url)
        proxy.check_signal(url, signal.SIGTERM, 0)
    environment.pip("check")
    environment.pip("uninstall", "--yes", PYPI_NAME)
    expect({*environment.scripts.iterdir()} == before, "uninstalling leaves something behind")
    print(f"{Path(wheel).name}: installed, run and removed in a virtual environment")


def check_neighbour(wheel: str, binary: bytes, folder: Path) -> None:
    """The package that has the name `mcp-proxy` at PyPI keeps its command, and the wheel has its own."""
    environment = Environment(folder)
    if not environment.installs(NAME):
        print(f"NOT RUN: the wheel beside the package {NAME}, because PyPI cannot be reached")
        return
    theirs = (environment.scripts / NAME).read_bytes()
    environment.pip("install", "--no-index", "--no-deps", wheel)
    common = environment.files(NAME) & environment.files(PYPI_NAME)
    expect(not common, f"{NAME} and {PYPI_NAME} both install {common}")
    expect((environment.scripts / NAME).read_bytes() == theirs, f"{NAME} is not the command of its package any more")
    expect((environment.scripts / PYPI_NAME).read_bytes() == binary, f"{PYPI_NAME} is not the command of the wheel")
    environment.pip("uninstall", "--yes", PYPI_NAME)
    expect((environment.scripts / NAME).read_bytes() == theirs, f"uninstalling the wheel removes {NAME}")
    print(f"beside the package {NAME} of PyPI: each has the command of its name")


def check_uvx(wheel: str, folder: Path) -> None:
    """`uvx PACKAGE` runs the command that has the name of the package."""
    environment = Environment(folder)
    if not environment.installs("uv"):
        print("NOT RUN: uvx, because PyPI cannot be reached")
        return
    variables = os.environ | {"UV_CACHE_DIR": str(folder / "cache"), "UV_TOOL_DIR": str(folder / "tools")}
    uvx = [environment.scripts / "uvx", "--no-index", "--find-links", str(Path(wheel).parent), "--python", sys.executable]
    Program(*uvx, PYPI_NAME, env=variables).check_version()
    print(f"uvx {PYPI_NAME}: run")


def check_tags(wheels: Path, folder: Path) -> None:
    """`pip` takes the wheel of each platform there, which has the command with the ending of the platform."""
    environment = Environment(folder)
    seen = []
    for platform in PLATFORMS:
        for tag in platform.wheel_tag.split("."):
            place = folder / tag
            options = ["--no-index", "--no-deps", "--only-binary=:all:", "--find-links", wheels, "--platform", tag]
            if not [*wheels.glob(f"*{platform.wheel_tag}.whl")]:
                continue
            environment.pip("download", *options, "--dest", place, PYPI_NAME)
            (wheel,) = place.iterdir()
            expect(wheel.name.endswith(f"-py3-none-{platform.wheel_tag}.whl"), f"{tag} takes {wheel.name}")
            with zipfile.ZipFile(wheel) as opened:
                commands = [Path(name).name for name in opened.namelist() if "/scripts/" in name]
            expect(commands == [f"{PYPI_NAME}{Path(platform.binary).suffix}"], f"{wheel.name} has {commands}")
            seen.append(tag)
    taken = {wheel.name for tag in seen for wheel in (folder / tag).iterdir()}
    others = {wheel.name for wheel in wheels.iterdir()} - taken
    expect(not others, f"no platform takes {others}")
    print(f"pip takes the wheel of the platform for {', '.join(seen)}")


def check(wheel: str, file: str, folder: str) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    binary = Path(file).read_bytes()
    check_tags(Path(wheel).parent, Path(folder) / "tags")
    check_alone(wheel, binary, Path(folder) / "alone")
    check_neighbour(wheel, binary, Path(folder) / "neighbour")
    check_uvx(wheel, Path(folder) / "uvx")


if __name__ == "__main__":
    raise SystemExit(main(check))
