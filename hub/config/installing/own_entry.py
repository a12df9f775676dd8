"""The hub's entry in a client's config: what starts the hub, and how to recognise it."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, cast

from hub.config.clients.entries import read_entry
from hub.values import Json

NAME: Final = "roots-hub"
"""What the entry is called, unless the user says another name."""
_PROGRAMS: Final = frozenset({"roots-hub", "roots-hub.exe"})


def arguments(config: Path) -> list[str]:
    """Return the arguments that the hub is started with by a client."""
    return ["attach", "--config", str(config)]


def own_entry(client: str, name: str, command: Sequence[str], config: Path) -> dict[str, Json]:
    """Return the entry that starts the hub, as a client writes such an entry itself."""
    program, *before = command
    given: list[Json] = [*before, *arguments(config)]
    match client:
        case "claude-code":
            return {"type": "stdio", "command": program, "args": given, "env": {}}
        case "vscode":
            return {"type": "stdio", "command": program, "args": given}
        case "zed":
            return {"source": "custom", "command": program, "args": given, "env": {}}
        case "opencode":
            return {"type": "local", "command": [program, *given], "enabled": True}
        case "goose":
            return {
                "enabled": True,
                "type": "stdio",
                "name": name,
                "cmd": program,
                "args": given,
                "envs": {},
                "timeout": 300,
            }
        case _:
            return {"command": program, "args": given}


def argv_of(server: dict[str, Any]) -> list[str]:
    """Return the command line of a server in the hub's shape; empty if it has none."""
    args = server.get("args")
    more = cast("list[object]", args) if isinstance(args, list) else []
    return [str(one) for one in (server.get("command"), *more) if one is not None]


def hub_arguments(argv: Sequence[str]) -> list[str] | None:
    """Return what follows the hub's program in a command line; None if it does not start the hub.

    Recognised are `roots-hub`, `python -m hub`, and both behind a runner such as uvx.
    """
    for at, word in enumerate(argv):
        program = re.split(r"[\\/]", word)[-1].removesuffix(".exe")
        if re.split(r"[@=<>~!\[]", program)[0] == NAME and argv[at + 1 : at + 2] != [NAME]:
            return list(argv[at + 1 :])
        if word == "-m" and list(argv[at + 1 : at + 2]) == ["hub"]:
            return list(argv[at + 2 :])
        if word == "--":
            return None
    return None


def is_hub(raw: object) -> bool:
    """Return whether an entry of a client's config starts the hub with a config of its own."""
    found = hub_arguments(argv_of(read_entry(raw).server))
    return found is not None and found[:1] in (["run"], ["attach"], [])


def hub_command(
    argv0: str | None = None, prefix: str | None = None, python: str = sys.executable
) -> list[str]:
    """Return the command of the hub that runs now, for a client that has another PATH.

    That is the absolute path of `roots-hub`; for one that uvx has made for this run alone, uvx;
    else this Python with `-m hub`.
    """
    program = sys.argv[0] if argv0 is None else argv0
    place = Path(sys.prefix if prefix is None else prefix)
    if {"uv", "archive-v0"} <= set(place.parts) or "environments-v2" in place.parts:
        return [shutil.which("uvx") or "uvx", "roots-hub"]
    beside = Path(python).parent / "roots-hub"
    for found in (program, str(beside), shutil.which("roots-hub")):
        if found and Path(found).name in _PROGRAMS and Path(found).is_file():
            return [str(Path(found).absolute())]
    return [python, "-m", "hub"]
