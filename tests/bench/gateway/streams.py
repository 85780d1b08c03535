"""Measures what open streams cost mcp-proxy serve: see tests/bench/README.md.

    streams.py [--count N] [--idle SECONDS] MCP_PROXY…
    streams.py --server              is the server behind it: it answers each call, and `change` with a notification too
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import selectors
import socket
import statistics
import sys
import time

from compare import INITIALIZE, Gateway, Http, cpu, free_port, memory, request

SERVER = [sys.executable, "-S", "-E", os.path.abspath(__file__), "--server"]
ROUNDS, CALLS = 9, 200
CHANGED = "notifications/tools/list_changed"
LISTEN = {
    "notifications": {"toolsListChanged": True},
    "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {},
    },
}


def serve() -> None:
    tools = {"tools": {"listChanged": True}}
    about = {"protocolVersion": "2025-11-25", "capabilities": tools, "serverInfo": {"name": "s", "version": "1"}}
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message or "method" not in message:
            continue
        result = {}
        if message["method"] == "initialize":
            result = about
        elif message["method"] == "tools/list":
            result = {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}
        elif message["method"] == "tools/call":
            text = message["params"]["arguments"]["text"]
            result = {"content": [{"type": "text", "text": text}]}
            if text == "change":
                print(json.dumps({"jsonrpc": "2.0", "method": CHANGED}))
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)


def begin(port: int, start: str, fields: dict[str, str], body: bytes = b"") -> socket.socket:
    opened = socket.create_connection(("127.0.0.1", port), timeout=60)
    fields = {
        "host": f"127.0.0.1:{port}", "accept": "application/json, text/event-stream",
        "content-type": "application/json", "content-length": str(len(body)), **fields,
    }
    lines = [f"{start} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items()), "\r\n"]
    opened.sendall("\r\n".join(lines).encode() + body)
    return opened


def by_get(port: int, opener: Http) -> socket.socket:
    """In a session of its own, as clients of revisions up to 2025-11-25 open it."""
    opener.session = ""
    opener.post(request(0, "initialize", INITIALIZE))
    opener.post(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
    return begin(port, "GET /mcp", {"mcp-session-id": opener.session, "mcp-protocol-version": "2025-11-25"})


def by_listen(port: int, _: Http) -> socket.socket:
    fields = {"mcp-protocol-version": "2026-07-28", "mcp-method": "subscriptions/listen"}
    return begin(port, "POST /mcp", fields, request(1, "subscriptions/listen", LISTEN))


def head(stream: socket.socket) -> bytes:
    read = b""
    while b"\r\n\r\n" not in read:
        part = stream.recv(65536)
        if not part:
            break
        read += part
    return read


def drain(streams: list[socket.socket], seconds: float, text: bytes | None = None) -> tuple[int, int, float]:
    """Reads what has arrived; the numbers of streams that have received `text` and that were closed, and the time until then."""
    selector = selectors.DefaultSelector()
    for stream in streams:
        stream.setblocking(False)
        selector.register(stream, selectors.EVENT_READ)
    found, closed, began = set(), 0, time.perf_counter()
    while len(found) < len(streams) and time.perf_counter() < began + seconds:
        for key, _ in selector.select(0.2):
            part = key.fileobj.recv(65536)
            if not part:
                closed += 1
                selector.unregister(key.fileobj)
            elif text and text in part:
                found.add(key.fileobj)
    selector.close()
    return len(found), closed, time.perf_counter() - began


def threads(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/task"))


def calls(clients: list[Http]) -> list[float]:
    """The medians of calls of clients that take turns, in seconds."""
    times: list[list[float]] = [[] for _ in clients]
    for number in range(1, CALLS + 1):
        for client, own in zip(clients, times):
            began = time.perf_counter()
            assert client.call(number, "x") == "x"
            own.append(time.perf_counter() - began)
    return [statistics.median(own) for own in times]


def measure(proxy: str, name: str, opens, share: int, count: int, idle: float) -> None:
    options = ["--share", "all", "--max-connections", str(min(share * count + 8, 65535)), "--max-sessions", str(count + 100)]
    gateways = []
    try:
        for label in ["without streams", "with streams"]:
            port = free_port()
            command = [proxy, "serve", "--listen", f"127.0.0.1:{port}", *options, "--", *SERVER]
            gateways.append(Gateway(label, command, port))
        bare, full = gateways
        pid, clients = full.process.pid, [Http(bare.port), Http(full.port)]
        calls(clients)
        opener = Http(full.port)
        before, began = memory([pid], "status", "VmRSS"), time.perf_counter()
        streams = []
        for _ in range(count):
            stream = opens(full.port, opener)
            received = head(stream)
            if not received.startswith(b"HTTP/1.1 200"):
                print(f"  {name}: refused after {len(streams)}: {received.decode()[:400]!r}")
                break
            streams.append(stream)
        opened = time.perf_counter() - began
        drain(streams, 3)
        after, running = memory([pid], "status", "VmRSS"), threads(pid)
        peak = memory([pid], "status", "VmHWM")
        ticks, began = cpu([pid]), time.perf_counter()
        _, closed, _ = drain(streams, idle)
        share_of_core = (cpu([pid]) - ticks) / (time.perf_counter() - began) * 100
        ticks, began = cpu([bare.process.pid]), time.perf_counter()
        time.sleep(min(idle, 10))
        bare_share = (cpu([bare.process.pid]) - ticks) / (time.perf_counter() - began) * 100
        medians = [calls(clients) for _ in range(ROUNDS)]
        ratios = sorted(own / other for other, own in medians)
        # A server that begins with `initialize` notifies no subscriptions.
        notified = ""
        if opens is by_get:
            clients[1].call(1, "change")
            reached, _, took = drain(streams, 30, CHANGED.encode())
            notified = f"\n    a notification for all reached {reached} within {took:.2f} s"
        print(
            f"  {name}: {len(streams)} streams, {closed} closed by it, opened in {opened:.1f} s\n"
            f"    memory {before:.1f} MB before, {after:.1f} MB with them: {(after - before) * 1e6 / len(streams) / 1000:.1f} KB each"
            f" (peak {peak:.1f} MB), {running} threads\n"
            f"    idle for {idle:.0f} s: {share_of_core:.2f} % of a core (without streams {bare_share:.2f} %)\n"
            f"    a call beside them: {statistics.median(own for _, own in medians) * 1e6:.0f} us, without streams "
            f"{statistics.median(other for other, _ in medians) * 1e6:.0f} us: x{statistics.median(ratios):.2f}"
            f" ({ratios[0]:.2f} to {ratios[-1]:.2f} in {ROUNDS} rounds){notified}",
            flush=True,
        )
        spare = [opens(full.port, opener) for _ in range(16)]
        refused = [answer for answer in map(head, spare) if not answer.startswith(b"HTTP/1.1 200")]
        words = re.search(r'"message":"([^"]*)"', "".join(answer.decode() for answer in refused))
        status = refused[0].split(b"\r\n")[0].decode() if refused else "none"
        print(f"    beyond the limit: {status}: {words.group(1) if words else ''}", flush=True)
        for stream in streams + spare:
            stream.close()
        until = time.perf_counter() + 30
        while len(os.listdir(f"/proc/{pid}/fd")) > 24 and time.perf_counter() < until:
            time.sleep(0.1)
        print(f"    after they were closed: {len(os.listdir(f'/proc/{pid}/fd'))} descriptors, {threads(pid)} threads", flush=True)
    finally:
        for gateway in gateways:
            gateway.close()


def main() -> int:
    if sys.argv[1:] == ["--server"]:
        serve()
        return 0
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--idle", type=float, default=60)
    parser.add_argument("proxies", nargs="+")
    args = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    for proxy in args.proxies:
        print(proxy)
        measure(proxy, "GET of 2025-11-25, with their sessions", by_get, 2, args.count, args.idle)
        measure(proxy, "subscriptions/listen of 2026-07-28", by_listen, 4, args.count, args.idle)
    return 0


if __name__ == "__main__":
    sys.exit(main())
