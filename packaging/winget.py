"""Makes the manifests for the repository of winget (https://github.com/microsoft/winget-pkgs), in its folders.

winget unpacks the archive of the release, and puts the program into the PATH.
"""

import json
from pathlib import Path

from project import AUTHORS, NAME, SUMMARY, Platform, manifest, release

IDENTIFIER = "McpProto.McpProxy"
LOCALE = "en-US"
SCHEMA = "1.12.0"


def field(name: str, value: str | list) -> str:
    """A field of YAML. A string in the form of JSON is one of YAML, too."""
    if isinstance(value, str):
        return f"{name}: {json.dumps(value)}\n"
    items = ("- " + "".join(field(*pair) for pair in item.items()).rstrip("\n").replace("\n", "\n  ") for item in value)
    return f"{name}:\n" + "".join(f"{item}\n" for item in items)


def file(folder: Path, ending: str, kind: str, fields: dict) -> None:
    common = {"PackageIdentifier": IDENTIFIER, "PackageVersion": manifest()["version"]}
    fields = common | fields | {"ManifestType": kind, "ManifestVersion": SCHEMA}
    head = f"# yaml-language-server: $schema=https://aka.ms/winget-manifest.{kind}.{SCHEMA}.schema.json\n\n"
    (folder / f"{IDENTIFIER}{ending}.yaml").write_text(head + "".join(field(*pair) for pair in fields.items()))


def manifests(folder: Path, archives: dict[Platform, tuple[str, str]]) -> None:
    """Writes the manifests for the platforms with their archives, each with its SHA-256. There are none without an archive."""
    if not archives:
        return
    crate = manifest()
    folder = folder / "manifests" / IDENTIFIER[0].lower() / IDENTIFIER.replace(".", "/") / crate["version"]
    folder.mkdir(parents=True, exist_ok=True)
    installers = [
        {
            "Architecture": target.npm_cpu,
            "InstallerUrl": release(archive),
            "InstallerSha256": digest.upper(),
            "NestedInstallerFiles": [
                {"RelativeFilePath": f"{Path(archive).stem}\\{target.binary}", "PortableCommandAlias": NAME},
            ],
        }
        for target, (archive, digest) in archives.items()
    ]
    file(folder, "", "version", {"DefaultLocale": LOCALE})
    file(
        folder,
        ".installer",
        "installer",
        {"InstallerType": "zip", "NestedInstallerType": "portable", "Installers": installers},
    )
    file(
        folder,
        f".locale.{LOCALE}",
        "defaultLocale",
        {
            "PackageLocale": LOCALE,
            "Publisher": AUTHORS,
            "PublisherUrl": crate["homepage"],
            "PackageName": NAME,
            "PackageUrl": crate["homepage"],
            "License": crate["license"],
            "LicenseUrl": f"{crate['repository']}/blob/main/LICENSE-MIT",
            "ShortDescription": SUMMARY,
            "Moniker": NAME,
        },
    )
