"""What `run` tells: its user at the start, and then `roots-hub status`, `reload` and `stop`."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import anyio
import structlog
from msgspec import Struct

from hub import __version__
from hub.app.hub import Hub
from hub.app.machine import Setting
from hub.config.models import HubConfig
from hub.config.watch import ReloadReport
from hub.errors import StartError
from hub.legible import on_one_line
from hub.roots.effective import OperatorRoots
from hub.roots.roots import RootSet
from hub.server.connection import ConnectionFactory
from hub.system.shutdown import Shutdown
from hub.system.this_process import resident
from hub.values import Json, JsonObject


def nobody_yet(source: str | None, roots: OperatorRoots) -> str:
    """Return what a person is told who starts `run` at a terminal: whom it waits for."""
    ceiling = () if roots.ceiling is None else roots.ceiling.paths
    named = [text for path in ceiling for text in ("--root", path)]
    if source:
        named = ["--config", str(Path(source).absolute())]
    entry = {"command": "roots-hub", "args": ["run", *named]}
    config = json.dumps({"mcpServers": {"roots-hub": entry}})
    return (
        "roots-hub waits for an MCP client on stdin, which is this terminal. A client starts this "
        f"command itself; in its config:\n  {config}\nFor clients that connect to a URL: "
        "roots-hub run --http. To call a tool from here: roots-hub call. Ctrl-C ends it."
    )


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
    fixed = f"{_named(roots.ceiling)} (nothing outside it, whatever a client shares)"
    return Served(
        config=source or ("none" if is_embedded else "inline JSON"),
        servers="the embedded file server" if is_embedded else ", ".join(config.servers),
        folder=fixed if is_embedded else _folders(roots),
        rights=_rights(config),
    )


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


log = structlog.stdlib.get_logger(__name__)


class OwnHub:
    """What a hub of this process says of itself; implements `SharedHub`, but takes no clients."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    def client(
        self, environment: Mapping[str, str], directory: str, given: Sequence[str] = ()
    ) -> AbstractAsyncContextManager[ConnectionFactory]:
        raise StartError("this hub serves its own clients only", "Use `roots-hub attach`.")

    async def reload(self) -> ReloadReport:
        return await self._hub.own_watch.take_over(confirmed=True)

    def status(self) -> JsonObject:
        return {
            "children": self._hub.children_now(),
            "down": self._hub.down_now([self._hub.own]),
            "config": self._hub.services.config_file.state.to_json(),
            "principals": list[Json](self._hub.usage.all_shown()),
        }


async def answer_inquiries(hub: Hub, setting: Setting, shutdown: Shutdown) -> None:
    """Answer inquiries until the shutdown begins; without a config file there are none."""
    if setting.watched is None or sys.platform == "win32":
        return
    await anyio.sleep(1)  # no client waits for this, not even for its imports
    if shutdown.begun.is_set():
        return
    began = time.monotonic()
    from hub.attach.runtime_directory import (  # noqa: PLC0415 - not on Windows
        HubPlace,
        RuntimeDirectory,
        UnsafeDirectoryError,
        of_config,
    )
    from hub.server.attached.server import AttachServer, HubFacts  # noqa: PLC0415 - as above

    serves, _ = of_config(str(setting.watched.path), str(Path.cwd()))
    facts = HubFacts(__version__, serves, setting.log_file, began, resident)
    try:
        directory = RuntimeDirectory.opened(os.environ)
        place = HubPlace(directory, f"run-{os.getpid()}")
        server = AttachServer(OwnHub(hub), place, facts, shutdown, linger=None, takes_clients=False)
        try:
            await server.serve()
        finally:
            place.remove("key")
            directory.close()
    except (UnsafeDirectoryError, OSError) as exc:
        log.info("`roots-hub status` will not find this hub", why=str(exc))
