"""A server on version 1 of the Python SDK. Usage: python_1.py {http|sse} PORT"""

import sys

import uvicorn
from event_store import MemoryEventStore
from mcp.server.fastmcp import FastMCP
from tools import add_tools


def main() -> None:
    mode, port = sys.argv[1], int(sys.argv[2])
    server = FastMCP("python-1", event_store=MemoryEventStore(), retry_interval=100)
    add_tools(server)
    app = {"http": server.streamable_http_app, "sse": server.sse_app}[mode]()
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning")


if __name__ == "__main__":
    main()
