"""Unpacks and checks the archives of the published crates.

    archives.py list                              prints the crates that are published, each with its folder after a tab;
                                                  reads `cargo metadata`
    archives.py libraries                         prints those of them that are libraries
    archives.py unpack REPOSITORY ARCHIVES FOLDER unpacks each archive into FOLDER/CRATE, and checks it; reads what `list`
                                                  prints
    archives.py manifest CARGO_TOML CRATE...      prints the manifest of a workspace of the unpacked crates and of pages/
"""

import json
import sys
import tarfile
import tomllib
from pathlib import Path

LICENCES = ["LICENSE-APACHE", "LICENSE-MIT"]
NEEDED = ["description", "repository", "homepage", "readme", "license", "rust-version"]
# Limits of crates.io.
MAX_BYTES = 10 << 20
MAX_KEYWORDS, MAX_KEYWORD = 5, 20


def published() -> dict[str, Path]:
    """The folders of the crates that are published, by their names, in an order in which each follows its dependencies."""
    packages = {package["name"]: package for package in json.load(sys.stdin)["packages"] if package["publish"] is None}
    ordered: list[str] = []

    def add(name: str) -> None:
        # Dependencies for tests are removed from the archives if they have no version.
        needed = [other["name"] for other in packages[name]["dependencies"] if other["kind"] is None]
        for other in needed:
            if other in packages and other not in ordered:
                add(other)
        if name not in ordered:
            ordered.append(name)

    for name in sorted(packages):
        add(name)
    return {name: Path(packages[name]["manifest_path"]).parent for name in ordered}


def is_library(source: Path) -> bool:
    """Whether the crate in this folder is a library, which docs.rs shows; others are programs."""
    return (source / "src/lib.rs").is_file()


def problems(folder: Path, source: Path, repository: Path) -> list[str]:
    """What is wrong with an unpacked crate, whose source is in the other folder."""
    found = []
    package = tomllib.loads((folder / "Cargo.toml").read_text())
    about = package["package"]
    found += [f"Cargo.toml has no {key}" for key in NEEDED if not about.get(key)]
    if is_library(source):
        if not about.get("documentation"):
            found.append("Cargo.toml has no documentation")
        if "all-features" not in about.get("metadata", {}).get("docs", {}).get("rs", {}):
            found.append("Cargo.toml does not set the features for docs.rs")
    keywords = about.get("keywords", [])
    if not 0 < len(keywords) <= MAX_KEYWORDS or any(len(word) > MAX_KEYWORD for word in keywords):
        found.append(f"crates.io does not accept the keywords {keywords}")
    if not 0 < len(about.get("categories", [])) <= MAX_KEYWORDS:
        found.append("Cargo.toml has no categories, or too many")
    for kind in ["dependencies", "dev-dependencies", "build-dependencies"]:
        for name, wanted in package.get(kind, {}).items():
            if "path" in wanted or "version" not in wanted:
                found.append(f"{name} in {kind} is not on crates.io")
    for name in LICENCES:
        file = folder / name
        if not file.is_file() or file.is_symlink() or file.read_bytes() != (repository / name).read_bytes():
            found.append(f"{name} is not the one of the repository")
    if not (folder / "README.md").is_file():
        found.append("there is no README.md")
    if not (source / "src").is_dir():
        found.append(f"there is no source in {source}")
    for part in ["src", "examples"]:
        for file in (source / part).rglob("*"):
            if file.is_file() and not (folder / file.relative_to(source)).is_file():
                found.append(f"{file.relative_to(source)} is missing")
    unexpected = {entry.name for entry in folder.iterdir()} - {
        "Cargo.toml", "Cargo.toml.orig", "Cargo.lock", ".cargo_vcs_info.json", "README.md", "src", "examples", *LICENCES,
        # The dictionary for fuzzers, in the test kit.
        "mcp.dict",
    }
    found += [f"{name} should not be in the archive" for name in sorted(unexpected)]
    return found


def unpack(repository: Path, archives: Path, folder: Path, sources: dict[str, Path]) -> int:
    """Unpacks each archive, and returns how many of them are wrong. `sources` are the folders of the crates."""
    wrong = 0
    for archive in sorted(archives.glob("*.crate")):
        name = archive.stem.rpartition("-")[0]
        with tarfile.open(archive) as tar:
            tar.extractall(folder, filter="data")
        (folder / archive.stem).rename(folder / name)
        found = problems(folder / name, sources[name], repository)
        if archive.stat().st_size > MAX_BYTES:
            found.append(f"it has {archive.stat().st_size} bytes, more than crates.io accepts")
        print(f"{archive.name}: {archive.stat().st_size // 1024} KiB", *found, sep="\n    ")
        wrong += bool(found)
    return wrong


def manifest(original: Path, crates: list[str]) -> str:
    """A workspace in which the unpacked crates stand for those of crates.io, with the profile `dev` of the original."""
    lines = ["[workspace]", 'resolver = "3"', 'members = ["crates/*", "pages/*"]', "", "[patch.crates-io]"]
    lines += [f'{crate} = {{ path = "crates/{crate}" }}' for crate in crates]
    profile = tomllib.loads(original.read_text())["profile"]["dev"]
    tables = {"dev": profile} | {f"dev.package.{json.dumps(name)}": table for name, table in profile["package"].items()}
    for name, table in tables.items():
        lines += ["", f"[profile.{name}]"]
        lines += [f"{key} = {json.dumps(value)}" for key, value in table.items() if not isinstance(value, dict)]
    return "\n".join(lines)


def main() -> int:
    match sys.argv[1:]:
        case ["list"]:
            print(*(f"{name}\t{folder}" for name, folder in published().items()), sep="\n")
        case ["libraries"]:
            print(*(name for name, folder in published().items() if is_library(folder)), sep="\n")
        case ["unpack", repository, archives, folder]:
            sources = dict(line.rstrip("\n").split("\t") for line in sys.stdin)
            return unpack(
                Path(repository), Path(archives), Path(folder), {name: Path(path) for name, path in sources.items()}
            )
        case ["manifest", original, *crates]:
            print(manifest(Path(original), crates))
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    return 0


sys.exit(main())
