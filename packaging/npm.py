"""Makes the npm packages: one with a launcher, and one with the program for each platform.

The launcher's package names all platforms as optional dependencies; npm installs the one whose `os` and `cpu` match.
"""

import json
import shutil
import subprocess
from pathlib import Path

from project import LICENCES, NAME, NPM_NAME, PLATFORMS, SUMMARY, Platform, manifest, readme


def package(folder: Path, about: dict) -> None:
    """Writes what all packages contain."""
    crate = manifest()
    common = {
        "version": crate["version"],
        "license": crate["license"],
        "homepage": crate["homepage"],
        "repository": {"type": "git", "url": f"git+{crate['repository']}.git"},
    }
    # Anew, so that no file of another version stays.
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "bin").mkdir(parents=True)
    (folder / "package.json").write_text(json.dumps(about | common, indent=2) + "\n")
    for licence in LICENCES:
        shutil.copy(licence, folder)


def launcher(folder: Path) -> None:
    version = manifest()["version"]
    package(
        folder,
        {
            "name": NPM_NAME,
            "description": SUMMARY,
            "keywords": ["mcp", "modelcontextprotocol", "proxy", "stdio"],
            "bin": {NAME: "bin/mcp-proxy.js"},
            "engines": {"node": ">=18"},
            "optionalDependencies": {known.npm_name: version for known in PLATFORMS},
        },
    )
    shutil.copy(Path(__file__).parent / "npm" / "launcher.js", folder / "bin" / "mcp-proxy.js")
    (folder / "bin" / "mcp-proxy.js").chmod(0o755)
    (folder / "README.md").write_text(readme(f"npm install --global {NPM_NAME}"))


def program(folder: Path, target: Platform, binary: Path) -> None:
    about = {
        "name": target.npm_name,
        "description": f"The program of {NPM_NAME} for {target.npm_os} on {target.npm_cpu}",
        "os": [target.npm_os],
        "cpu": [target.npm_cpu],
        # Yarn keeps packages in archives, from which no program can be started.
        "preferUnplugged": True,
    }
    package(folder, about)
    shutil.copy(binary, folder / "bin" / target.binary)
    (folder / "bin" / target.binary).chmod(0o755)
    (folder / "README.md").write_text(f"# {target.npm_name}\n\n{about['description']}. Install that one instead.\n")


def packages(folder: Path, work: Path, binaries: dict[Platform, Path]) -> None:
    """Makes the archives of the launcher and of the given platforms in the folder, by way of another folder."""
    folder.mkdir(parents=True)
    launcher(work / NAME)
    for target, binary in binaries.items():
        program(work / f"{NAME}-{target.npm_os}-{target.npm_cpu}", target, binary)
    for package in sorted(work.iterdir()):
        command = ["npm", "pack", "--silent", "--pack-destination", str(folder.resolve())]
        subprocess.run(command, cwd=package, check=True, stdout=subprocess.DEVNULL)
