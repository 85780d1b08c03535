"""A client on the Python SDK 1.x: python_1.py COMMAND…"""

import asyncio
import os
import sys
from typing import Any

from mcp import ClientSession, StdioServerParameters, types
from mcp.client.stdio import stdio_client
from pydantic import AnyUrl
from visit import Json, answer, visit


async def main() -> None:
    command, *arguments = sys.argv[1:]

    async def elicit(_context: object, params: Any) -> types.ElicitResult:
        return types.ElicitResult(action="accept", content=answer(params.requestedSchema))

    parameters = StdioServerParameters(command=command, args=arguments, env=dict(os.environ))
    async with (
        stdio_client(parameters) as (read, write),
        ClientSession(read, write, elicitation_callback=elicit) as session,
    ):
        capabilities = (await session.initialize()).capabilities

        async def read_first(uri: str) -> Any:
            return (await session.read_resource(AnyUrl(uri))).contents[0]

        async def call(name: str, args: Json) -> tuple[bool, str, Any]:
            called = await session.call_tool(name, args)
            return called.isError, called.content[0].text, called.structuredContent

        async def prompt(name: str, args: dict[str, str]) -> str:
            return (await session.get_prompt(name, args)).messages[0].content.text

        async def ask(method: str, params: Json) -> Json:
            request = types.Request[Json, str](method=method, params=params)
            return (await session.send_request(request, types.Result)).model_dump(by_alias=True, mode="json")

        tools = (await session.list_tools()).tools
        prompts = (await session.list_prompts()).prompts
        templates = (await session.list_resource_templates()).resourceTemplates
        await visit(tools, prompts, templates, capabilities, read_first, call, prompt, ask)


asyncio.run(main())
