"""Makes the packages of each platform whose binary is there: dist.py BINARIES PAGES DIST

BINARIES has a folder for each target of the compiler, with the binary; PAGES has the man pages and the completions. DIST
gets `archives`, `deb`, `homebrew`, `image`, `npm`, `wheel`, `winget`, and `SHA256SUMS` of the archives and Debian packages,
which a release has as its files. `dpkg-deb` must be installed, if there is a binary for Linux.
"""

import hashlib
import shutil
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

import deb
import homebrew
import npm
import winget
from project import LICENCES, NAME, Platform, built, manifest, missing
from wheel import wheel


def archive(folder: Path, target: Platform, binary: Path, pages: Path) -> Path:
    """An archive with the binary, the man pages, the completions and the licences, as users unpack it by hand."""
    folder.mkdir(parents=True, exist_ok=True)
    top = f"{NAME}-{manifest()['version']}-{target.triple}"
    files = [(binary, target.binary), *((licence, licence.name) for licence in LICENCES)]
    files += [(page, f"{'man' if page.suffix == '.1' else 'completions'}/{page.name}") for page in sorted(pages.iterdir())]
    if target.npm_os == "win32":
        file = folder / f"{top}.zip"
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as written:
            for path, name in files:
                written.write(path, f"{top}/{name}")
        return file
    file = folder / f"{top}.tar.gz"
    with tarfile.open(file, "w:gz") as written:
        for path, name in files:
            entry = written.gettarinfo(path, f"{top}/{name}")
            entry.uid = entry.gid = 0
            entry.uname = entry.gname = "root"
            entry.mode = 0o755 if path == binary else 0o644
            with path.open("rb") as content:
                written.addfile(entry, content)
    return file


def image(folder: Path, target: Platform, binary: Path) -> None:
    """The folder in which the image is built."""
    place = folder / f"linux-{target.linux}"
    place.mkdir(parents=True)
    for file in [binary, *LICENCES]:
        shutil.copy(file, place)


def sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def main() -> int:
    if len(sys.argv) != 4:
        print(__doc__, file=sys.stderr)
        return 2
    binaries, pages, dist = map(Path, sys.argv[1:])
    # Anew, so that nothing of another version stays.
    shutil.rmtree(dist, ignore_errors=True)
    found = built(binaries)
    archives = {}
    for target, binary in found.items():
        made = archive(dist / "archives", target, binary, pages)
        archives[target] = made.name, sha256(made)
        wheel(dist / "wheel", target, binary)
        if target.linux:
            deb.package(dist / "deb", target, binary, pages)
            image(dist / "image", target, binary)
    homebrew.formula(dist / "homebrew", {target: made for target, made in archives.items() if target.npm_os != "win32"})
    winget.manifests(dist / "winget", {target: made for target, made in archives.items() if target.npm_os == "win32"})
    files = [*sorted((dist / "archives").iterdir()), *sorted((dist / "deb").glob("*"))]
    (dist / "SHA256SUMS").write_text("".join(f"{sha256(file)}  {file.name}\n" for file in files))
    with tempfile.TemporaryDirectory() as work:
        npm.packages(dist / "npm", Path(work), found)
    for file in sorted(dist.rglob("*")):
        if file.is_file():
            print(f"{file.relative_to(dist)}: {file.stat().st_size // 1024} KiB")
    if lacking := missing(binaries):
        print(f"without packages, because there is no binary: {', '.join(lacking)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
