"""Runs the program for Windows of an archive with Wine: windows.py ARCHIVE FOLDER

Needs a compiler for Windows, too: versions of Wine before 9 lack a library with one function, which every program of Rust
needs.
"""

import shutil
import subprocess
import zipfile
from pathlib import Path

from peers import HttpServer, Tools
from program import BARE, Program, expect, main

# What a new Windows has. `api-ms-win-…` are other names of these.
SYSTEM = {
    *("advapi32", "bcrypt", "bcryptprimitives", "crypt32", "kernel32", "msvcrt", "ntdll", "ole32", "shell32", "userenv", "ws2_32"),
}
RANDOM = """
#include <windows.h>
#include <ntsecapi.h>
__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE data, SIZE_T size) { return RtlGenRandom(data, size); }
"""
COMPILER = "x86_64-w64-mingw32"


def check_needs_system_alone(program: Path) -> None:
    tables = subprocess.run([f"{COMPILER}-objdump", "-p", program], check=True, stdout=subprocess.PIPE, text=True).stdout
    names = {line.split(":")[1].strip().lower().removesuffix(".dll") for line in tables.splitlines() if "DLL Name:" in line}
    others = {name for name in names - SYSTEM if not name.startswith("api-ms-win-")}
    expect(names and not others, f"the program needs the libraries {others} of {names}")


def wine() -> str:
    # Debian has it where no path leads to, without its package for programs of 32 bits.
    found = shutil.which("wine64") or shutil.which("wine") or shutil.which("wine64", path="/usr/lib/wine")
    expect(found is not None, "there is no wine")
    return found


def check(archive: str, folder: str) -> None:
    work = Path(folder).resolve()
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    with zipfile.ZipFile(archive) as opened:
        opened.extractall(work)
    (program,) = work.rglob("mcp-proxy.exe")
    check_needs_system_alone(program)
    (work / "random.c").write_text(RANDOM)
    library = program.parent / "bcryptprimitives.dll"
    subprocess.run([f"{COMPILER}-gcc", "-shared", "-o", library, work / "random.c", "-ladvapi32"], check=True)
    environment = BARE | {"WINEPREFIX": str(work / "wine"), "WINEDEBUG": "-all", "HOME": str(work)}
    # The first start takes long, and prints what it sets up.
    Program(wine(), program, env=environment).run("--version")
    proxy = Program(wine(), program, env=environment)
    done = proxy.run("--version")
    expect(done.returncode == 0 and done.stdout.startswith("mcp-proxy "), f"--version: {done}")
    done = proxy.run("--no-such-option")
    expect(done.returncode == 2 and "--no-such-option" in done.stderr, f"an invalid option: {done}")
    with HttpServer(Tools) as server:
        proxy.check_bridge(f"http://127.0.0.1:{server.port}/mcp")
    print(f"{Path(archive).name}: needs libraries of the system alone; --version, exit codes and a bridge with Wine")


if __name__ == "__main__":
    raise SystemExit(main(check))
