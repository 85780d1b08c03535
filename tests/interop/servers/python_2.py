"""A server on version 2 of the Python SDK.

Usage: python_2.py {http|sse|json|stateless} PORT [CERTIFICATE KEY]

`json` answers with JSON bodies instead of event streams; `stateless` has no sessions.
"""

import sys

import uvicorn
from event_store import MemoryEventStore
from mcp.server.mcpserver import MCPServer
from tools import RETRY_MS, add_tools


def main() -> None:
    mode, port = sys.argv[1], int(sys.argv[2])
    certificate, key = sys.argv[3:5] or (None, None)
    server = MCPServer("python-2")
    events = MemoryEventStore()
    add_tools(server, events)
    if mode == "sse":
        app = server.sse_app()
    elif mode == "http":
        app = server.streamable_http_app(event_store=events, retry_interval=RETRY_MS)
    else:
        app = server.streamable_http_app(json_response=mode == "json", stateless_http=mode == "stateless")
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning", ssl_certfile=certificate, ssl_keyfile=key)


if __name__ == "__main__":
    main()
