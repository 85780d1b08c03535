"""Makes a Python wheel that carries the program: `pip install` places it beside Python's own programs.

A wheel is a ZIP archive with a list of its files (https://packaging.python.org/en/latest/specifications/binary-distribution-format/).
`maturin` would build the program again; this takes the one that all packages contain. The same input makes the same bytes.
"""

import base64
import hashlib
import stat
import zipfile
from pathlib import Path

from project import LICENCES, NAME, PYPI_NAME, SUMMARY, Platform, manifest, readme

# ZIP archives cannot express an earlier time.
TIME = (1980, 1, 1, 0, 0, 0)


def metadata(crate: dict) -> str:
    """The core metadata (https://packaging.python.org/en/latest/specifications/core-metadata/)."""
    fields = [
        ("Metadata-Version", "2.4"),
        ("Name", PYPI_NAME),
        ("Version", crate["version"]),
        ("Summary", SUMMARY),
        ("Description-Content-Type", "text/markdown"),
        ("Keywords", "mcp,modelcontextprotocol,proxy,stdio"),
        ("License-Expression", crate["license"]),
        *(("License-File", licence.name) for licence in LICENCES),
        ("Project-URL", f"Repository, {crate['repository']}"),
        ("Requires-Python", ">=3.8"),
    ]
    text = readme(f"pip install {PYPI_NAME}", PYPI_NAME)
    text += f"""
The command is called `{PYPI_NAME}`, because `{NAME}` is that of another package at PyPI. Without installing,
`uvx {PYPI_NAME} URL` runs it. Its help and its messages call it `{NAME}`.
"""
    return "\n".join(f"{name}: {value}" for name, value in fields) + "\n\n" + text


def wheel(folder: Path, target: Platform, binary: Path) -> None:
    """Makes the wheel of a platform in the folder."""
    crate = manifest()
    # A hyphen separates the parts of the file name.
    name = f"{PYPI_NAME.replace('-', '_')}-{crate['version']}"
    tag = f"py3-none-{target.wheel_tag}"
    python, abi, platforms = tag.split("-")
    tags = [f"Tag: {python}-{abi}-{one}" for one in platforms.split(".")]
    about = ["Wheel-Version: 1.0", "Generator: mcp-proxy-packaging 1", "Root-Is-Purelib: false", *tags]
    files = {
        f"{name}.data/scripts/{PYPI_NAME}{Path(target.binary).suffix}": (binary.read_bytes(), 0o755),
        f"{name}.dist-info/METADATA": (metadata(crate).encode(), 0o644),
        f"{name}.dist-info/WHEEL": ("\n".join([*about, ""]).encode(), 0o644),
    }
    for licence in LICENCES:
        files[f"{name}.dist-info/licenses/{licence.name}"] = (licence.read_bytes(), 0o644)
    record = f"{name}.dist-info/RECORD"
    lines = [f"{path},sha256={digest(content)},{len(content)}" for path, (content, _) in files.items()]
    files[record] = ("\n".join([*lines, f"{record},,", ""]).encode(), 0o644)

    folder.mkdir(parents=True, exist_ok=True)
    archive = folder / f"{name}-{tag}.whl"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as written:
        for path, (content, mode) in files.items():
            entry = zipfile.ZipInfo(path, TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            # The upper half is the mode of Unix.
            entry.create_system, entry.external_attr = 3, (stat.S_IFREG | mode) << 16
            written.writestr(entry, content)


def digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
