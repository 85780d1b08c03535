"""Makes the Debian packages with `dpkg-deb`, which takes a folder with the files as they are installed.

`cargo deb` would take the synopsis from the crate, and write a field `Depends` without a value.
"""

import gzip
import hashlib
import os
import subprocess
import tempfile
from email.utils import formatdate
from pathlib import Path

from project import AUTHORS, LICENCES, NAME, REPOSITORY, Platform, manifest

SOURCES = Path(__file__).parent / "deb"
# Debian's tools demand a name with a mail address.
MAINTAINER = f"{AUTHORS} <maintainers@mcp-proto.invalid>"
REVISION = 1
SYNOPSIS = "bridge between MCP clients and servers over stdio and HTTP"
# A line of a paragraph begins with a space; a dot is an empty line.
DESCRIPTION = """\
 Connects a client of the Model Context Protocol (MCP) that speaks stdio, such
 as an editor, to a server over HTTP or stdio, whichever revision of the
 protocol each of them uses. Handles sessions, streams, reconnection, the older
 HTTP transports, and signing in with OAuth.
 .
 "mcp-proxy serve" puts servers over stdio behind HTTP. The package contains a
 systemd service for it, which installing neither enables nor starts."""
DOCUMENTS = ["SECURITY.md", "docs/bridging.md", "docs/gateway.md", "docs/proxy.md"]
SCRIPTS = ["postinst", "postrm", "prerm"]
CONFIGURATION = "etc/mcp-proxy/environment"
# What `lintian` warns of, and is as it has to be: the program is static, which it detects in two ways, and the file of variables may
# contain tokens.
OVERRIDES = "".join(
    f"{NAME}: {tag} *\n"
    for tag in [
        "non-standard-file-perm",
        "shared-library-lacks-prerequisites",
        "statically-linked-binary",
    ]
)


def compressed(content: bytes) -> bytes:
    return gzip.compress(content, mtime=0)


def copyright_file() -> str:
    """In the form of https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/."""
    crate = manifest()
    licence = "\n".join(f" {line}" if line else " ." for line in LICENCES[1].read_text().strip().splitlines())
    return f"""\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: {crate['name']}
Source: {crate['repository']}
Comment: /usr/share/doc/{NAME}/THIRD-PARTY-LICENSES.txt has the licences of the
 libraries that the program contains.

Files: *
Copyright: {AUTHORS}
License: Apache-2.0 or Expat

License: Apache-2.0
 /usr/share/common-licenses/Apache-2.0 has the text.

License: Expat
{licence}
"""


def changelog(version: str, time: int) -> str:
    """The changes of the package, which has none of its own."""
    return f"""\
{NAME} ({version}) unstable; urgency=medium

  * Version {manifest()['version']}; changelog.gz has its changes.

 -- {MAINTAINER}  {formatdate(time)}
"""


def files(version: str, time: int, binary: Path, pages: Path) -> dict[str, tuple[bytes, int]]:
    """What is installed, with the modes."""
    doc = f"usr/share/doc/{NAME}"
    found = {
        f"usr/bin/{NAME}": (binary.read_bytes(), 0o755),
        # It may contain tokens.
        CONFIGURATION: ((SOURCES / "environment").read_bytes(), 0o640),
        f"usr/lib/systemd/system/{NAME}.service": ((SOURCES / f"{NAME}.service").read_bytes(), 0o644),
        f"{doc}/examples/servers.json": ((SOURCES / "servers.json").read_bytes(), 0o644),
        f"{doc}/copyright": (copyright_file().encode(), 0o644),
        f"{doc}/changelog.gz": (compressed((REPOSITORY / "CHANGELOG.md").read_bytes()), 0o644),
        f"{doc}/changelog.Debian.gz": (compressed(changelog(version, time).encode()), 0o644),
        f"{doc}/{LICENCES[2].name}": (LICENCES[2].read_bytes(), 0o644),
        f"usr/share/lintian/overrides/{NAME}": (OVERRIDES.encode(), 0o644),
    }
    for document in DOCUMENTS:
        found[f"{doc}/{document}"] = ((REPOSITORY / document).read_bytes(), 0o644)
    completions = {
        f"{NAME}.bash": f"usr/share/bash-completion/completions/{NAME}",
        f"{NAME}.fish": f"usr/share/fish/vendor_completions.d/{NAME}.fish",
        f"_{NAME}": f"usr/share/zsh/vendor-completions/_{NAME}",
    }
    for page, place in completions.items():
        found[place] = ((pages / page).read_bytes(), 0o644)
    for page in pages.glob("*.1"):
        found[f"usr/share/man/man1/{page.name}.gz"] = (compressed(page.read_bytes()), 0o644)
    return found


def control(target: Platform, version: str, size: int) -> str:
    return f"""\
Package: {NAME}
Version: {version}
Architecture: {target.linux}
Maintainer: {MAINTAINER}
Installed-Size: {size // 1024}
Section: net
Priority: optional
Homepage: {manifest()['homepage']}
Description: {SYNOPSIS}
{DESCRIPTION}
"""


def commit_time() -> int:
    """The time of everything in the package, so that the same input makes the same bytes."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    command = ["git", "log", "-1", "--format=%ct"]
    return int(given or subprocess.run(command, cwd=REPOSITORY, check=True, stdout=subprocess.PIPE).stdout)


def package(folder: Path, target: Platform, binary: Path, pages: Path) -> None:
    """Makes the package of a platform in the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    time = commit_time()
    version = f"{manifest()['version']}-{REVISION}"
    content = files(version, time, binary, pages)
    sums = "".join(
        f"{hashlib.md5(data).hexdigest()}  {place}\n" for place, (data, _) in sorted(content.items()) if place != CONFIGURATION
    )
    # Each file takes whole blocks.
    size = sum(-(-len(data) // 4096) * 4096 for data, _ in content.values())
    content |= {
        "DEBIAN/control": (control(target, version, size).encode(), 0o644),
        "DEBIAN/conffiles": (f"/{CONFIGURATION}\n".encode(), 0o644),
        "DEBIAN/md5sums": (sums.encode(), 0o644),
        **{f"DEBIAN/{script}": ((SOURCES / script).read_bytes(), 0o755) for script in SCRIPTS},
    }
    with tempfile.TemporaryDirectory() as build:
        root = Path(build) / NAME
        for place, (data, mode) in content.items():
            path = root / place
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            path.chmod(mode)
        for directory in filter(Path.is_dir, [root, *root.rglob("*")]):
            directory.chmod(0o755)
        output = folder / f"{NAME}_{version}_{target.linux}.deb"
        command = ["dpkg-deb", "--root-owner-group", "-Zxz", "--build", str(root), str(output)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=os.environ | {"SOURCE_DATE_EPOCH": str(time)})
