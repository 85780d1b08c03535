"""A client on the Python SDK 2.x: python_2.py MODE COMMAND…, where the mode is `legacy` or `auto`."""

import asyncio
import os
import sys
from typing import Any

from mcp import types
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters
from pydantic import TypeAdapter
from visit import Json, answer, visit


async def main() -> None:
    mode, command, *arguments = sys.argv[1:]

    async def elicit(_context: object, params: Any) -> types.ElicitResult:
        schema = params.requested_schema
        schema = schema if isinstance(schema, dict) else schema.model_dump(by_alias=True, exclude_none=True)
        return types.ElicitResult(action="accept", content=answer(schema))

    parameters = StdioServerParameters(command=command, args=arguments, env=dict(os.environ))
    async with Client(parameters, mode=mode, elicitation_callback=elicit) as client:

        async def read_first(uri: str) -> Any:
            return (await client.read_resource(uri)).contents[0]

        async def call(name: str, args: Json) -> tuple[bool, str, Any]:
            called = await client.call_tool(name, args)
            return called.is_error, called.content[0].text, called.structured_content

        async def prompt(name: str, args: dict[str, str]) -> str:
            return (await client.get_prompt(name, args)).messages[0].content.text

        async def ask(method: str, params: Json) -> Json:
            request = types.Request[Json, str](method=method, params=params)
            return await client.session.send_request(request, TypeAdapter(Json))

        tools = (await client.list_tools()).tools
        prompts = (await client.list_prompts()).prompts
        templates = (await client.list_resource_templates()).resource_templates
        await visit(tools, prompts, templates, client.server_capabilities, read_first, call, prompt, ask)


asyncio.run(main())
