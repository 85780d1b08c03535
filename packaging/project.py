"""What all packages of `mcp-proxy` state about it, from the manifests, and the platforms that it is built for.

project.py BINARIES fails if the binary of a platform is not in that folder, so that a release has all.
"""

import json
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
NAME = "mcp-proxy"
AUTHORS = "The authors of mcp-proto"
# At crates.io, npm and PyPI, `mcp-proxy` is the name of other programs.
NPM_NAME = "@mcp-proto/mcp-proxy"
# Also the command that the wheel installs: two packages with one command overwrite each other's without a word.
PYPI_NAME = "mcp-proto-proxy"
SUMMARY = "Connects an MCP client over stdio to an MCP server over HTTP or stdio, whichever protocol revision each of them uses"
# The last has the licences of what the binary contains; `packaging/run licences` collects them.
LICENCES = [
    REPOSITORY / "LICENSE-APACHE",
    REPOSITORY / "LICENSE-MIT",
    REPOSITORY / "target/packaging/licences/THIRD-PARTY-LICENSES.txt",
]


@dataclass(frozen=True)
class Platform:
    """A target of the compiler, and what package formats call it."""

    triple: str
    npm_os: str
    npm_cpu: str
    wheel_tag: str
    # The architecture as Docker calls it, for the platforms that have images and Debian packages.
    linux: str | None = None
    # A target whose binary is packed where that of `triple` is missing.
    substitute: str | None = None

    @property
    def binary(self) -> str:
        return f"{NAME}.exe" if self.npm_os == "win32" else NAME

    @property
    def npm_name(self) -> str:
        return f"{NPM_NAME}-{self.npm_os}-{self.npm_cpu}"


# A static binary runs with every C library of Linux, hence both tags.
PLATFORMS = [
    Platform("x86_64-unknown-linux-musl", "linux", "x64", "manylinux_2_17_x86_64.musllinux_1_1_x86_64", "amd64"),
    Platform("aarch64-unknown-linux-musl", "linux", "arm64", "manylinux_2_17_aarch64.musllinux_1_1_aarch64", "arm64"),
    Platform("x86_64-apple-darwin", "darwin", "x64", "macosx_10_12_x86_64"),
    Platform("aarch64-apple-darwin", "darwin", "arm64", "macosx_11_0_arm64"),
    Platform("x86_64-pc-windows-msvc", "win32", "x64", "win_amd64", substitute="x86_64-pc-windows-gnu"),
    Platform("aarch64-pc-windows-msvc", "win32", "arm64", "win_arm64"),
]


def built(binaries: Path) -> dict[Platform, Path]:
    """The platforms whose binary is in the folder, which has a folder for each target of the compiler."""
    found = {}
    for platform in PLATFORMS:
        for triple in filter(None, [platform.triple, platform.substitute]):
            binary = binaries / triple / platform.binary
            if binary.exists():
                found[replace(platform, triple=triple)] = binary
                break
    return found


def missing(binaries: Path) -> list[str]:
    """The targets of a release whose binary is not there."""
    found = {platform.triple for platform in built(binaries)}
    return [platform.triple for platform in PLATFORMS if platform.triple not in found]


def manifest() -> dict:
    """The manifest of the crate that contains the binary, as `cargo metadata` prints it."""
    command = ["cargo", "metadata", "--format-version", "1", "--no-deps", "--locked"]
    metadata = json.loads(subprocess.run(command, cwd=REPOSITORY, check=True, stdout=subprocess.PIPE).stdout)
    return next(package for package in metadata["packages"] if package["name"] == "mcp-proto-proxy")


def release(file: str) -> str:
    """The address of a file of the release."""
    crate = manifest()
    return f"{crate['repository']}/releases/download/v{crate['version']}/{file}"


def readme(install: str, command: str = NAME) -> str:
    """The text that registries show, with the command that installs this package, and the one that it installs."""
    text = (Path(__file__).parent / "README.in.md").read_text()
    text = text.replace("@INSTALL@", install).replace("@REPOSITORY@", manifest()["repository"])
    return text.replace("@COMMAND@", command)


if __name__ == "__main__":
    lacking = missing(Path(sys.argv[1]))
    sys.exit(f"no binary for {', '.join(lacking)}" if lacking else 0)
