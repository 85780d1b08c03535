"""Runs the static binary in a root folder that contains nothing else: static.py BINARY ROOT

Needs Linux, and `chroot` as root or with user namespaces.
"""

import os
import shutil
import ssl
import subprocess
from pathlib import Path

from peers import HttpServer, Names, Tools
from program import BARE, Program, expect, main

# A name that no hosts file and no public DNS server contains (RFC 2606).
NAME = "server.mcp-proxy.test"


def chroot(root: Path, *command: str) -> Program:
    enter = ["chroot"] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "chroot"]
    return Program(*enter, root, *command, env=BARE)


def certificate(folder: Path) -> ssl.SSLContext:
    """A server certificate for the name, which no authority has signed: `server.pem` in the folder."""
    files = ["-keyout", str(folder / "key.pem"), "-out", str(folder / "server.pem")]
    extensions = [f"subjectAltName=DNS:{NAME}", "basicConstraints=critical,CA:FALSE"]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=test", *files]
    for extension in extensions:
        command += ["-addext", extension]
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem", folder / "key.pem")
    return context


def check_needs_nothing(binary: Path) -> None:
    headers = subprocess.run(["readelf", "--program-headers", "--dynamic", binary], capture_output=True, text=True)
    expect(headers.returncode == 0, headers.stderr)
    expect("INTERP" not in headers.stdout and "NEEDED" not in headers.stdout, "the binary needs a loader or libraries")
    expect(b"ISRG Root X1" in binary.read_bytes(), "the binary contains no certificate authorities")


def check(binary: str, root: str) -> None:
    folder = Path(root)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    shutil.copy(binary, folder / "mcp-proxy")
    check_needs_nothing(folder / "mcp-proxy")
    proxy = chroot(folder, "/mcp-proxy")
    proxy.check_version()
    proxy.check_exit_codes()
    print("in an empty root: --version, exit codes")

    with HttpServer(Tools) as server:
        proxy.check_bridge(f"http://127.0.0.1:{server.port}/mcp")
        print("in an empty root: a bridge to an address")
        check_names(proxy, folder, server.port)

    context = certificate(folder.parent)
    with HttpServer(Tools, context) as server:
        url = f"https://{NAME}:{server.port}/mcp"
        (folder / "etc" / "hosts").write_text(f"127.0.0.1 {NAME}\n")
        proxy.check_refused(url, "an authority that is not trusted here")
        shutil.copy(folder.parent / "server.pem", folder / "server.pem")
        proxy.check_bridge(url, "--ca-file", "/server.pem")
        print("without /etc/ssl: https with --ca-file, and a refusal without that option")


def check_names(proxy: Program, root: Path, port: int) -> None:
    """Names need /etc/hosts or, for DNS, /etc/resolv.conf: without both, musl asks 127.0.0.1."""
    url = f"http://localhost:{port}/mcp"
    proxy.check_refused(url, "localhost")
    (root / "etc").mkdir()
    (root / "etc" / "hosts").write_text("127.0.0.1 localhost\n")
    proxy.check_bridge(url)
    print("with /etc/hosts: a bridge to localhost")
    try:
        names = Names()
    except OSError as error:
        print(f"NOT RUN: names by DNS, because port 53 of 127.0.0.1 is not free: {error}")
        return
    with names:
        (root / "etc" / "resolv.conf").write_text("nameserver 127.0.0.1\n")
        proxy.check_bridge(f"http://{NAME}:{port}/mcp")
        expect(names.questions > 0, "no question was sent")
        print("with /etc/resolv.conf: a bridge to a name that is in DNS")


if __name__ == "__main__":
    raise SystemExit(main(check))
