"""A client on the Python SDK 1.x: python_1.py http|sse URL. Exits with 0 if the server did all it was asked."""

from __future__ import annotations

import asyncio
import sys

from mcp import ClientSession, types
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamablehttp_client


async def sample(_context: object, _params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
    content = types.TextContent(type="text", text="sampled here")
    return types.CreateMessageResult(role="assistant", content=content, model="none")


async def elicit(_context: object, _params: types.ElicitRequestParams) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content={"username": "ada", "email": "ada@example.com"})


def text(result: types.CallToolResult) -> str:
    return "".join(part.text for part in result.content if isinstance(part, types.TextContent))


async def converse(session: ClientSession) -> None:
    found = await session.initialize()
    print("revision", found.protocolVersion)
    tools = [tool.name for tool in (await session.list_tools()).tools]
    assert "test_simple_text" in tools, tools
    assert text(await session.call_tool("test_simple_text", {}))
    steps: list[float] = []

    async def progress(step: float, _total: float | None, _message: str | None) -> None:
        steps.append(step)

    await session.call_tool("test_tool_with_progress", {}, progress_callback=progress)
    assert steps == [0, 50, 100], steps
    assert "sampled here" in text(await session.call_tool("test_sampling", {"prompt": "p"}))
    assert "ada" in text(await session.call_tool("test_elicitation", {"message": "m"}))
    assert (await session.call_tool("test_error_handling", {})).isError
    many = await asyncio.gather(*(session.call_tool("test_simple_text", {}) for _ in range(20)))
    assert len({text(result) for result in many}) == 1
    await session.send_ping()


async def main() -> None:
    kind, url = sys.argv[1:]
    if kind == "http":
        async with streamablehttp_client(url) as (read, write, _):
            async with ClientSession(read, write, sampling_callback=sample, elicitation_callback=elicit) as session:
                await converse(session)
    else:
        async with sse_client(url) as (read, write):
            async with ClientSession(read, write, sampling_callback=sample, elicitation_callback=elicit) as session:
                await converse(session)


asyncio.run(asyncio.wait_for(main(), 30))
