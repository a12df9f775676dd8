"""Write a commented hub.yaml with servers that were found, or chosen."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import cast

from hub.config.importing.carrying import CarriedServer, LeftServer
from hub.config.source.documents import ParsedConfig
from hub.config.source.yaml_text import flow, quoted, scalar
from hub.legible import on_one_line

_HEAD = """\
# A config for roots-hub: one MCP endpoint in front of these servers. A client's folders (its
# roots) are the only places that paths in tool calls may lead to.
#
#   roots-hub check --config {name} --connect     does everything start?
#   roots-hub install cursor --config {name}      tell a client about it (or vscode, codex, ...)
#
# Every key is explained in hub.yaml.example, and `roots-hub schema` prints a JSON Schema for
# editors. ${{NAME}} is a variable of the environment that the hub is started in.

version: 1
"""
_FOLDERS = """\
roots:
  # Folders for clients that share none of their own. Relative paths start at this file.
  # Clients that share folders are held to those, whatever is written here.
  fallback: {folders}
  # deny: ["**/.env"]         # what no call reaches, in any folder
"""
_NO_FOLDERS = """\
# Clients that share folders are held to those. For clients that share none, name folders here;
# else their calls are let through, with a warning. Relative paths start at this file.
# roots:
#   fallback: ["."]
#   deny: ["**/.env"]         # what no call reaches, in any folder
"""


def hub_yaml(
    name: str,
    servers: Sequence[CarriedServer],
    left: Iterable[LeftServer] = (),
    *,
    folders: Sequence[str] = (),
    confine: str | None = None,
) -> str:
    """Return the text of a config with these servers, for a file of this name.

    `left` are named in comments.
    """
    head = _HEAD.format(name=on_one_line(shlex.quote(name)))
    places = _FOLDERS.format(folders=flow(list(folders))) if folders else _NO_FOLDERS
    lines = [head, places, "servers:"]
    for one in servers:
        lines += _server(one, confine)
    if not servers:
        lines[-1] = "servers: {}"
    rest = list(_left_out(left))
    if rest:
        lines += ["# Not carried over:", *rest]
    return "\n".join(lines).rstrip() + "\n"


def _server(one: CarriedServer, confine: str | None) -> Iterator[str]:
    if one.about:
        yield on_one_line(f"  # {one.about}")
    for source in one.sources:
        yield on_one_line(f"  # from {source.client}, {source.where}")
    for note in one.notes:
        yield on_one_line(f"  # not carried over: {note}")
    yield f"  {scalar(one.name)}:"
    for key, value in one.server.items():
        yield from _member(key, value)
    if confine is not None and "command" in one.server:
        yield f"    confine: {quoted(confine)}"
    for need in one.needs:
        yield f"    # needs the variable {need.name}"
    yield ""


def _member(key: str, value: object) -> Iterator[str]:
    if isinstance(value, dict) and value and key in {"env", "headers"}:
        yield f"    {key}:"
        for name, one in cast("Mapping[str, object]", value).items():
            yield f"      {scalar(name)}: {flow(one)}"
    else:
        yield f"    {key}: {flow(cast('object', value))}"


def _left_out(left: Iterable[LeftServer]) -> Iterator[str]:
    for one in left:
        if one.why != "the hub itself":
            yield on_one_line(f"#   {one.source.client} {one.source.name}: {one.why}")


def servers_in(raw: ParsedConfig) -> dict[str, ParsedConfig]:
    """Return the servers of a parsed hub.yaml."""
    servers = cast("object", raw.get("servers"))
    if not isinstance(servers, dict):
        return {}
    named = cast("dict[str, object]", servers).items()
    return {name: cast("ParsedConfig", one) for name, one in named if isinstance(one, dict)}
