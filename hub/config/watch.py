"""Watch the config file and apply changed roots while the hub runs; other keys need a restart."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, TypeAlias

import anyio
import anyio.to_thread
import structlog
from msgspec import Struct

from hub.config.fields import LoadContext
from hub.config.load import load_config
from hub.config.models import HubConfig, Roots
from hub.errors import HubError
from hub.roots.effective import OperatorRoots
from hub.sessions.operator_roots import Operator
from hub.system.atomic_file import Look, look

EVERY = 0.5
"""Seconds between checks of the file. A change is applied once two checks see the same file."""
LIVE: Final = frozenset({"fallback", "ceiling", "detect", "when_missing", "when_empty", "strict"})
"""Keys of `roots` that a running hub applies."""

log = structlog.stdlib.get_logger(__name__)

RootsOf: TypeAlias = Callable[[Roots], OperatorRoots]


class Watched(Struct, frozen=True):
    """A config file, and its state (`Look`) before it was loaded."""

    source: str
    context: LoadContext
    seen: Look | None

    @staticmethod
    def now(source: str, context: LoadContext) -> Watched:
        """Return the file with its state now."""
        return Watched(source, context, look(context.directory / source))

    def look(self) -> Look | None:
        return look(self.path)

    @property
    def path(self) -> Path:
        """The file's path."""
        return self.context.directory / self.source


@asynccontextmanager
async def watching(
    watched: Watched | None,
    running: HubConfig,
    roots_of: RootsOf,
    operator: Operator,
    asked: Callable[[], Awaitable[None]],
) -> AsyncGenerator[None]:
    """Update `operator` from the file while the context is open. `watched` None: there is none.

    Each time that `asked` returns, the file is loaded, changed or not.
    """
    async with anyio.create_task_group() as tasks:
        if watched is None:
            tasks.start_soon(_nothing_to_reload, asked)
        else:
            watch = ConfigWatch(watched, running, roots_of, operator)
            tasks.start_soon(watch.run)
            tasks.start_soon(watch.reload_when, asked)
        yield
        tasks.cancel_scope.cancel()


async def _nothing_to_reload(asked: Callable[[], Awaitable[None]]) -> None:
    while True:
        await asked()
        log.warning("nothing to reload: there is no config file")


class ConfigWatch:
    """Watches one config file. A file that does not load changes nothing."""

    def __init__(
        self, watched: Watched, running: HubConfig, roots_of: RootsOf, operator: Operator
    ) -> None:
        self._watched = watched
        self._running = running
        self._latest = running
        self._roots_of = roots_of
        self._operator = operator
        self._loading = anyio.Lock()

    async def reload_when(self, asked: Callable[[], Awaitable[None]]) -> None:
        """Load the file each time that `asked` returns, until cancelled."""
        while True:
            await asked()
            log.info("asked to reload", config=self._watched.source)
            await self.take_over()

    async def run(self) -> None:
        """Check the file until cancelled."""
        taken = before = self._watched.seen
        while True:
            await anyio.sleep(EVERY)
            now = self._watched.look()
            # A file that is still being written may be incomplete.
            if now != taken and now == before:
                taken = now
                await self.take_over()
            before = now

    async def take_over(self) -> None:
        """Load the file and apply its roots. A file that does not load is only logged."""
        async with self._loading:
            await self._take_over()

    async def _take_over(self) -> None:
        source = self._watched.source
        try:
            config, roots = await anyio.to_thread.run_sync(self._load)
        except HubError as exc:
            where, _, fix = str(exc).partition("\n")
            log.error("config not reloaded: the old roots stay", where=where, fix=fix)  # noqa: TRY400 - a mistake in the file needs no traceback
            return
        except Exception:
            # No content of the file may end a running hub.
            log.exception("config not reloaded: the old roots stay", config=source)
            return
        latest, self._latest = self._latest, config
        waiting = needs_restart(self._running, config)
        if set(waiting) & set(needs_restart(latest, config)):
            log.warning("config changed: needs a restart", config=source, keys=waiting)
        if roots is not None:
            self._operator.take(roots)
            _tell(source, latest.roots, config.roots, roots)

    def _load(self) -> tuple[HubConfig, OperatorRoots | None]:
        config = load_config(self._watched.source, self._watched.context).config
        same = all(_same(self._latest.roots, config.roots, key) for key in LIVE)
        return config, None if same else self._roots_of(config.roots)


def needs_restart(old: HubConfig, new: HubConfig) -> list[str]:
    """Return the changed keys that a running hub does not apply."""
    keys = [key for key in HubConfig.model_fields if key not in {"roots", "servers"}]
    changed = [key for key in keys if not _same(old, new, key)]
    changed += [
        f"roots.{key}"
        for key in Roots.model_fields
        if key not in LIVE and not _same(old.roots, new.roots, key)
    ]
    servers = dict.fromkeys((*old.servers, *new.servers))
    return changed + [
        f"servers.{name}" for name in servers if old.servers.get(name) != new.servers.get(name)
    ]


def _same(old: object, new: object, key: str) -> bool:
    return getattr(old, key) == getattr(new, key)


def _tell(source: str, old: Roots, new: Roots, roots: OperatorRoots) -> None:
    log.info(
        "roots reloaded from the config",
        config=source,
        fallback=None if roots.fallback is None else list(roots.fallback.paths),
        ceiling=None if roots.ceiling is None else list(roots.ceiling.paths),
    )
    if roots.fallback_source in {"--root", "HUB_ROOTS"} and old.fallback != new.fallback:
        log.warning("roots.fallback has no effect", before_it=roots.fallback_source)
