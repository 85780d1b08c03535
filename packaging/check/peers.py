"""Servers on this machine with which the packages are checked: MCP over HTTP, names, and packages of npm."""

import base64
import hashlib
import json
import socket
import ssl
import struct
import tarfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

HOST = "127.0.0.1"


class Quiet(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def reply(self, status: int, body: bytes = b"", kind: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class HttpServer:
    """An HTTP server on a free port, which ends with the `with` block."""

    def __init__(self, handler: type[BaseHTTPRequestHandler], tls: ssl.SSLContext | None = None):
        self.server = ThreadingHTTPServer((HOST, 0), handler)
        self.server.daemon_threads = True
        if tls:
            self.server.socket = tls.wrap_socket(self.server.socket, server_side=True)
        self.port = self.server.server_address[1]

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


class Tools(Quiet):
    """A server of revision 2025-06-18 with one tool, which returns its argument `text`."""

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if "id" not in message:
            return self.reply(202)
        answer = {"jsonrpc": "2.0", "id": message["id"]}
        match message["method"]:
            case "initialize":
                answer["result"] = {
                    "protocolVersion": "2025-06-18",
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "echo", "version": "1"},
                }
            case "tools/call":
                text = message["params"]["arguments"]["text"]
                answer["result"] = {"content": [{"type": "text", "text": text}]}
            case other:
                answer["error"] = {"code": -32601, "message": f"{other} is not here"}
        return self.reply(200, json.dumps(answer).encode())

    def do_GET(self):
        self.reply(405)

    do_DELETE = do_GET


class Names:
    """A DNS server that answers each question for an IPv4 address with 127.0.0.1, and counts them (RFC 1035)."""

    def __init__(self, port: int = 53):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((HOST, port))
        self.questions = 0

    def __enter__(self):
        threading.Thread(target=self.run, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.socket.close()

    def run(self):
        while True:
            try:
                query, sender = self.socket.recvfrom(512)
            except OSError:
                return
            self.questions += 1
            end = query.index(b"\0", 12) + 5
            (kind,) = struct.unpack("!H", query[end - 4 : end - 2])
            is_ipv4 = kind == 1
            head = query[:2] + struct.pack("!HHHHH", 0x8180, 1, is_ipv4, 0, 0)
            record = struct.pack("!HHHIH4s", 0xC00C, 1, 1, 60, 4, socket.inet_aton(HOST)) if is_ipv4 else b""
            self.socket.sendto(head + query[12:end] + record, sender)


def registry(archives: list[Path]) -> HttpServer:
    """A registry of npm with these archives, and no other packages."""
    packages: dict[str, dict] = {}
    files: dict[str, bytes] = {}

    class Registry(Quiet):
        def do_GET(self):
            path = unquote(self.path).lstrip("/")
            if path in files:
                return self.reply(200, files[path], "application/octet-stream")
            found = packages.get(path)
            return self.reply(200, json.dumps(found).encode()) if found else self.reply(404, b'{"error":"not found"}')

    server = HttpServer(Registry)
    for archive in archives:
        content = archive.read_bytes()
        with tarfile.open(archive) as tar:
            about = json.load(tar.extractfile("package/package.json"))
        files[f"-/{archive.name}"] = content
        integrity = "sha512-" + base64.b64encode(hashlib.sha512(content).digest()).decode()
        about["dist"] = {"tarball": f"http://{HOST}:{server.port}/-/{archive.name}", "integrity": integrity}
        version = about["version"]
        packages[about["name"]] = {
            "name": about["name"],
            "dist-tags": {"latest": version},
            "versions": {version: about},
        }
    return server
