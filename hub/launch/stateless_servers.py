"""Recognise commands of servers that keep nothing between calls, which clients may share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hub.launch.known_servers import (
    command_name,
    is_known,
    package_name,
    program_index,
    runs_elsewhere,
)

_PACKAGES: Final = frozenset(
    {
        "hub.file_server.server",
        "@modelcontextprotocol/server-brave-search",
        "@modelcontextprotocol/server-github",
        "@modelcontextprotocol/server-gitlab",
        "@modelcontextprotocol/server-google-maps",
        "@modelcontextprotocol/server-slack",
        "@upstash/context7-mcp",
    }
)
"""Packages and modules whose answers depend on arguments, disk and network alone."""

_COMMANDS: Final = frozenset(
    {
        "context7-mcp",
        "markitdown-mcp",
        "mcp-server-fetch",
        "mcp-server-git",
        "mcp-server-time",
        "mcp_server_fetch",
        "mcp_server_git",
        "mcp_server_time",
    }
)
"""The same, by the names of commands and modules, wherever they are installed."""

_IMAGES: Final = frozenset({"mcp/fetch", "mcp/filesystem", "mcp/git", "mcp/time"})
"""Container images of such servers."""


def keeps_nothing(argv: Sequence[str]) -> bool:
    """Return whether a command is a server known to keep nothing between calls.

    `argv` is the command as configured. A name that a user gave to the server is no evidence.
    """
    if runs_elsewhere(argv):
        return any(word.partition(":")[0] in _IMAGES for word in argv)
    program = argv[program_index(argv)]
    package = package_name(program)
    if is_known(program) or package in _PACKAGES:
        return True
    return not package.startswith("@") and command_name(program) in _COMMANDS
