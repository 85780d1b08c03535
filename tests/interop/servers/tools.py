"""The tools that all Python servers offer, one for each thing that the driver looks at.

How a server asks its client, and how it tells of changes, differs between the SDKs and stands with each server.
"""

import asyncio
import itertools
import random

from pydantic import BaseModel

try:
    from fastmcp import Context
    from fastmcp.exceptions import ToolError
except ImportError:
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
#: The resource that can be subscribed to.
BOARD_URI = "interop://board"
#: What an elicitation says.
QUESTION = "Who?"

_numbers = itertools.count(1)


class Form(BaseModel):
    """What an elicitation asks for."""

    name: str


def prompt_of(text: str) -> SamplingMessage:
    return SamplingMessage(role="user", content=TextContent(type="text", text=text))


def elicited(action: str, name: str) -> str:
    """The text of the result of a call that asked for a `Form`."""
    return f"{action} {name}"


def new_tool():
    """A tool that was not there before, which returns its own name."""
    name = f"added_{next(_numbers)}"

    def added() -> str:
        return name

    added.__name__ = name
    return added


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


def add_tools(tool, events: MemoryEventStore | None = None) -> None:
    """Registers the tools with a decorator that gives none structured output, which would send every text twice."""
    cancelled: set[str] = set()

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
    async def ask_roots(ctx: Context) -> str:
        """Asks on the stream that belongs to no call."""
        result = await ctx.session.list_roots()
        return " ".join(str(root.uri) for root in result.roots)

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
