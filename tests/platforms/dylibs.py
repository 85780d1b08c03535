"""Prints the libraries that a program for macOS loads, and fails if one is no part of every macOS.

Usage: dylibs.py PROGRAM
"""

import struct
import sys

# The interface of the system, and that of its certificates.
ALLOWED = {
    "/usr/lib/libSystem.B.dylib",
    # The standard library of Rust links these two.
    "/usr/lib/libiconv.2.dylib",
    "/usr/lib/libcharset.1.dylib",
    "/System/Library/Frameworks/CoreFoundation.framework/Versions/A/CoreFoundation",
    "/System/Library/Frameworks/Security.framework/Versions/A/Security",
}
MAGIC_64 = 0xFEEDFACF
ARM64 = 0x0100000C
LOAD_DYLIB = 0xC
# A library of these commands may be missing, or is exported again.
OTHERS = {0x80000018, 0x8000001F, 0x80000023}


def dylibs(program: bytes) -> list[str]:
    magic, cpu, _, _, commands, _, _, _ = struct.unpack_from("<8I", program)
    if (magic, cpu) != (MAGIC_64, ARM64):
        raise SystemExit("this is no program of 64 bits for arm64")
    found, at = [], 32
    for _ in range(commands):
        command, size = struct.unpack_from("<2I", program, at)
        if command == LOAD_DYLIB or command in OTHERS:
            start = at + struct.unpack_from("<I", program, at + 8)[0]
            found.append(program[start : at + size].split(b"\0")[0].decode())
        at += size
    return found


def main() -> None:
    with open(sys.argv[1], "rb") as file:
        found = dylibs(file.read())
    print("\n".join(f"    loads {name}" for name in found))
    if others := set(found) - ALLOWED:
        raise SystemExit(f"not a part of every macOS: {sorted(others)}")


if __name__ == "__main__":
    main()
