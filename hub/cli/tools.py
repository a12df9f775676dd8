"""`roots-hub tools` and `roots-hub call`: list the tools of a config's servers, and call one."""

from __future__ import annotations

import json
import os
import sys
from argparse import Namespace
from collections.abc import Iterable
from pathlib import Path
from typing import cast

from msgspec.structs import replace

from hub.app.machine import Setting
from hub.calls.builtin_tools import GET_ROOTS
from hub.children.child import Ready
from hub.cli.options import (
    Subparsers,
    add_config_option,
    add_root_option,
    arguments_of,
    ensure_usable,
    file_server_config,
    file_server_setting,
    log_file_of,
    named_tool,
    required_config,
    watched_config,
)
from hub.cli.own_client import OwnClient, own_client
from hub.cli.terminal import untold
from hub.config.load import config_source
from hub.config.models import HubConfig
from hub.config.own_files import found_in
from hub.confinement.confined_launch import this_kernel
from hub.errors import RouteError
from hub.legible import legible, on_one_line
from hub.system.this_process import run_loop
from hub.values import Json, JsonObject, ServerName


def register(subparsers: Subparsers) -> None:
    """Add the subcommands `tools` and `call`."""
    tools = subparsers.add_parser(
        "tools",
        help="list the tools of a config's servers, by the names that clients see",
        description="Start the servers of a config and list their tools. Exit code 1: a server "
        "could not be started. Without a config: the embedded file server's.",
    )
    add_config_option(tools)
    add_root_option(tools)
    tools.add_argument("--json", action="store_true", help="print whole definitions, as JSON")
    tools.set_defaults(perform=_tools, usual_log_level="warning")
    call = subparsers.add_parser(
        "call",
        help="call a tool through the hub, guard and all",
        description="Call a tool as a client without roots would. Exit code 1: the result is an "
        "error, a refusal included. Without a config: one of the embedded file server, on the "
        "current directory (or on the --root folders).",
    )
    call.add_argument("call", metavar="SERVER.TOOL", help="or the public name: SERVER__TOOL")
    call.add_argument("--arguments", metavar="JSON", default="{}", help="the call's arguments")
    add_config_option(call)
    add_root_option(call)
    call.add_argument("--json", action="store_true", help="print the whole result, as JSON")
    call.set_defaults(perform=_call, usage_error=call.error, usual_log_level="warning")


def _chosen(options: Namespace) -> tuple[HubConfig, Setting]:
    """Return the config, and how it is used: without one, the embedded file server as for `run`."""
    if config_source(options.config, os.environ) is None and not found_in(Path.cwd()):
        config, setting = file_server_config(this_kernel()), file_server_setting(options)
    else:
        watched = watched_config(options)
        config, warnings = required_config(options)
        for warning in warnings:
            print(legible(f"warning: {warning}"), file=sys.stderr)
        setting = Setting(given=options.root, watched=watched)
    return config, replace(setting, log_file=log_file_of(options))


def _tools(options: Namespace) -> int:
    untold("down", "not listed")
    tools, failed = run_loop(_listed, *_chosen(options))
    for text in [json.dumps(tools, indent=2)] if options.json else map(_shown, tools):
        print(text)
    for name, why in failed.items():
        print(legible(f"{name}: {why}"), file=sys.stderr)
    return 1 if failed else 0


async def _listed(
    config: HubConfig, setting: Setting
) -> tuple[list[JsonObject], dict[ServerName, str]]:
    """Return the definitions of the servers' tools, and why some servers could not be started."""
    async with own_client(config, setting, "command line") as client:
        failed = await _started(client, client.services.servers)
        return [one for one in await client.tools() if one.get("name") != GET_ROOTS], failed


async def _started(client: OwnClient, servers: Iterable[ServerName]) -> dict[ServerName, str]:
    """Start servers, and return why those that could not be started could not."""
    failed: dict[ServerName, str] = {}

    def told(name: ServerName, found: Ready | str) -> None:
        if isinstance(found, str):
            failed[name] = found

    await client.start_each(servers, told)
    return failed


def _shown(tool: JsonObject) -> str:
    """Return a tool's name, its title, and the first line of its description."""
    title, description = tool.get("title"), tool.get("description")
    name = on_one_line(str(tool.get("name")))
    lines = [f"{name}  ({on_one_line(title)})" if isinstance(title, str) else name]
    if isinstance(description, str) and description.strip():
        lines.append(f"    {on_one_line(description.strip().splitlines()[0])}")
    return "\n".join(lines)


def _call(options: Namespace) -> int:
    untold("down", "not listed")
    config, setting = _chosen(options)
    servers = [*config.servers, *(one.name for one in config.left_out)]
    found = named_tool(options.call, servers, config.names)
    if found is None or found[0] not in servers:
        told = f"{options.call!r} is no SERVER.TOOL; the servers are: {', '.join(servers)}"
        return cast("int", options.usage_error(told))
    ensure_usable(config.left_out, found[0])
    # No other server has a part in the call, and nobody asked what is wrong with one.
    alone = {"servers": {found[0]: config.servers[found[0]]}}
    config = config.with_left_out(()).model_copy(update=alone)
    result = run_loop(_called, config, setting, *found, arguments_of(options))
    for text in [json.dumps(result, indent=2)] if options.json else _texts(result):
        print(text, end="" if text.endswith("\n") else "\n")
    return 1 if result.get("isError") is True else 0


async def _called(
    config: HubConfig, setting: Setting, server: str, tool: str, arguments: JsonObject
) -> JsonObject:
    async with own_client(config, setting, "command line") as client:
        name = ServerName(server)
        await _started(client, [name])  # a server that cannot be started is told by the call
        public = client.services.names.public(name, tool)
        params: JsonObject = {"name": public, "arguments": arguments}
        try:
            return await client.request("tools/call", params)
        except RouteError as exc:
            error = exc
    raise error  # outside of the hub's task groups


def _texts(result: JsonObject) -> Iterable[str]:
    """Yield the texts of a result; other content as JSON, so that nothing is left out."""
    content = result.get("content")
    entries = content if isinstance(content, list) else []
    for entry in entries:
        text = entry.get("text") if isinstance(entry, dict) else None
        yield legible(text) if isinstance(text, str) else json.dumps(entry)
    if not entries:
        shown: Json = result.get("structuredContent", result)
        yield json.dumps(shown, indent=2)
