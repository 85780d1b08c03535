"""A server on version 1 of the Python SDK. Usage: python_1.py {http|sse} PORT, or python_1.py stdio"""

import sys

import uvicorn
from event_store import MemoryEventStore
from mcp.server.fastmcp import FastMCP
from tools import RETRY_MS, add_tools


def main() -> None:
    mode = sys.argv[1]
    events = MemoryEventStore()
    server = FastMCP("python-1", event_store=events, retry_interval=RETRY_MS)
    add_tools(server, events)
    if mode == "stdio":
        server.run("stdio")
        return
    app = {"http": server.streamable_http_app, "sse": server.sse_app}[mode]()
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[2]), log_level="warning")


if __name__ == "__main__":
    main()
