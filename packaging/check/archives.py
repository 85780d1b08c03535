"""Checks the archives, their checksums, and what refers to both: archives.py DIST

The programs that this machine can run are run from the archives. Needs `ruby`, which reads the formula and YAML.
"""

import json
import platform
import re
import shutil
import subprocess
import tarfile
import tempfile
import zipfile
from pathlib import Path

from program import BARE, Program, expect, main
from project import LICENCES, NAME, PYPI_NAME, manifest, release

PAGES = {
    *(f"completions/{name}" for name in ["_mcp-proxy", "_mcp-proxy.ps1", "mcp-proxy.bash", "mcp-proxy.elv", "mcp-proxy.fish"]),
    *(f"man/mcp-proxy{command}.1" for command in ["", "-demo", "-login", "-logout", "-serve", "-whoami"]),
}
# The fields that the schemas of winget demand (https://github.com/microsoft/winget-cli/tree/master/schemas), by the kind.
EACH = ["PackageIdentifier", "PackageVersion", "ManifestType", "ManifestVersion"]
REQUIRED = {
    "version": [*EACH, "DefaultLocale"],
    "installer": [*EACH, "Installers"],
    "defaultLocale": [*EACH, "PackageLocale", "Publisher", "PackageName", "License", "ShortDescription"],
}


def unpack(archive: Path, folder: Path) -> None:
    if archive.suffix == ".zip":
        with zipfile.ZipFile(archive) as opened:
            opened.extractall(folder)
    else:
        with tarfile.open(archive) as opened:
            opened.extractall(folder, filter="data")


def check_archive(archive: Path, folder: Path) -> None:
    unpack(archive, folder)
    top = folder / archive.name.removesuffix(".zip").removesuffix(".tar.gz")
    expect([*folder.iterdir()] == [top], f"{archive.name} has more than one folder: {[*folder.iterdir()]}")
    program = top / (f"{NAME}.exe" if archive.suffix == ".zip" else NAME)
    found = {str(path.relative_to(top)) for path in top.rglob("*") if path.is_file()}
    expected = PAGES | {program.name} | {licence.name for licence in LICENCES}
    expect(found == expected, f"{archive.name}: besides, or missing: {found ^ expected}")
    machine = archive.name.split("-")[3]
    if "-linux-" in archive.name and (command := runner(machine)) is not None:
        Program(*command, program, env=BARE).check_version()
        print(f"{archive.name}: complete, and its program runs")
    else:
        print(f"{archive.name}: complete")


def runner(machine: str) -> list[str] | None:
    """The command that runs programs of Linux for this kind of machine, if there is one."""
    if machine == platform.machine():
        return []
    emulator = shutil.which(f"qemu-{machine}-static")
    return [emulator] if emulator else None


def check_sums(dist: Path, folder: Path) -> dict[str, str]:
    """Returns the names of the files with their checksums."""
    files = [*(dist / "archives").iterdir(), *(dist / "deb").glob("*")]
    for file in files:
        (folder / file.name).symlink_to(file.resolve())
    sums = dist / "SHA256SUMS"
    done = subprocess.run(["sha256sum", "--check", "--strict", sums.resolve()], cwd=folder, capture_output=True, text=True)
    expect(done.returncode == 0, f"{done.stdout}{done.stderr}")
    listed = dict(reversed(line.split("  ")) for line in sums.read_text().splitlines())
    expect({*listed} == {file.name for file in files}, f"the files of {sums} are {sorted(listed)}")
    print(f"SHA256SUMS: {len(listed)} files")
    return listed


def check_formula(formula: Path, sums: dict[str, str]) -> None:
    output("ruby", "-c", str(formula))
    text = formula.read_text()
    named = dict(re.findall(r'url "([^"]*)"\s+sha256 "([^"]*)"', text))
    expected = {release(name): digest for name, digest in sums.items() if name.endswith(".tar.gz")}
    expect(named == expected, f"{formula.name} has {named}, and not {expected}")
    (description,) = re.findall('desc "(.*)"', text)
    expect(len(description) <= 80 and not description.endswith("."), description)
    print(f"{formula.name}: ruby reads it, with the checksums of {len(named)} archives")


def output(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    expect(done.returncode == 0, f"{command}: {done.stdout}{done.stderr}")
    return done.stdout


def check_winget(folder: Path, sums: dict[str, str], unpacked: Path) -> None:
    kinds = {}
    files = [path for path in folder.rglob("*") if path.is_file()]
    for file in files:
        about = json.loads(output("ruby", "-ryaml", "-rjson", "-e", "puts YAML.load_file(ARGV[0]).to_json", str(file)))
        kind = about["ManifestType"]
        kinds[kind] = about
        lacking = [name for name in REQUIRED[kind] if not about.get(name)]
        expect(not lacking, f"{file.name} lacks {lacking}")
        ending = {"version": "", "installer": ".installer", "defaultLocale": f".locale.{about.get('PackageLocale')}"}[kind]
        name = f"{about['PackageIdentifier']}{ending}.yaml"
        expect(file.name == name, f"{file.name} must be called {name}")
        expect(about["PackageVersion"] == manifest()["version"], f"{file.name}: version {about['PackageVersion']}")
        place = Path("manifests", name[0].lower(), *about["PackageIdentifier"].split("."), about["PackageVersion"])
        expect(file.parent == folder / place, f"{file} must be in {place}")
    expect({*kinds} == {*REQUIRED}, f"winget: {sorted(kinds)}")
    expect(len(kinds["defaultLocale"]["ShortDescription"]) <= 256, "the short description is too long")
    installers = kinds["installer"]["Installers"]
    named = {one["InstallerUrl"]: one["InstallerSha256"] for one in installers}
    expected = {release(name): digest.upper() for name, digest in sums.items() if name.endswith(".zip")}
    expect(named == expected, f"winget has {named}, and not {expected}")
    for one in installers:
        (nested,) = one["NestedInstallerFiles"]
        place = unpacked / Path(one["InstallerUrl"]).name / nested["RelativeFilePath"].replace("\\", "/")
        expect(place.is_file(), f"{place} is not in the archive")
        expect(nested["PortableCommandAlias"] == NAME, f"the command is {nested['PortableCommandAlias']}")
    print(f"winget: {len(files)} manifests, with the checksums of {len(named)} archives")


def check(folder: str) -> None:
    dist = Path(folder)
    with tempfile.TemporaryDirectory() as work:
        unpacked, links = Path(work) / "unpacked", Path(work) / "links"
        links.mkdir()
        archives = sorted((dist / "archives").iterdir())
        for archive in archives:
            (unpacked / archive.name).mkdir(parents=True)
            check_archive(archive, unpacked / archive.name)
        sums = check_sums(dist, links)
        if any(archive.suffix != ".zip" for archive in archives):
            check_formula(dist / "homebrew" / f"{PYPI_NAME}.rb", sums)
        if any(archive.suffix == ".zip" for archive in archives):
            check_winget(dist / "winget", sums, unpacked)


if __name__ == "__main__":
    raise SystemExit(main(check))
