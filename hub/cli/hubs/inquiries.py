"""Lets `roots-hub status`, `reload` and `stop` find a hub that `roots-hub run` has started."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import structlog

from hub import __version__
from hub.app.hub import Hub
from hub.app.machine import Setting
from hub.config.reload.tightening import ReloadReport
from hub.errors import StartError
from hub.server.connection import ConnectionFactory
from hub.system.shutdown import Shutdown
from hub.system.this_process import resident
from hub.values import Json, JsonObject

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
            "config": self._hub.services.config_file.state.to_json(),
            "principals": list[Json](self._hub.usage.all_shown()),
        }


async def answer_inquiries(hub: Hub, setting: Setting, shutdown: Shutdown) -> None:
    """Answer inquiries until the shutdown begins; without a config file there are none."""
    if setting.watched is None or sys.platform == "win32":
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
