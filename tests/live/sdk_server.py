"""An MCP server made with the SDK, as other people make them: `sdk_server.py sse|http`."""

import socket
import sys

import anyio
import uvicorn
from mcp.server.mcpserver import MCPServer

server = MCPServer("remote", log_level="WARNING")


@server.tool()
def read_file(path: str) -> str:
    """Say that a file would be read."""
    return f"would read {path}"


@server.tool()
def big(size: int) -> str:
    """Return a text of this size."""
    return "x" * size


def main() -> None:
    app = server.sse_app() if sys.argv[1] == "sse" else server.streamable_http_app()
    listener = socket.create_server(("127.0.0.1", 0))
    path = "/sse" if sys.argv[1] == "sse" else "/mcp"
    print(f"serves http://127.0.0.1:{listener.getsockname()[1]}{path}", flush=True)  # noqa: T201
    config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=0)
    anyio.run(uvicorn.Server(config).serve, [listener])


if __name__ == "__main__":
    main()
