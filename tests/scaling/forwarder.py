"""Passes each HTTP request to one of several servers, as a load balancer without sessions does.

Usage: forwarder.py LOG ORDER TARGET…. The order is `random:SEED` or `round-robin`, and each target is a port of this machine.
The first line that it prints is its own port. A target that refuses the connection is passed over for the next one, in
their order; a request that a target has received is never sent again. The log has a line of JSON for each request: its
method, that of its JSON-RPC message, the number of the target, and the status, which is 0 if the target closed the
connection before it answered.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TextIO

Headers = list[tuple[bytes, bytes]]

#: The longest head of a request or response.
LONGEST_HEAD = 1 << 16
#: Those that concern one connection only.
HOP_BY_HOP = {b"connection", b"keep-alive", b"proxy-connection", b"te", b"trailer", b"upgrade"}


class Broken(Exception):
    """A connection ended before the message was complete."""


def order(text: str, count: int) -> Callable[[], Iterator[int]]:
    """Makes, for each request, the order in which the targets are tried."""
    kind, _, seed = text.partition(":")
    numbers = random.Random(int(seed or 0))
    turns = itertools.count()

    def pick() -> Iterator[int]:
        first = numbers.randrange(count) if kind == "random" else next(turns)
        return ((first + step) % count for step in range(count))

    return pick


def value(headers: Headers, name: bytes) -> bytes | None:
    return next((found for known, found in headers if known.lower() == name), None)


async def read_head(reader: asyncio.StreamReader, begun: bytes = b"") -> tuple[bytes, Headers]:
    try:
        head = begun + await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError) as error:
        raise Broken from error
    first, *lines = head[:-4].split(b"\r\n")
    pairs = (line.partition(b":") for line in lines)
    return first, [(name, text.strip()) for name, _, text in pairs]


async def pieces(reader: asyncio.StreamReader, headers: Headers, ends_with_connection: bool):
    """The body in its framing, piece by piece as they arrive."""
    try:
        if (value(headers, b"transfer-encoding") or b"").lower() == b"chunked":
            size = -1
            while size != 0:
                line = await reader.readuntil(b"\r\n")
                size = int(line.split(b";")[0], 16)
                yield line + await reader.readexactly(size + 2)
        elif (length := value(headers, b"content-length")) is not None:
            rest = int(length)
            while rest > 0:
                piece = await reader.read(min(rest, 1 << 16))
                if not piece:
                    raise Broken
                rest -= len(piece)
                yield piece
        elif ends_with_connection:
            while piece := await reader.read(1 << 16):
                yield piece
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError, ValueError) as error:
        raise Broken from error


def head_of(first: bytes, headers: Headers, connection: bytes) -> bytes:
    kept = [(name, text) for name, text in headers if name.lower() not in HOP_BY_HOP]
    lines = [first, *(name + b": " + text for name, text in kept), b"Connection: " + connection]
    return b"\r\n".join([*lines, b"", b""])


def rpc_method(body: bytes) -> str:
    """The method of a JSON-RPC message, if the body is one that has a method."""
    with suppress(ValueError):
        message = json.loads(body)
        if isinstance(message, list):
            return "batch"
        if isinstance(message, dict):
            return str(message.get("method", "response"))
    return ""


class Forwarder:
    def __init__(self, targets: list[int], pick: Callable[[], Iterator[int]], log: TextIO) -> None:
        self._targets, self._pick, self._log = targets, pick, log

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serves the requests of a connection, one after the other."""
        # What is read while a response is sent is the next request, or the end of the connection.
        watch = asyncio.create_task(reader.read(1))
        try:
            while begun := await watch:
                first, headers = await read_head(reader, begun)
                body = b"".join([piece async for piece in pieces(reader, headers, ends_with_connection=False)])
                watch = asyncio.create_task(reader.read(1))
                passing = asyncio.create_task(self._pass(first, headers, body, writer))
                await asyncio.wait({passing, watch}, return_when=asyncio.FIRST_COMPLETED)
                if not passing.done() and watch.result() == b"":
                    passing.cancel()
                if not await passing:
                    break
        except (Broken, OSError, asyncio.CancelledError):
            pass
        finally:
            watch.cancel()
            # Not close: what was sent in part must not look complete.
            writer.transport.abort() if writer.is_closing() else writer.close()

    async def _connect(self) -> tuple[int, asyncio.StreamReader, asyncio.StreamWriter] | None:
        for number in self._pick():
            with suppress(OSError):
                return number, *await asyncio.open_connection("127.0.0.1", self._targets[number], limit=LONGEST_HEAD)
        return None

    async def _pass(self, first: bytes, headers: Headers, body: bytes, client: asyncio.StreamWriter) -> bool:
        """Passes on one request and its response; whether the client's connection can be used again."""
        method, rpc = first.split(b" ")[0].decode(), rpc_method(body)
        connected = await self._connect()
        if connected is None:
            self._note(method, rpc, -1, 503)
            return await self._refuse(client, b"503 Service Unavailable")
        number, reader, writer = connected
        status = 0
        try:
            writer.write(head_of(first, headers, b"close") + body)
            await writer.drain()
            try:
                status_line, answered = await read_head(reader)
            except Broken:
                self._note(method, rpc, number, 0)
                return await self._refuse(client, b"502 Bad Gateway")
            status = int(status_line.split(b" ")[1])
            self._note(method, rpc, number, status)
            is_empty = method == "HEAD" or status in (204, 304)
            framing = (b"transfer-encoding", b"content-length")
            is_framed = is_empty or any(value(answered, name) is not None for name in framing)
            client.write(head_of(status_line, answered, b"keep-alive" if is_framed else b"close"))
            if not is_empty:
                async for piece in pieces(reader, answered, ends_with_connection=True):
                    client.write(piece)
                    await client.drain()
            await client.drain()
            return is_framed
        except Broken:
            # The client has to notice that the response is not complete.
            client.transport.abort()
            return False
        except OSError:
            if status == 0:
                self._note(method, rpc, number, 0)
            client.transport.abort()
            return False
        finally:
            writer.transport.abort()

    async def _refuse(self, client: asyncio.StreamWriter, status: bytes) -> bool:
        client.write(b"HTTP/1.1 " + status + b"\r\nContent-Length: 0\r\n\r\n")
        await client.drain()
        return True

    def _note(self, method: str, rpc: str, target: int, status: int) -> None:
        line = {"method": method, "rpc": rpc, "target": target + 1, "status": status}
        self._log.write(json.dumps(line) + "\n")
        self._log.flush()


async def main() -> None:
    log, how, *targets = sys.argv[1:]
    with open(log, "a", encoding="utf-8") as file:
        forwarder = Forwarder([int(target) for target in targets], order(how, len(targets)), file)
        server = await asyncio.start_server(forwarder.serve, "127.0.0.1", 0, limit=LONGEST_HEAD, backlog=1024)
        print(server.sockets[0].getsockname()[1], flush=True)
        await server.serve_forever()


asyncio.run(main())
