"""An MCP server on stdio as people make them: with the SDK."""

from mcp.server.mcpserver import MCPServer

server = MCPServer("bench-sdk-child", log_level="WARNING")


@server.tool()
def echo(text: str) -> str:
    """Say something."""
    return text


@server.tool()
def read_file(path: str) -> str:
    """Say that a file would be read."""
    return f"would read {path}"


if __name__ == "__main__":
    server.run("stdio")
