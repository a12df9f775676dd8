"""What `run` tells its user at the start: config, servers, folders and rights."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from hub.config.models import HubConfig
from hub.legible import on_one_line
from hub.roots.effective import OperatorRoots
from hub.roots.roots import RootSet


def nobody_yet(source: str | None, roots: OperatorRoots) -> str:
    """Return what a person is told who starts `run` at a terminal: whom it waits for."""
    named = ["--config", str(Path(source).absolute())] if source else _root_options(roots)
    entry = {"command": "roots-hub", "args": ["run", *named]}
    config = json.dumps({"mcpServers": {"roots-hub": entry}})
    return (
        "roots-hub waits for an MCP client on stdin, which is this terminal. A client starts this "
        f"command itself; in its config:\n  {config}\nFor clients that connect to a URL: "
        "roots-hub run --http. To call a tool from here: roots-hub call. Ctrl-C ends it."
    )


def _root_options(roots: OperatorRoots) -> list[str]:
    paths = () if roots.ceiling is None else roots.ceiling.paths
    return [text for path in paths for text in ("--root", path)]


class Served(Struct, frozen=True):
    """What is served, each as a text."""

    config: str
    servers: str
    folder: str
    rights: str

    def lines(self) -> list[str]:
        """Return a line for each text, with its name."""
        told = ((name, getattr(self, name)) for name in self.__struct_fields__)
        return [on_one_line(f"  {name:<9}{text}") for name, text in told]


def served(
    config: HubConfig, roots: OperatorRoots, source: str | None, *, is_embedded: bool
) -> Served:
    """Return what a hub with this config and these roots serves; `source` is the config's name."""
    return Served(
        config=source or ("none" if is_embedded else "inline JSON"),
        servers="the embedded file server" if is_embedded else ", ".join(config.servers),
        folder=_fixed(roots) if is_embedded else _folders(roots),
        rights=_rights(config),
    )


def _fixed(roots: OperatorRoots) -> str:
    return f"{_named(roots.ceiling)} (nothing outside it, whatever a client shares)"


def _folders(roots: OperatorRoots) -> str:
    within = "" if roots.ceiling is None else f", inside {_named(roots.ceiling)}"
    if roots.fallback is not None:
        without = f"{_named(roots.fallback)} ({roots.fallback_source})"
    elif roots.when_missing == "deny":
        without = "nothing"
    else:
        without = "not restricted" if roots.ceiling is None else _named(roots.ceiling)
    return f"what each client shares{within}; for clients that share none: {without}"


def _named(roots: RootSet | None) -> str:
    return ", ".join(roots.paths) or "nothing" if roots is not None else "nothing"


def _rights(config: HubConfig) -> str:
    told = ["read and write"]
    for access, only in (("read", "only read below"), ("write", "write again below")):
        told += _list(only, [one.path for one in config.roots.access if one.access == access])
    modes = {name: config.guard_of(name).mode for name in config.servers}
    for mode, what in (("report", "paths outside are only REPORTED by"), ("off", "NOT guarded:")):
        told += _list(what, [name for name, own in modes.items() if own == mode])
    return "; ".join(told)


def _list(what: str, names: Sequence[str]) -> list[str]:
    return [f"{what} {', '.join(names)}"] if names else []
