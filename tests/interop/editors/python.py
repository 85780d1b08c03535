"""What both Python clients do: the features of a plan, one after the other, and a line of JSON about each."""

from __future__ import annotations

import asyncio
import contextlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

Json = dict[str, Any]

PATIENCE = 30.0
#: How long a call without progress runs before it is cancelled.
HEAD_START = 0.5


def say(feature: str, outcome: Json) -> None:
    print(json.dumps({"feature": feature} | outcome), flush=True)


def text_of(result: Any) -> str:
    return "".join(getattr(part, "text", "") for part in result.content)


class Driver(ABC):
    """A connected client."""

    @abstractmethod
    async def list_tools(self) -> list[str]: ...

    @abstractmethod
    async def call(self, params: Json, progress: Callable[[float], None] | None = None) -> Any: ...

    @abstractmethod
    async def call_until(self, params: Json, started: asyncio.Event, stop: asyncio.Event) -> bool:
        """Makes a call that is taken back when told so; whether it was answered before."""

    @abstractmethod
    def list_changes(self, of: str, notify: Callable[[], None]) -> AbstractAsyncContextManager[None]: ...

    @abstractmethod
    def updates(self, uri: str, notify: Callable[[str], None]) -> AbstractAsyncContextManager[None]: ...

    # The features.

    async def text(self, params: Json) -> Json:
        return {"text": text_of(await self.call(params))}

    async def tools(self, feature: Json) -> Json:
        return {"tools": await self.list_tools()} | await self.text(feature["call"])

    async def progress(self, feature: Json) -> Json:
        steps: list[float] = []
        result = await self.call(feature["call"], steps.append)
        return {"steps": steps, "text": text_of(result)}

    async def elicitation(self, feature: Json) -> Json:
        return await self.text(feature["call"])

    async def sampling(self, feature: Json) -> Json:
        return await self.text(feature["call"])

    async def resumption(self, feature: Json) -> Json:
        return await self.text(feature["call"])

    async def cancel(self, feature: Json) -> Json:
        started, stop = asyncio.Event(), asyncio.Event()
        call = asyncio.create_task(self.call_until(feature["call"], started, stop))
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(started.wait(), HEAD_START)
        stop.set()
        outcome = {"early": await call} | await self.text(feature["after"])
        while feature["seen"] and outcome.get("seen") != "yes":
            outcome["seen"] = (await self.text(feature["seen"]))["text"]
            await asyncio.sleep(0.05)
        return outcome

    async def list(self, feature: Json) -> Json:
        notified = asyncio.Event()
        async with self.list_changes(feature["of"], notified.set):
            outcome = await self.text(feature["call"])
            await notified.wait()
        return outcome

    async def subscription(self, feature: Json) -> Json:
        uris: asyncio.Queue[str] = asyncio.Queue()
        async with self.updates(feature["uri"], uris.put_nowait):
            outcome = await self.text(feature["call"])
            return outcome | {"uri": await uris.get()}

    async def drive(self, plan: Json, revision: str) -> None:
        say("connect", {"revision": revision})
        patience = plan.get("patience", PATIENCE)
        for feature in plan["features"]:
            name = feature["name"]
            try:
                say(name, await asyncio.wait_for(getattr(self, name)(feature), patience))
            except TimeoutError:
                say(name, {"error": f"no {name} within {patience} s"})
            except Exception as error:
                say(name, {"error": f"{type(error).__name__}: {error}"})
