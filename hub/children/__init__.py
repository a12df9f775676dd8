"""The MCP servers behind the hub."""
