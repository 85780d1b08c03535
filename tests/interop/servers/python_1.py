"""A server on version 1 of the Python SDK. Usage: python_1.py {http|sse} PORT, or python_1.py stdio"""

import functools
import sys

import uvicorn
from event_store import MemoryEventStore
from mcp.server.fastmcp import Context, FastMCP
from mcp.server.lowlevel import NotificationOptions
from tools import QUESTION, RETRY_MS, Form, add_tools, elicited, new_tool, prompt_of


def add_asking_tools(server: FastMCP) -> None:
    tool = server.tool(structured_output=False)

    @tool
    async def ask_sampling(ctx: Context, prompt: str) -> str:
        """Asks on the stream of this call."""
        result = await ctx.session.create_message(
            [prompt_of(prompt)], max_tokens=10, related_request_id=ctx.request_id
        )
        return result.content.text

    @tool
    async def ask_elicitation(ctx: Context) -> str:
        """Asks on the stream of this call."""
        result = await ctx.elicit(QUESTION, Form)
        return elicited(result.action, result.data.name if result.action == "accept" else "")


def add_changing_tools(server: FastMCP) -> None:
    # The SDK has no other way to say that the list may change.
    low = server._mcp_server
    low.create_initialization_options = functools.partial(
        low.create_initialization_options, NotificationOptions(tools_changed=True)
    )

    @server.tool(structured_output=False)
    async def add_tool(ctx: Context) -> str:
        tool = new_tool()
        server.add_tool(tool, structured_output=False)
        await ctx.session.send_tool_list_changed()
        return tool()


def main() -> None:
    mode = sys.argv[1]
    events = MemoryEventStore()
    server = FastMCP("python-1", event_store=events, retry_interval=RETRY_MS)
    add_tools(server.tool(structured_output=False), events)
    add_asking_tools(server)
    add_changing_tools(server)
    if mode == "stdio":
        server.run("stdio")
        return
    app = {"http": server.streamable_http_app, "sse": server.sse_app}[mode]()
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[2]), log_level="warning")


if __name__ == "__main__":
    main()
