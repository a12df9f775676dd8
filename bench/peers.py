"""Other programs that stand before MCP servers, each in front of the same child.

`make bench` installs them from their registries into environments of their own, below `.bench`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.cases import ECHO, Client, Params
from bench.piped import WrongAnswerError
from bench.programs import CHILD, HERE

CHILD_READY = 45.0
"""Seconds that a program may take until its child can be called."""
BENCH = HERE.parent / ".bench"
NODE = BENCH / "node" / "node_modules" / ".bin"


def bare_names(params: Params) -> Params:
    """Return a call to a program that shows the child's tools under their own names."""
    return params


def prefixed(params: Params) -> Params:
    """Return a call to one that puts the server's name before them."""
    return {**params, "name": f"child__{params['name']}"}


def by_call_tool(params: Params) -> Params:
    """Return a call to one that has a tool to call tools with."""
    wanted = {"toolName": params["name"], "toolArgs": params["arguments"]}
    return {"name": "call-tool", "arguments": {"serverName": "child", **wanted}}


def dashed(params: Params) -> Params:
    """Return a call to one that spells names in its own way."""
    return {**params, "name": f"child-{params['name'].replace('_', '-')}"}


@dataclass(frozen=True)
class Peer:
    """How a program is started and called; `argv` gets a folder for its config, and a port."""

    name: str
    installed: Path
    argv: Callable[[Path, int], list[str]]
    call: Callable[[Params], Params] = bare_names
    path: str = "/mcp"
    streams: bool = False
    """Whether it speaks the older HTTP transport."""

    def require(self) -> None:
        """Make sure that it can be started.

        Raises: WrongAnswerError.
        """
        if not self.installed.exists():
            raise WrongAnswerError("could not be installed")

    def await_child(self, client: Client) -> None:
        """Return once a call of its child succeeds: some begin to serve before they have one.

        Raises: WrongAnswerError.
        """
        until = time.monotonic() + CHILD_READY
        while True:
            try:
                client.request("tools/call", self.call(ECHO))
            except WrongAnswerError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.2)
            else:
                return


_LAUNCHED = {"command": CHILD[0], "args": CHILD[1:]}


def _config(folder: Path, server: Mapping[str, Any] = _LAUNCHED) -> str:
    path = folder / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {"child": server}}))
    return str(path)


def _remote(folder: Path, port: int) -> str:
    """Return a config of a child that listens on a port."""
    return _config(folder, {"url": f"http://127.0.0.1:{port}/mcp", "transport": "http"})


_FASTMCP = BENCH / "fastmcp" / "bin" / "python"
_CONTEXTFORGE = BENCH / "contextforge" / "bin" / "python"
_MCP_PROXY = BENCH / "mcp-proxy" / "bin" / "mcp-proxy"


def _fastmcp(config: str, *listen: str) -> list[str]:
    return [str(_FASTMCP), str(HERE / "fastmcp_proxy.py"), config, *listen]


def _hub_mcp(config: str) -> list[str]:
    return [str(NODE / "mcp-hub-mcp"), "--config-path", config]


STDIO = [
    Peer("FastMCP", _FASTMCP, lambda folder, _: _fastmcp(_config(folder))),
    Peer(
        "mcp-hub-mcp",
        NODE / "mcp-hub-mcp",
        lambda folder, _: _hub_mcp(_config(folder)),
        by_call_tool,
    ),
]
REMOTE = [
    Peer("FastMCP", _FASTMCP, lambda folder, port: _fastmcp(_remote(folder, port))),
    Peer(
        "mcp-hub-mcp",
        NODE / "mcp-hub-mcp",
        lambda folder, port: _hub_mcp(_remote(folder, port)),
        by_call_tool,
    ),
]
"""Those on stdio, before a server that listens on the port."""
HTTP = [
    Peer("FastMCP", _FASTMCP, lambda folder, port: _fastmcp(_config(folder), str(port))),
    Peer(
        "mcp-proxy",
        _MCP_PROXY,
        lambda _, port: [
            *[str(_MCP_PROXY), "--host", "127.0.0.1", "--port", str(port)],
            *["--log-level", "WARNING", "--", *CHILD],
        ],
    ),
    Peer(
        "mcp-hub",
        NODE / "mcp-hub",
        lambda folder, port: [
            *[str(NODE / "mcp-hub"), "--port", str(port), "--config", _config(folder)]
        ],
        prefixed,
        streams=True,
    ),
    Peer(
        "ContextForge",
        _CONTEXTFORGE,
        lambda folder, port: [
            *[str(_CONTEXTFORGE), str(HERE / "contextforge.py"), str(folder), str(port), *CHILD]
        ],
        dashed,
        "/mcp/",
    ),
]
