"""`roots-hub init`: a first hub.yaml for a directory, by a few questions or by options."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from hub.cli.options import Subparsers, load_context
from hub.cli.setup.importing import (
    add_writing_options,
    found_files,
    may_write,
    news,
    variables,
    written,
)
from hub.cli.terminal import agrees, answer, is_terminal
from hub.config.carrying import CarriedServer, LeftServer, carried, hub_yaml
from hub.config.clients.locations import CLIENTS, discover
from hub.confinement.confined_launch import this_kernel
from hub.errors import StartError, UsageError
from hub.launch.known_servers import FILE_SERVER
from hub.legible import legible, on_one_line

_KNOWN: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "files": (
        "Reads and writes files. ${roots}: one argument for each of the client's folders.",
        ("npx", "-y", "@modelcontextprotocol/server-filesystem", "${roots}"),
    ),
    "git": ("Git: status, diff, commit, log.", ("uvx", "mcp-server-git")),
    "fetch": ("Reads web pages.", ("uvx", "mcp-server-fetch")),
    "time": ("The time, and time zones.", ("uvx", "mcp-server-time")),
    "memory": ("Remembers what it is told.", ("npx", "-y", "@modelcontextprotocol/server-memory")),
}
"""Servers that many people begin with: what they do, and their command."""
_MODES: Final = ("off", "auto", "require")


def register(subparsers: Subparsers) -> None:
    """Add the subcommand `init`."""
    init = subparsers.add_parser(
        "init",
        help="write a first hub.yaml for this directory",
        description="Write a first hub.yaml with comments. On a terminal a few questions are "
        "asked, unless options answer them.",
    )
    init.add_argument(
        "--folder", metavar="DIR", action="append", default=[],
        help="a folder for clients that share none (repeatable; default: this directory)",
    )  # fmt: skip
    init.add_argument(
        "--server", metavar="NAME", action="append", default=[],
        help=f"a server to begin with (repeatable; default: files): {', '.join(_KNOWN)}",
    )  # fmt: skip
    init.add_argument(
        "--import", dest="imports", action="store_true", help="add the servers of your MCP clients"
    )
    init.add_argument(
        "--confine", choices=_MODES, help="whether the kernel holds the servers to the folders"
    )
    init.add_argument(
        "--output", metavar="FILE", default="hub.yaml", help="what to write (default: hub.yaml)"
    )
    init.add_argument("--force", action="store_true", help="replace FILE if it is there already")
    add_writing_options(init)
    init.set_defaults(perform=_init, with_secrets=False)


def _init(options: Namespace) -> int:
    output = Path(options.output)
    may_write(output, options)
    context = load_context()
    discovery = discover(found_files(CLIENTS), context)
    found = carried(discovery.servers, context)
    choice = _chosen(options, found.servers)
    folders = [_folder(one, output) for one in choice.folders]
    servers = [_server(name) for name in choice.servers]
    left: Sequence[LeftServer] = ()
    if choice.imports:
        names = {one.name for one in servers}
        servers += [one for one in found.servers if one.name not in names]
        left = found.left
    text = hub_yaml(output.name, servers, left, folders=folders, confine=choice.confine)
    is_written = written(output, text, options)
    if options.json:
        print(json.dumps({"output": str(output), "written": is_written, "text": text}, indent=2))
    elif options.dry_run:
        print(legible(f"Would write {output}:\n\n{text}"), end="")
    elif is_written:
        names = ", ".join(one.name for one in servers) or "no servers yet"
        print(*news(output, names, *variables(servers, discovery)), sep="\n")
    return 0 if is_written or options.dry_run else 1


class _Choice(Struct, frozen=True):
    """What the new config is to have: what the options say, else the user, else what is usual."""

    folders: list[str]
    servers: list[str]
    imports: bool
    confine: str | None


def _chosen(options: Namespace, found: Sequence[CarriedServer]) -> _Choice:
    """Return what the new config is to have; `found` are the servers of the user's clients.

    Raises: UsageError if a server is not known.
    """
    asks = is_terminal() and not (options.yes or options.json)
    folders, servers = options.folder, options.server
    imports, confine = options.imports, options.confine
    if not folders:
        question = "Which folders, for clients that share none? (several: with spaces)"
        folders = _words(answer(question, ".")) if asks else ["."]
    if not servers:
        servers = [] if imports else ["files"]
        if asks:
            question = f"Which servers of {', '.join(_KNOWN)}? (several: with spaces)"
            said = answer(question, " ".join(servers) or "none")
            servers = said.replace(",", " ").split() if said != "none" else []
    unknown = next((name for name in servers if name not in _KNOWN), None)
    if unknown is not None:
        fix = f"Name one of {', '.join(_KNOWN)}; others are written into the file by hand."
        raise UsageError(f"{on_one_line(unknown)}: is no server that init knows", fix)
    if asks and not imports and found:
        names = on_one_line(", ".join(one.name for one in found))
        imports = agrees(f"Add the servers of your clients as well: {names}?")
    if asks and confine is None and this_kernel().abi:
        question = "May the kernel hold the servers to these folders, too (confine: auto)?"
        confine = "auto" if agrees(question) else None
    return _Choice(folders, list(dict.fromkeys(servers)), imports, confine)


def _words(said: str) -> list[str]:
    """Return what was typed as words, of which quotes make one. Raises: UsageError."""
    try:
        return shlex.split(said)
    except ValueError:
        what = f"{on_one_line(said)}: a quote is not closed"
        raise UsageError(what, "Close it, or write a \\ before it.") from None


def _folder(given: str, output: Path) -> str:
    """Return a folder as the config names it: relative to the config if it was given relative.

    Raises: StartError if there is no such folder.
    """
    path = Path(os.path.expanduser(given))  # noqa: PTH111 - no error for a user who is not there
    if not given or not path.is_dir():
        raise StartError(
            f"{on_one_line(given) or '--folder'}: is no folder", "Name one that exists."
        )
    if given.startswith("~") or path.is_absolute():
        return given.replace("${", "$${")
    relative = os.path.relpath(path, output.parent)
    return relative.replace("${", "$${")


def _server(name: str) -> CarriedServer:
    """Return a known server; where there is no npx, the hub's own file server stands in."""
    about, (program, *args) = _KNOWN[name]
    if name == "files" and shutil.which(program) is None:
        program, *args = (sys.executable, "-P", "-m", FILE_SERVER, "${roots}")
    server = {"command": program, "args": args}
    return CarriedServer(name, server, (), about=about)
