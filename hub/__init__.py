"""One MCP endpoint in front of many MCP servers, with the client's roots in force."""

__version__ = "0.1.0"
