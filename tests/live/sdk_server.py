"""An MCP server made with the SDK, as other people make them: `sdk_server.py sse|http`."""

import gc
import socket
import sys

if __name__ == "__main__":
    gc.disable()  # it would look at all that is imported, which takes as long as a test

import anyio
import uvicorn
from mcp.server.mcpserver import MCPServer

server = MCPServer("remote", log_level="WARNING")


@server.tool()
def read_file(path: str) -> str:
    """Say that a file would be read."""
    return f"would read {path}"


@server.tool(structured_output=False)
def big(size: int) -> str:
    """Return a text of this size."""
    return "x" * size


@server.tool()
def length(text: str) -> str:
    """Say how long a text is."""
    return str(len(text))


LARGEST = 32 * 1024 * 1024


def main() -> None:
    if sys.argv[1] == "sse":
        app = server.sse_app(max_request_body_size=LARGEST)
    else:
        app = server.streamable_http_app(max_request_body_size=LARGEST)
    listener = socket.create_server(("127.0.0.1", 0))
    path = "/sse" if sys.argv[1] == "sse" else "/mcp"
    print(f"serves http://127.0.0.1:{listener.getsockname()[1]}{path}", flush=True)  # noqa: T201 - who started it waits for this
    config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=0)
    anyio.run(uvicorn.Server(config).serve, [listener])


if __name__ == "__main__":
    main()
