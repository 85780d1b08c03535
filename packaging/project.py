"""What all packages of `mcp-proxy` state about it, from the manifests, and the platforms that it is built for."""

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
NAME = "mcp-proxy"
# At crates.io, npm and PyPI, `mcp-proxy` is the name of other programs.
NPM_NAME = "@mcp-proto/mcp-proxy"
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
    Platform("x86_64-pc-windows-msvc", "win32", "x64", "win_amd64"),
]


def manifest() -> dict:
    """The manifest of the crate that contains the binary, as `cargo metadata` prints it."""
    command = ["cargo", "metadata", "--format-version", "1", "--no-deps", "--locked"]
    metadata = json.loads(subprocess.run(command, cwd=REPOSITORY, check=True, stdout=subprocess.PIPE).stdout)
    return next(package for package in metadata["packages"] if package["name"] == "mcp-proto-proxy")


def readme(install: str) -> str:
    """The text that registries show, with the command that installs this package."""
    text = (Path(__file__).parent / "README.in.md").read_text()
    return text.replace("@INSTALL@", install).replace("@REPOSITORY@", manifest()["repository"])
