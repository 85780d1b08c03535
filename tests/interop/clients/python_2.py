"""A client on the Python SDK 2.x: python_2.py URL. Exits with 0 if the server did all it was asked."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from mcp import types
from mcp.client.client import Client


async def sample(_context: object, _params: Any) -> types.CreateMessageResult:
    content = types.TextContent(type="text", text="sampled here")
    return types.CreateMessageResult(role="assistant", content=content, model="none")


async def elicit(_context: object, _params: Any) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content={"username": "ada", "email": "ada@example.com"})


def text(result: Any) -> str:
    return "".join(getattr(part, "text", "") for part in result.content)


async def main() -> None:
    client = Client(sys.argv[1], mode="legacy", sampling_callback=sample, elicitation_callback=elicit)
    async with client:
        print("revision", getattr(client, "protocol_version", "?"))
        tools = [tool.name for tool in (await client.list_tools()).tools]
        assert "test_simple_text" in tools, tools
        steps: list[float] = []

        async def progress(step: float, _total: float | None, _message: str | None) -> None:
            steps.append(step)

        await client.call_tool("test_tool_with_progress", {}, progress_callback=progress)
        assert steps == [0, 50, 100], steps
        assert "sampled here" in text(await client.call_tool("test_sampling", {"prompt": "p"}))
        assert "ada" in text(await client.call_tool("test_elicitation", {"message": "m"}))
        assert (await client.call_tool("test_error_handling", {})).is_error
        many = await asyncio.gather(*(client.call_tool("test_simple_text", {}) for _ in range(20)))
        assert len({text(result) for result in many}) == 1


asyncio.run(asyncio.wait_for(main(), 30))
