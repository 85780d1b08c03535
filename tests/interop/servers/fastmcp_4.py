"""A server on FastMCP 4. Usage: fastmcp_4.py http PORT, or fastmcp_4.py stdio"""

import sys

import uvicorn
from fastmcp import Context, FastMCP
from mcp_types import (
    CreateMessageRequest,
    CreateMessageRequestParams,
    ElicitRequest,
    ElicitRequestFormParams,
    InputRequiredResult,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from tools import QUESTION, Form, add_tools, elicited, new_tool, prompt_of

KEY = "asked"


def is_modern(ctx: Context) -> bool:
    return ctx.request_context.protocol_version in MODERN_PROTOCOL_VERSIONS


def asking(request) -> InputRequiredResult:
    return InputRequiredResult(result_type="input_required", input_requests={KEY: request})


def add_asking_tools(server: FastMCP) -> None:
    """From 2026-07-28 on a tool returns what it asks, and is called again with the answer."""

    @server.tool(output_schema=None)
    async def ask_sampling(ctx: Context, prompt: str) -> str | InputRequiredResult:
        params = CreateMessageRequestParams(messages=[prompt_of(prompt)], max_tokens=10)
        if not is_modern(ctx):
            result = await ctx.session.create_message(
                params.messages, max_tokens=params.max_tokens, related_request_id=ctx.request_id
            )
        elif ctx.input_responses:
            result = ctx.input_responses[KEY]
        else:
            return asking(CreateMessageRequest(params=params))
        return result.content.text

    @server.tool(output_schema=None)
    async def ask_elicitation(ctx: Context) -> str | InputRequiredResult:
        if not is_modern(ctx):
            result = await ctx.elicit(QUESTION, Form)
            return elicited(result.action, result.data.name if result.action == "accept" else "")
        if ctx.input_responses:
            result = ctx.input_responses[KEY]
            return elicited(result.action, (result.content or {}).get("name", ""))
        schema = Form.model_json_schema()
        return asking(ElicitRequest(params=ElicitRequestFormParams(message=QUESTION, requested_schema=schema)))


def add_changing_tools(server: FastMCP) -> None:
    @server.tool(output_schema=None)
    async def add_tool(ctx: Context) -> str:
        added = new_tool()
        server.add_tool(added)
        await ctx.session.send_tool_list_changed()
        return added()


def main() -> None:
    mode = sys.argv[1]
    server = FastMCP("fastmcp-4")
    add_tools(server.tool(output_schema=None))
    add_asking_tools(server)
    add_changing_tools(server)
    if mode == "stdio":
        server.run("stdio", show_banner=False)
        return
    uvicorn.run(server.http_app(path="/mcp"), host="127.0.0.1", port=int(sys.argv[2]), log_level="warning")


if __name__ == "__main__":
    main()
