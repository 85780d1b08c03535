"""Makes a formula for a tap of Homebrew, which installs the archives of the release."""

from pathlib import Path

from project import NAME, PYPI_NAME, Platform, manifest, release

SYSTEMS = {"darwin": "macos", "linux": "linux"}
PROCESSORS = {"x64": "intel", "arm64": "arm"}
# `brew` enters the only folder of an archive. A shell is asked for nothing: the completions are in the archive.
INSTALL = f"""\
  def install
    bin.install "{NAME}"
    man1.install Dir["man/*.1"]
    bash_completion.install "completions/{NAME}.bash" => "{NAME}"
    fish_completion.install "completions/{NAME}.fish"
    zsh_completion.install "completions/_{NAME}"
  end

  test do
    assert_match version.to_s, shell_output("#{{bin}}/{NAME} --version")
    system bin/"{NAME}", "demo"
  end
"""


def formula(folder: Path, archives: dict[Platform, tuple[str, str]]) -> None:
    """Writes the formula for the platforms with their archives, each with its SHA-256. There is none without an archive."""
    if not archives:
        return
    crate = manifest()
    name = "".join(word.capitalize() for word in PYPI_NAME.split("-"))
    licences = ", ".join(f'"{licence}"' for licence in sorted(crate["license"].split(" OR ")))
    lines = [
        f"class {name} < Formula",
        # The style of Homebrew: without an article at the beginning, a name or a full stop; up to 80 characters.
        '  desc "Connects MCP clients and servers over stdio and HTTP"',
        f'  homepage "{crate["homepage"]}"',
        f'  version "{crate["version"]}"',
        f"  license any_of: [{licences}]",
    ]
    for system, on_system in SYSTEMS.items():
        found = {target: archive for target, archive in archives.items() if target.npm_os == system}
        if not found:
            continue
        lines += ["", f"  on_{on_system} do"]
        for target, (archive, digest) in found.items():
            lines += [
                f"    on_{PROCESSORS[target.npm_cpu]} do",
                f'      url "{release(archive)}"',
                f'      sha256 "{digest}"',
                "    end",
            ]
        lines += ["  end"]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{PYPI_NAME}.rb").write_text("\n".join(lines) + f"\n\n{INSTALL}end\n")
