"""A server on version 2 of the Python SDK.

Usage: python_2.py {http|sse|json|stateless} PORT [CERTIFICATE KEY], or python_2.py stdio

`json` answers with JSON bodies instead of event streams; `stateless` has no sessions.
"""

import functools
import sys
from typing import Annotated

import uvicorn
from event_store import MemoryEventStore
from mcp.server.elicitation import ElicitationResult
from mcp.server.lowlevel import NotificationOptions
from mcp.server.mcpserver import Context, Elicit, MCPServer, Resolve, Sample
from mcp.types import CreateMessageResult, EmptyResult, SubscribeRequestParams, UnsubscribeRequestParams
from tools import BOARD_URI, QUESTION, RETRY_MS, Form, add_tools, elicited, new_tool, prompt_of


def add_asking_tools(server: MCPServer) -> None:
    """What is asked by a resolver is asked as the revision has it: by a request, or in the result."""
    tool = server.tool(structured_output=False)

    def sample(prompt: str) -> Sample:
        return Sample([prompt_of(prompt)], max_tokens=10)

    def elicit() -> Elicit[Form]:
        return Elicit(QUESTION, Form)

    @tool
    async def ask_sampling(prompt: str, sampled: Annotated[CreateMessageResult, Resolve(sample)]) -> str:
        return sampled.content.text

    @tool
    async def ask_elicitation(answer: Annotated[ElicitationResult[Form], Resolve(elicit)]) -> str:
        return elicited(answer.action, answer.data.name if answer.action == "accept" else "")


def add_changing_tools(server: MCPServer) -> None:
    """Changes are told to whoever listens, and to the session of the call if it is of an earlier revision."""
    low = server._lowlevel_server
    tool = server.tool(structured_output=False)
    subscribed: set[str] = set()
    low.create_initialization_options = functools.partial(
        low.create_initialization_options, NotificationOptions(tools_changed=True)
    )

    async def subscribe(ctx, params: SubscribeRequestParams) -> EmptyResult:
        subscribed.add(str(params.uri))
        return EmptyResult()

    async def unsubscribe(ctx, params: UnsubscribeRequestParams) -> EmptyResult:
        subscribed.discard(str(params.uri))
        return EmptyResult()

    low.add_request_handler("resources/subscribe", SubscribeRequestParams, subscribe)
    low.add_request_handler("resources/unsubscribe", UnsubscribeRequestParams, unsubscribe)

    @server.resource(BOARD_URI)
    def board() -> str:
        return "board"

    @tool
    async def add_tool(ctx: Context) -> str:
        added = new_tool()
        server.add_tool(added, structured_output=False)
        await ctx.notify_tools_changed()
        await ctx.session.send_tool_list_changed()
        return added()

    @tool
    async def touch(ctx: Context) -> str:
        """Tells of a change of the resource."""
        await ctx.notify_resource_updated(BOARD_URI)
        if BOARD_URI in subscribed:
            await ctx.session.send_resource_updated(BOARD_URI)
        return "touched"


def main() -> None:
    mode = sys.argv[1]
    server = MCPServer("python-2")
    events = MemoryEventStore()
    add_tools(server.tool(structured_output=False), events)
    add_asking_tools(server)
    add_changing_tools(server)
    if mode == "stdio":
        server.run("stdio")
        return
    port = int(sys.argv[2])
    certificate, key = sys.argv[3:5] or (None, None)
    if mode == "sse":
        app = server.sse_app()
    elif mode == "http":
        app = server.streamable_http_app(event_store=events, retry_interval=RETRY_MS)
    else:
        app = server.streamable_http_app(json_response=mode == "json", stateless_http=mode == "stateless")
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning", ssl_certfile=certificate, ssl_keyfile=key)


if __name__ == "__main__":
    main()
