"""Compares gateways that serve one MCP server over stdio to clients over HTTP: see tests/bench/README.md.

    compare.py MCP_PROXY [SUPERGATEWAY] [PYTHON_MCP_PROXY]
    compare.py --server                                       is the server: it answers each call with its argument
"""

import json
import os
import re
import socket
import statistics
import subprocess
import sys
import threading
import time

CLIENTS, CALLS = 8, 1000
ALONE = 1000
SESSIONS = 100
EDITORS = 8
SERVER = [sys.executable, "-S", "-E", os.path.abspath(__file__), "--server"]
TICKS = os.sysconf("SC_CLK_TCK")
INITIALIZE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}


def serve() -> None:
    about = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message or "method" not in message:
            continue
        if message["method"] == "initialize":
            result = about
        elif message["method"] == "tools/list":
            result = {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}
        elif message["method"] == "tools/call":
            result = {"content": [{"type": "text", "text": message["params"]["arguments"]["text"]}]}
        else:
            result = {}
        answer = {"jsonrpc": "2.0", "id": message["id"], "result": result}
        sys.stdout.write(json.dumps(answer, separators=(",", ":")) + "\n")
        sys.stdout.flush()


def request(number: int, method: str, params: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode()


def call(number: int, text: str) -> bytes:
    return request(number, "tools/call", {"name": "echo", "arguments": {"text": text}})


class Http:
    """A client with one connection."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.port, self.session, self.unread = port, "", b""
        self.post(request(0, "initialize", INITIALIZE))
        self.post(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')

    def read(self) -> None:
        got = self.socket.recv(65536)
        if not got:
            raise ConnectionError("the gateway has closed the connection")
        self.unread += got

    def until(self, mark: bytes) -> bytes:
        while mark not in self.unread:
            self.read()
        part, self.unread = self.unread.split(mark, 1)
        return part

    def exactly(self, length: int) -> bytes:
        while len(self.unread) < length:
            self.read()
        part, self.unread = self.unread[:length], self.unread[length:]
        return part

    def post(self, body: bytes) -> bytes:
        self.socket.sendall(
            b"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1:%d\r\naccept: application/json, text/event-stream\r\n"
            b"content-type: application/json\r\nmcp-protocol-version: 2025-11-25\r\n%scontent-length: %d\r\n\r\n%s"
            % (self.port, b"mcp-session-id: %s\r\n" % self.session.encode() if self.session else b"", len(body), body)
        )
        head = self.until(b"\r\n\r\n").decode("latin-1")
        if not re.match(r"HTTP/1.1 20[02]", head):
            raise ConnectionError(head)
        found = re.search(r"mcp-session-id: *(\S+)", head, re.I)
        if found:
            self.session = found.group(1)
        if re.search("transfer-encoding: *chunked", head, re.I):
            read = b""
            while length := int(self.until(b"\r\n"), 16):
                read += self.exactly(length)
                self.exactly(2)
            self.exactly(2)
            return read
        length = re.search(r"content-length: *(\d+)", head, re.I)
        return self.exactly(int(length.group(1))) if length else b""

    def call(self, number: int, text: str) -> str:
        body = self.post(call(number, text)).decode()
        # In JSON or in an event.
        found = re.search(r"\{.*\}", body)
        answer = json.loads(found.group(0)) if found else {}
        if answer.get("id") != number:
            return "another id"
        return answer["result"]["content"][0]["text"]


class Stdio:
    """A client of a process."""

    def __init__(self, command: list[str], **options: object) -> None:
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **options)
        self.ask(request(0, "initialize", INITIALIZE))
        self.process.stdin.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')

    def ask(self, body: bytes) -> dict:
        self.process.stdin.write(body + b"\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def call(self, number: int, text: str) -> str:
        answer = self.ask(call(number, text))
        return answer["result"]["content"][0]["text"] if answer["id"] == number else "another id"

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait(timeout=20)


def latencies(clients: list, calls: int) -> list[float]:
    """The times of calls of clients that take turns, so that all have the same conditions, as a median for each."""
    times = [[] for _ in clients]
    for number in range(1, calls + 1):
        for client, own in zip(clients, times):
            began = time.perf_counter()
            text = client.call(number, f"alone {number}")
            own.append(time.perf_counter() - began)
            assert text == f"alone {number}"
    return [statistics.median(own) for own in times]


def descendants(pid: int) -> list[int]:
    """The process and all that it has started."""
    parents = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat") as stat:
                parents.setdefault(int(stat.read().rsplit(")", 1)[1].split()[1]), []).append(int(name))
        except OSError:
            continue
    found, left = [], [pid]
    while left:
        found.append(left.pop())
        left.extend(parents.get(found[-1], []))
    return found


def is_server(pid: int) -> bool:
    with open(f"/proc/{pid}/cmdline", "rb") as line:
        # The command line of a gateway ends in the same way.
        return line.read() == b"".join(word.encode() + b"\0" for word in SERVER)


def gateway_only(pid: int) -> list[int]:
    return [found for found in descendants(pid) if not is_server(found)]


def cpu(pids: list[int]) -> float:
    """Seconds, of all threads."""
    total = 0
    for pid in pids:
        with open(f"/proc/{pid}/stat") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
            total += int(fields[11]) + int(fields[12])
    return total / TICKS


def memory(pids: list[int], file: str, field: str) -> float:
    """MB, of all processes."""
    total = 0
    for pid in pids:
        with open(f"/proc/{pid}/{file}") as text:
            total += int(re.search(rf"^{field}:\s*(\d+) kB", text.read(), re.M).group(1))
    return total / 1000


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


class Gateway:
    def __init__(self, name: str, command: list[str], port: int) -> None:
        self.name, self.port = name, port
        quiet = subprocess.DEVNULL
        self.process = subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True)
        until = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                return
            except OSError:
                assert time.monotonic() < until and self.process.poll() is None, f"{name} does not listen"
                time.sleep(0.1)

    def load(self) -> dict:
        """Eight clients at one time."""
        before = cpu(gateway_only(self.process.pid))
        wrong, errors, began = [0] * CLIENTS, [], time.perf_counter()

        def run(index: int) -> None:
            try:
                client = Http(self.port)
                for number in range(1, CALLS + 1):
                    text = f"{index} {number}"
                    wrong[index] += client.call(number, text) != text
            except Exception as error:
                errors.append(f"{type(error).__name__}: {str(error)[:80]!r}")

        threads = [threading.Thread(target=run, args=(index,)) for index in range(CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        own = gateway_only(self.process.pid)
        return {
            "wrong": sum(wrong),
            "clients that failed": len(errors),
            "calls/s": CLIENTS * CALLS / (time.perf_counter() - began),
            "CPU per call, µs": (cpu(own) - before) / (CLIENTS * CALLS) * 1e6,
            "peak memory, MB": memory(own, "status", "VmHWM"),
            "processes with servers": len(descendants(self.process.pid)),
        }

    def sessions(self) -> str:
        """What sessions add to the memory, without their servers."""
        before = memory(gateway_only(self.process.pid), "status", "VmRSS")
        try:
            clients = [Http(self.port) for _ in range(SESSIONS)]
        except (ConnectionError, OSError) as error:
            return f"failed: {type(error).__name__}"
        own, everything = gateway_only(self.process.pid), descendants(self.process.pid)
        after = memory(own, "status", "VmRSS")
        text = f"{after:.1f} ({after - before:+.1f}), {len(everything)} processes"
        del clients
        return text

    def close(self) -> None:
        for pid in reversed(descendants(self.process.pid)):
            try:
                os.kill(pid, 15)
            except ProcessLookupError:
                pass
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()


def shared(proxy: str) -> None:
    """The memory of eight editors' servers, each its own and one for all."""
    print(f"\nproportional memory (PSS) of the servers of {EDITORS} editors, and of what is between, MB")
    hub = [proxy, "--shared", "--shared-grace", "1", "--", *SERVER]
    for name, command in [("one server each", SERVER), ("mcp-proxy --shared", hub)]:
        editors = [Stdio(command) for _ in range(EDITORS)]
        assert all(editor.call(1, "x") == "x" for editor in editors)
        pids = [pid for editor in editors for pid in descendants(editor.process.pid)]
        servers = [int(pid) for pid in filter(str.isdigit, os.listdir("/proc")) if is_ours(int(pid))]
        pids = sorted({*pids, *servers, *(parent(pid) for pid in servers if command[0] == proxy)})
        total = memory(pids, "smaps_rollup", "Pss")
        print(f"  {name:20} {total:7.1f}   {len(pids)} processes, {len(servers)} of them servers")
        for editor in editors:
            editor.close()
        time.sleep(2)


def is_ours(pid: int) -> bool:
    try:
        return is_server(pid)
    except OSError:
        return False


def parent(pid: int) -> int:
    with open(f"/proc/{pid}/stat") as stat:
        return int(stat.read().rsplit(")", 1)[1].split()[1])


def main() -> int:
    if sys.argv[1:] == ["--server"]:
        serve()
        return 0
    if len(sys.argv) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    proxy, others = sys.argv[1], sys.argv[2:]
    text = " ".join(SERVER)
    commands = {
        "mcp-proxy serve, --share all": lambda port: [
            proxy, "serve", "--listen", f"127.0.0.1:{port}", "--share", "all", "--", *SERVER
        ],
        "mcp-proxy serve": lambda port: [
            proxy, "serve", "--listen", f"127.0.0.1:{port}", "--max-backends", "200", "--", *SERVER
        ],
    }
    if len(others) > 0:
        commands["supergateway, stateful"] = lambda port: [
            *others[0].split(), "--stdio", text, "--outputTransport", "streamableHttp", "--stateful",
            "--port", str(port), "--logLevel", "none",
        ]
    if len(others) > 1:
        commands["mcp-proxy of PyPI"] = lambda port: [others[1], "--port", str(port), "--", *SERVER]
    gateways = []
    try:
        for name, command in commands.items():
            port = free_port()
            gateways.append(Gateway(name, command(port), port))
        direct = Stdio(SERVER)
        medians = latencies([direct, *(Http(gateway.port) for gateway in gateways)], ALONE)
        print(f"median of {ALONE} calls, one at a time, ms: the server alone {medians[0] * 1e3:.3f}")
        for gateway, median in zip(gateways, medians[1:]):
            print(f"  {gateway.name:30} {median * 1e3:.3f}, added {(median - medians[0]) * 1e3:+.3f}")
        direct.close()
        print(f"\n{CLIENTS} clients, {CALLS} calls each")
        for gateway in gateways:
            figures = ", ".join(f"{name} {value:.{1 if value % 1 else 0}f}" for name, value in gateway.load().items())
            print(f"  {gateway.name:30} {figures}")
        print(f"\nmemory of the gateway with {SESSIONS} more sessions, MB")
        for gateway in gateways:
            print(f"  {gateway.name:30} {gateway.sessions()}")
    finally:
        for gateway in gateways:
            gateway.close()
    shared(proxy)
    return 0


if __name__ == "__main__":
    sys.exit(main())
