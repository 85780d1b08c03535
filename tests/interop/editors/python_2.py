"""A client on the Python SDK 2.x: python_2.py PLAN {COMMAND…|URL}; README.md describes what it does and prints."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from mcp import types
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters
from python import Driver, Json

MODERN = "2026-07-28"


class Python2(Driver):
    client: Client

    def __init__(self) -> None:
        self._listeners: dict[type, Callable[[Any], None]] = {}

    async def receive(self, message: object) -> None:
        """Takes every message that is no answer."""
        if listener := self._listeners.get(type(message)):
            listener(getattr(message, "params", None))

    async def list_tools(self) -> list[str]:
        return [tool.name for tool in (await self.client.list_tools()).tools]

    async def call(self, params: Json, progress: Callable[[float], None] | None = None) -> Any:
        async def told(step: float, _total: float | None, _message: str | None) -> None:
            if progress:
                progress(step)

        return await self.client.call_tool(**params, progress_callback=told if progress else None)

    async def call_until(self, params: Json, started: asyncio.Event, stop: asyncio.Event) -> bool:
        call = asyncio.create_task(self.call(params, lambda _: started.set()))
        await stop.wait()
        was_done = call.done()
        call.cancel()
        await asyncio.wait([call])
        return was_done

    @asynccontextmanager
    async def list_changes(self, of: str, notify: Callable[[], None]) -> AsyncIterator[None]:
        kind = {"tools": types.ToolListChangedNotification, "resources": types.ResourceListChangedNotification}[of]
        self._listeners[kind] = lambda _: notify()
        if self.client.protocol_version == MODERN:
            async with self.client.listen(**{f"{of}_list_changed": True}):
                yield
        else:
            yield

    @asynccontextmanager
    async def updates(self, uri: str, notify: Callable[[str], None]) -> AsyncIterator[None]:
        self._listeners[types.ResourceUpdatedNotification] = lambda params: notify(str(params.uri))
        if self.client.protocol_version == MODERN:
            async with self.client.listen(resource_subscriptions=[uri]):
                yield
        else:
            await self.client.subscribe_resource(uri)
            yield


async def main() -> None:
    plan, command, *arguments = sys.argv[1:]
    plan = json.loads(plan)

    async def sample(_context: object, _params: object) -> types.CreateMessageResult:
        return types.CreateMessageResult.model_validate(plan["answers"]["sampling"])

    async def elicit(_context: object, _params: object) -> types.ElicitResult:
        return types.ElicitResult.model_validate(plan["answers"]["elicitation"])

    driver = Python2()
    is_http = command.startswith(("http:", "https:"))
    async with Client(
        command if is_http else StdioServerParameters(command=command, args=arguments, env=dict(os.environ)),
        mode="auto" if plan["mode"] == "modern" else "legacy",
        sampling_callback=sample,
        elicitation_callback=elicit,
        message_handler=driver.receive,
    ) as driver.client:
        await driver.drive(plan, str(driver.client.protocol_version))


asyncio.run(main())
