"""Which tool of which server a command's argument names: `SERVER.TOOL`, or a public name."""

from __future__ import annotations

from collections.abc import Iterable

from hub.catalog.names import Names, NamesMode


def named_tool(
    text: str, servers: Iterable[str] = (), mode: NamesMode = "auto"
) -> tuple[str, str] | None:
    """Return the server and its own name of the tool that `text` names; None if it names none.

    A public name counts where the `servers` are known: `server__tool`, or the bare name if these
    servers have no prefixes and there is only one. A shortened public name (with a hash) does not
    tell the tool's own name.
    """
    names = Names(servers, mode)
    public = None if names.bare else names.split(text)
    if public is not None:
        return _complete(*public)
    dotted = [server for server in names.servers if text.startswith(f"{server}.")]
    if dotted:
        server = max(dotted, key=len)
        return _complete(server, text.removeprefix(f"{server}."))
    if names.bare and len(names.servers) == 1 and "." not in text:
        return _complete(names.servers[0], text)
    server, _, tool = text.partition(".")
    return _complete(server, tool)


def _complete(server: str, tool: str) -> tuple[str, str] | None:
    return (server, tool) if server and tool else None
