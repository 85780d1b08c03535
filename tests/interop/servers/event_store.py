"""Keeps events, so that a client can resume a stream."""

from mcp.server.streamable_http import EventMessage, EventStore


class MemoryEventStore(EventStore):
    """Event ids are positions in one list."""

    def __init__(self) -> None:
        self._events: list = []
        self.replays = 0

    async def store_event(self, stream_id, message) -> str:
        self._events.append((stream_id, message))
        return str(len(self._events) - 1)

    async def replay_events_after(self, last_event_id, send_callback) -> str | None:
        self.replays += 1
        position = int(last_event_id)
        if position >= len(self._events):
            return None
        stream_id = self._events[position][0]
        for later, (stream, message) in enumerate(self._events[position + 1 :], position + 1):
            if stream == stream_id and message is not None:
                await send_callback(EventMessage(message, str(later)))
        return stream_id
