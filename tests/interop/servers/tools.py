"""The tools that both Python servers offer, one for each thing that the driver looks at."""

import asyncio
import random

from pydantic import BaseModel

try:
    from mcp.server.mcpserver import Context
    from mcp.server.mcpserver.exceptions import ToolError
except ImportError:
    from mcp.server.fastmcp import Context
    from mcp.server.fastmcp.exceptions import ToolError

from event_store import MemoryEventStore
from mcp.types import SamplingMessage, TextContent

MEGABYTE = 1 << 20
#: How long a client is to wait before it resumes a stream.
RETRY_MS = 100


class Form(BaseModel):
    """What an elicitation asks for."""

    name: str


def big_text(size: int, seed: int) -> str:
    """A text of `size` characters that anyone who has the seed can make again.

    The mark between the megabytes holds what escaping and line splitting go wrong at.
    """
    numbers = random.Random(seed)
    mark = '"\\\n\u2028\u00e9\U0001f680'
    pieces = []
    while sum(map(len, pieces)) < size:
        pieces += [numbers.randbytes(MEGABYTE // 2).hex(), mark]
    return "".join(pieces)[:size]


def add_tools(server, events: MemoryEventStore | None = None) -> None:
    """Registers the tools; none has structured output, which would send every text twice."""
    cancelled: set[str] = set()

    def tool(function):
        return server.tool(structured_output=False)(function)

    @tool
    def echo(text: str) -> str:
        return text

    @tool
    async def work(ctx: Context, steps: int, seconds: float, name: str = "") -> str:
        """Reports progress after every step."""
        try:
            for step in range(1, steps + 1):
                await asyncio.sleep(seconds / steps)
                await ctx.report_progress(step, steps, f"step {step} \u2028")
        except asyncio.CancelledError:
            cancelled.add(name)
            raise
        return "worked"

    @tool
    def was_cancelled(name: str) -> str:
        return "yes" if name in cancelled else "no"

    @tool
    async def ask_sampling(ctx: Context, prompt: str) -> str:
        """Asks on the stream of this call."""
        message = SamplingMessage(role="user", content=TextContent(type="text", text=prompt))
        result = await ctx.session.create_message([message], max_tokens=10, related_request_id=ctx.request_id)
        return result.content.text

    @tool
    async def ask_roots(ctx: Context) -> str:
        """Asks on the stream that belongs to no call."""
        result = await ctx.session.list_roots()
        return " ".join(str(root.uri) for root in result.roots)

    @tool
    async def ask_elicitation(ctx: Context) -> str:
        """Asks on the stream of this call."""
        result = await ctx.elicit("Who?", Form)
        return f"{result.action} {result.data.name if result.action == 'accept' else ''}"

    @tool
    def fail() -> str:
        raise ToolError("deliberate")

    @tool
    def big(size: int, seed: int) -> str:
        return big_text(size, seed)

    @tool
    async def hang_up(ctx: Context, seconds: float) -> str:
        """Ends the stream of this call, so that the answer must be fetched from another one."""
        await ctx.close_sse_stream()
        await asyncio.sleep(seconds)
        return "fetched"

    @tool
    def resumptions() -> str:
        """How often a client has resumed a stream."""
        return str(events.replays if events else 0)
