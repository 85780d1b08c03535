"""The client of FastMCP: fastmcp_4.py COMMAND…"""

import asyncio
import os
import sys
from typing import Any

from fastmcp import Client
from fastmcp.client.elicitation import ElicitResult
from fastmcp.client.transports import StdioTransport
from mcp import types
from pydantic import TypeAdapter
from visit import Json, answer, visit


async def main() -> None:
    command, *arguments = sys.argv[1:]

    async def elicit(_message: str, _type: object, params: Any, _context: object) -> ElicitResult:
        schema = getattr(params, "requested_schema", None) or params.requestedSchema
        schema = schema if isinstance(schema, dict) else schema.model_dump(by_alias=True, exclude_none=True)
        return ElicitResult(action="accept", content=answer(schema))

    transport = StdioTransport(command=command, args=arguments, env=dict(os.environ), keep_alive=False)
    async with Client(transport, elicitation_handler=elicit) as client:

        async def read_first(uri: str) -> Any:
            return (await client.read_resource(uri))[0]

        async def call(name: str, args: Json) -> tuple[bool, str, Any]:
            called = await client.call_tool(name, args, raise_on_error=False)
            return called.is_error, called.content[0].text, called.structured_content

        async def prompt(name: str, args: dict[str, str]) -> str:
            return (await client.get_prompt(name, args)).messages[0].content.text

        async def ask(method: str, params: Json) -> Json:
            request = types.Request[Json, str](method=method, params=params)
            return await client.session.send_request(request, TypeAdapter(Json))

        tools = await client.list_tools()
        prompts = await client.list_prompts()
        templates = await client.list_resource_templates()
        await visit(tools, prompts, templates, client.server_capabilities, read_first, call, prompt, ask)


asyncio.run(main())
