"""A client on the Python SDK 1.x: python_1.py PLAN {COMMAND…|URL}; README.md describes what it does and prints."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from mcp import ClientSession, StdioServerParameters, types
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamablehttp_client
from pydantic import AnyUrl
from python import Driver, Json


class Python1(Driver):
    session: ClientSession

    def __init__(self) -> None:
        self._listeners: dict[type, Callable[[Any], None]] = {}

    async def receive(self, message: object) -> None:
        """Takes every message that is no answer."""
        if isinstance(message, types.ServerNotification) and (listener := self._listeners.get(type(message.root))):
            listener(message.root.params)

    async def list_tools(self) -> list[str]:
        return [tool.name for tool in (await self.session.list_tools()).tools]

    async def call(self, params: Json, progress: Callable[[float], None] | None = None) -> Any:
        async def told(step: float, _total: float | None, _message: str | None) -> None:
            if progress:
                progress(step)

        return await self.session.call_tool(**params, progress_callback=told if progress else None)

    async def call_until(self, params: Json, started: asyncio.Event, stop: asyncio.Event) -> bool:
        # The SDK cancels no request by itself: a program notifies the server, and waits no longer.
        request_id = self.session._request_id
        call = asyncio.create_task(self.call(params, lambda _: started.set()))
        await stop.wait()
        if call.done():
            return True
        cancelled = types.CancelledNotification(
            method="notifications/cancelled", params=types.CancelledNotificationParams(requestId=request_id)
        )
        await self.session.send_notification(types.ClientNotification(cancelled))
        call.cancel()
        return False

    @asynccontextmanager
    async def list_changes(self, of: str, notify: Callable[[], None]) -> AsyncIterator[None]:
        kind = {"tools": types.ToolListChangedNotification, "resources": types.ResourceListChangedNotification}[of]
        self._listeners[kind] = lambda _: notify()
        yield

    @asynccontextmanager
    async def updates(self, uri: str, notify: Callable[[str], None]) -> AsyncIterator[None]:
        self._listeners[types.ResourceUpdatedNotification] = lambda params: notify(str(params.uri))
        await self.session.subscribe_resource(AnyUrl(uri))
        yield


def transport(command: str, arguments: list[str]) -> AbstractAsyncContextManager[tuple[Any, ...]]:
    if command.startswith(("http:", "https:")):
        return streamablehttp_client(command)
    return stdio_client(StdioServerParameters(command=command, args=arguments, env=dict(os.environ)))


async def main() -> None:
    plan, command, *arguments = sys.argv[1:]
    plan = json.loads(plan)

    async def sample(_context: object, _params: object) -> types.CreateMessageResult:
        return types.CreateMessageResult.model_validate(plan["answers"]["sampling"])

    async def elicit(_context: object, _params: object) -> types.ElicitResult:
        return types.ElicitResult.model_validate(plan["answers"]["elicitation"])

    driver = Python1()
    async with (
        transport(command, arguments) as (read, write, *_),
        ClientSession(
            read, write, sampling_callback=sample, elicitation_callback=elicit, message_handler=driver.receive
        ) as driver.session,
    ):
        found = await driver.session.initialize()
        await driver.drive(plan, str(found.protocolVersion))


asyncio.run(main())
