"""Watch the config file while the hub runs, and take over its changes."""

from __future__ import annotations

import stat
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

import anyio
import anyio.to_thread
import structlog
from msgspec import Struct
from msgspec.structs import replace

from hub.config.fields import LoadContext
from hub.config.listening.listen import has_unread
from hub.config.load import Loaded, let_in_by, load_config
from hub.config.models import HubConfig
from hub.config.records import TrustRecord, digest_of
from hub.config.reload.tightening import WaitingKey, config_change, without_revoked
from hub.config.reload.writable import PathLookup, WritablePlace
from hub.config.source.documents import MAX_BYTES
from hub.errors import ConfigError, Fault, HubError, StartError
from hub.legible import on_one_line
from hub.sessions.operator import ConfigFile, ConfigState
from hub.system.atomic_file import Look, look

EVERY = 0.5
"""Seconds between checks of the file. A change is applied once two checks see the same file."""
_LARGEST: Final = max(MAX_BYTES.values())
UNTRUSTED: Final = "you have not agreed to this text of the file yet"


MOST_FAULTS = 3
"""So many mistakes of a file are told in its state; the log has all."""


class ReloadReport(Struct, frozen=True):
    """What a reload took over, what waits for the user (and `because` of what), and what failed.

    `error`: why nothing was taken over, but that tokens or issuers were taken out. `file` is the
    name of the config. `earlier` was taken over by the reload before: a hub may notice a change
    before the user asks. `is_in_force`: there is a client that it is in force for.
    """

    file: str | None = None
    taken: tuple[str, ...] = ()
    waiting: tuple[WaitingKey, ...] = ()
    restart: tuple[str, ...] = ()
    error: str | None = None
    because: str | None = None
    earlier: tuple[str, ...] = ()
    is_in_force: bool = True

    def lines(self) -> list[str]:
        """Return the report as lines for a terminal."""
        if self.error is not None:
            what = "Nothing was taken over: the config that was in force stays."
            if self.taken:
                what = f"Taken over: what is taken out of {', '.join(self.taken)}; nothing else."
            return [what, *self.error.splitlines()]
        return [on_one_line(line) for line in self._lines()]

    def _lines(self) -> Iterator[str]:
        if not self.is_in_force:
            yield f"No client is there: the next one gets {self.file} as it is then."
            return
        if self.taken:
            yield f"Taken over from {self.file}: {', '.join(self.taken)}"
        if self.waiting:
            yield f"Waiting for `roots-hub reload`, as {self.because}:"
            yield from (f"  {one.key}: {one.why}" for one in self.waiting)
        if self.restart:
            yield f"After a restart of the hub: {', '.join(self.restart)}"
        if not (self.taken or self.waiting or self.restart):
            yield f"{self.file} has nothing new."
            if self.earlier:
                yield f"Taken over before: {', '.join(self.earlier)}"

    def state(self) -> ConfigState:
        """Return the state of the config file after a reload without error."""
        waiting = tuple(one.key for one in self.waiting)
        return ConfigState(self.file, None, waiting, self.restart)


def faults_of(error: HubError) -> tuple[Fault, ...]:
    """Return the mistakes that an error names, with remedies."""
    if isinstance(error, ConfigError):
        return error.faults
    if isinstance(error, StartError):
        return (Fault("", error.what, error.fix),)
    what, _, fix = str(error).partition("\n")
    return (Fault("", what, fix),)


def told(faults: tuple[Fault, ...]) -> str:
    """Return the first mistakes as sentences, without the lines of the file."""
    sentences = [on_one_line(f"{one.said}. {one.fix}") for one in faults[:MOST_FAULTS]]
    if len(faults) > MOST_FAULTS:
        sentences.append(f"And {len(faults) - MOST_FAULTS} more.")
    return " ".join(sentences)


NO_FILE: Final = ReloadReport(error="there is no config file\nStart the hub with --config.")

log = structlog.stdlib.get_logger(__name__)

Take: TypeAlias = Callable[[HubConfig], Awaitable[None]]
"""Has the running hub work with a config. Raises HubError, and changes nothing, if it cannot."""


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


class WritableBy(Struct, frozen=True):
    """What tells who may write the config.

    `file` knows which folders clients were granted, `places` returns what calls and children may
    write now. `trust` is the record of the files that the user has agreed to; it counts for a file
    that `run` has found itself.
    """

    file: ConfigFile
    lookup: PathLookup
    places: Callable[[], Iterable[WritablePlace]]
    trust: TrustRecord


@asynccontextmanager
async def watching(
    watch: ConfigWatch, asked: Callable[[], Awaitable[None]]
) -> AsyncGenerator[None]:
    """Take over the changes of a file while the context is open.

    `asked` returns each time that the user asks to reload.
    """
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch.run)
        tasks.start_soon(watch.reload_when, asked)
        yield
        tasks.cancel_scope.cancel()


class ConfigWatch:
    """Watches one config file for a hub that was started with the config `running`.

    `watched` None: there is no file. A file that does not load changes nothing. What is known of
    the file is in `file`, for others to read.
    """

    def __init__(
        self, watched: Watched | None, running: HubConfig, take: Take, writable_by: WritableBy
    ) -> None:
        self._watched = watched
        self._running = running
        self._take = take
        self.file = writable_by.file
        self._writable_by = writable_by
        self._problem: tuple[Fault, ...] = ()
        self._last_taken: tuple[str, ...] = ()
        self._revoked: tuple[str, ...] = ()
        self._loading = anyio.Lock()

    async def reload_when(self, asked: Callable[[], Awaitable[None]]) -> None:
        """Take the file over, as the user's word, each time that `asked` returns."""
        while True:
            await asked()
            log.info(
                "asked to reload", config=None if self._watched is None else self._watched.source
            )
            await self.take_over(confirmed=True)

    async def run(self) -> None:
        """Check the file until cancelled."""
        watched = self._watched
        if watched is None or (watched.seen is not None and not _is_file(watched.seen)):
            return  # a pipe gives its content once
        taken = before = watched.seen
        while True:
            await anyio.sleep(EVERY)
            now = watched.look()
            # A file that is still being written may be incomplete.
            if now != taken and now == before:
                taken = now
                await self.take_over()
            before = now

    async def take_over(self, *, confirmed: bool = False) -> ReloadReport:
        """Load the file and take over what has changed; the report says what.

        `confirmed`: the user wants this. Without it, what loosens waits where calls or children may
        write the file.
        """
        if self._watched is None:
            log.warning("nothing to reload: there is no config file")
            return NO_FILE
        async with self._loading:
            try:
                return await self._take_over(self._watched, confirmed=confirmed)
            except HubError as exc:
                error = exc
            except Exception:
                # No content of the file may end a running hub.
                log.exception("config not reloaded", config=self._watched.source)
                error = StartError("an error in the hub itself", "Its log has more.")
            revoked = await self._revoke(self._watched)
            return self._failed(self._watched.source, error, revoked, confirmed=confirmed)

    async def _take_over(self, watched: Watched, *, confirmed: bool) -> ReloadReport:
        loaded, digest, again = await anyio.to_thread.run_sync(_read, watched)
        why_waits = None if confirmed else await self._why_waits(watched, digest)
        if again is not None and why_waits is None:
            loaded = await anyio.to_thread.run_sync(load_config, watched.source, again)
        split = partial(
            config_change,
            self._running,
            loaded.config,
            only_tightens=why_waits is not None,
            locate=self._writable_by.lookup.parts,
        )
        change = await anyio.to_thread.run_sync(split)  # it looks at the disk
        if change.taken or confirmed:  # the user may have made a folder anew
            await self._take(change.config)
        if confirmed:
            self._trust(watched, digest)
        because = why_waits if change.waiting else None
        report = ReloadReport(
            watched.source,
            change.taken,
            change.waiting,
            change.restart,
            because=because,
            earlier=self._last_taken,
        )
        before, self.file.state = self.file.state, report.state()
        self._running = change.config
        if change.taken:
            self._last_taken = change.taken
            for warning in loaded.warnings:
                log.warning(warning)
        self._tell(report, before, confirmed=confirmed)
        self._problem = self._revoked = ()
        return report

    async def _why_waits(self, watched: Watched, digest: str | None) -> str | None:
        """Return why what loosens waits for the user; None if it need not.

        The file has been read before: whoever wrote it had been granted its place by then.
        """
        by = self._writable_by
        if digest is not None and not self._is_trusted(watched, digest):
            return UNTRUSTED
        if self.file.is_overflowing:
            return "clients have shared more folders than the hub remembers"
        path, places = str(watched.path), [*by.places()]
        return await anyio.to_thread.run_sync(by.lookup.why_writable, path, places)

    def _is_trusted(self, watched: Watched, digest: str) -> bool:
        return digest == watched.context.digest or self._writable_by.trust.has(watched.path, digest)

    def _trust(self, watched: Watched, digest: str | None) -> None:
        if digest is None:
            return
        try:
            self._writable_by.trust.add(watched.path, digest)
        except StartError as exc:
            log.warning("the next start will ask about this config again", reason=exc.what)

    async def _revoke(self, watched: Watched) -> tuple[str, ...]:
        """Let in nobody whom a file takes out that is wrong elsewhere; return the keys."""
        try:
            said = await anyio.to_thread.run_sync(_let_in_by, watched)
            change = without_revoked(self._running, said)
            if change.taken:
                await self._take(change.config)
        except Exception as exc:
            if not isinstance(exc, HubError):  # the file's own mistakes are told
                log.exception("tokens not taken out", config=watched.source)
            return ()
        self._running = change.config
        return change.taken

    def _failed(
        self, source: str, error: HubError, revoked: tuple[str, ...], *, confirmed: bool
    ) -> ReloadReport:
        faults = faults_of(error)
        if confirmed or faults != self._problem:
            for one in faults:
                log.error(
                    "config not reloaded: the old one stays",
                    where=one.where,
                    what=one.what,
                    fix=one.fix,
                )
        if revoked:
            what = "tokens are out that the config takes out: the rest of it is not taken over"
            log.warning(what, config=source, keys=[*revoked])
        self._problem = faults
        self._revoked = self._revoked or revoked  # the user may ask after the hub has noticed
        self.file.state = ConfigState(source, told(faults))
        return ReloadReport(source, self._revoked, error=str(error))

    def _tell(self, report: ReloadReport, before: ConfigState, *, confirmed: bool) -> None:
        source = report.file
        if report.taken or confirmed:
            log.info("config reloaded", config=source, keys=[*report.taken])
        elif self._problem:
            log.info("config is in order again", config=source)
        for one in report.waiting:
            if one.key not in before.waiting:
                log.warning(
                    "config changed: this waits for `roots-hub reload`",
                    config=source,
                    key=one.key,
                    why=one.why,
                    because=report.because,
                )
        if set(report.restart) - set(before.restart):
            log.warning("config changed: needs a restart", config=source, keys=[*report.restart])


def _read(watched: Watched) -> tuple[Loaded, str | None, LoadContext | None]:
    """Return the config, and the hash of its text if that had to be trusted at the start.

    Nothing that the file names is run, as calls may have written it. To have that run, load the
    same text again with the returned context; None if there is nothing to run.

    Raises: ConfigError.
    """
    source, context, seen = watched.source, watched.context, watched.look()
    if seen is not None and not _is_file(seen):
        what = "is a directory" if stat.S_ISDIR(seen[-1]) else "is not a file"
        raise ConfigError(source, what, "Put the config back in its place.")
    is_plain = context.digest is None and not context.reads_secrets
    if is_plain or seen is None or seen[2] > _LARGEST:
        return load_config(source, replace(context, reads_secrets=False)), None, None
    digest = digest_of(watched.path)
    again = replace(context, digest=digest)
    loaded = load_config(source, replace(again, reads_secrets=False))
    trusted = None if context.digest is None else digest
    is_whole = not context.reads_secrets or not has_unread(loaded.config.listen)
    return loaded, trusted, None if is_whole else again


def _let_in_by(watched: Watched) -> dict[str, Any]:
    """Return the keys that say who is let in, of a file that is wrong elsewhere.

    Raises: ConfigError.
    """
    seen = watched.look()
    if seen is None or not _is_file(seen):
        return {}
    return let_in_by(watched.source, replace(watched.context, reads_secrets=False))


def _is_file(seen: Look) -> bool:
    return stat.S_ISREG(seen[-1])
