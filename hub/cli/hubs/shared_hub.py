"""The program of a shared hub: started by `attach`, serves all that attach to it, ends by itself.

Run as `python -P shared_hub.py --directory DIR --name NAME --config FILE` (or `--command COMMAND
ARGS...`). On descriptor 3 it says that it is ready, or why it is not.
"""

from __future__ import annotations

import os
import sys

if __name__ == "__main__":
    # The package that this file belongs to, whatever else is called `hub`.
    above = os.path.abspath(__file__)  # noqa: PTH100
    for _ in range(4):
        above = os.path.dirname(above)  # noqa: PTH120
    sys.path.insert(0, above)
    __import__("hub")  # found now, so not looked for again

    del sys.path[0]

from hub.cli.command_line import lean

with lean():
    import shlex
    import time
    from argparse import REMAINDER, ArgumentParser, Namespace
    from collections.abc import AsyncGenerator, Mapping, Sequence
    from contextlib import asynccontextmanager
    from functools import partial
    from pathlib import Path
    from typing import Final

    import anyio
    import structlog
    from anyio import to_thread
    from msgspec.structs import replace

    from hub import __version__
    from hub.app.hub import Hub, View
    from hub.app.machine import Setting, this_machine
    from hub.app.running import ConnectionBuilder, open_hub
    from hub.attach.lifeline import NotAttachedError, ask
    from hub.attach.runtime_directory import HubPlace, RuntimeDirectory, have_same_source
    from hub.attach.start import HELD, READY, READY_DESCRIPTOR
    from hub.cli.options import LogFile
    from hub.config.fields import LoadContext
    from hub.config.load import config_from_command, load_config
    from hub.config.models import HubConfig
    from hub.config.watch import NO_FILE, ConfigWatch, ReloadReport, Watched, watching
    from hub.errors import HubError, leaves
    from hub.server.attached.client_streams import RelayedLog
    from hub.server.attached.server import AttachServer, HubFacts
    from hub.server.connection import ConnectionFactory
    from hub.system.log import ThreadedLog, configure_logs
    from hub.system.machine import STATE, Machine, own_directory
    from hub.system.private_file import is_locked
    from hub.system.shutdown import Shutdown, ended_by_signals, ignore_ending_signals
    from hub.system.this_process import resident, run_loop
    from hub.values import JsonObject

log = structlog.stdlib.get_logger(__name__)

LARGEST: Final = 4 * 1024 * 1024
"""Bytes after which the log is moved aside; one such older file is kept."""


class ViewOfEach:
    """Gives each client a view of the config with its environment; implements `SharedHub`.

    `linger` is what the newest view says.
    """

    def __init__(self, hub: Hub, machine: Machine, setting: Setting, options: Namespace) -> None:
        self._hub = hub
        self._machine = machine
        self._setting = setting
        self._options = options
        self._views: dict[View, ConfigWatch] = {}
        self._config = HubConfig(version=1)

    def linger(self) -> float:
        """Return for how many seconds the hub goes on without clients."""
        newest = next(reversed(self._views), None)
        if newest is not None:
            self._config = newest.config
        return self._config.linger

    @asynccontextmanager
    async def client(
        self, environment: Mapping[str, str], directory: str, given: Sequence[str] = ()
    ) -> AsyncGenerator[ConnectionFactory]:
        file, watched = self._options.config, None
        if file is not None:
            watched = Watched.now(file, _context(self._options, environment))
        config = await to_thread.run_sync(_loaded, self._options, environment)
        setting = replace(
            self._setting, watched=watched, given=given, is_for_one=True, shared_by=self._machine
        )
        machine = replace(self._machine, environment=environment, directory=directory)
        view = await self._hub.view(config, setting, machine)
        watch = self._views[view] = self._hub.watch(view)
        try:
            async with watching(watch, anyio.sleep_forever):
                yield ConnectionBuilder(view.services)
        finally:
            self.linger()
            del self._views[view]

    async def reload(self) -> ReloadReport:
        """Take the config over for each client; report what went wrong, else what was new."""
        reports = [await watch.take_over(confirmed=True) for watch in list(self._views.values())]
        wrong = [one for one in reports if one.error is not None]
        new = [one for one in reports if one.taken or one.restart]
        if reports:
            return next(iter((*wrong, *new, *reports)))
        return await to_thread.run_sync(self._for_the_next_client)

    def _for_the_next_client(self) -> ReloadReport:
        """Say what the next client will find: without clients no config is in force."""
        if self._options.config is None:
            return NO_FILE
        try:
            _loaded(self._options, self._machine.environment)
        except HubError as exc:
            return ReloadReport(self._options.config, error=str(exc))
        return ReloadReport(self._options.config, is_in_force=False)

    def status(self) -> JsonObject:
        state = next((view.services.config_file.state for view in self._views), None)
        return {
            "children": self._hub.children_now(),
            "down": self._hub.down_now(self._views),
            "config": None if state is None else state.to_json(),
        }


def main(arguments: Sequence[str]) -> int:
    """Run the hub, unless another one holds its place already; return the exit code."""
    os.set_inheritable(READY_DESCRIPTOR, False)
    options = _parser().parse_args(arguments)
    place = HubPlace(RuntimeDirectory.at(options.directory), options.name)
    lock = place.open_lock("lock")
    if not is_locked(lock):  # it is held as long as the hub serves
        _say(HELD)
        return 0
    try:
        directory = Path(own_directory(os.environ, *STATE))
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        written = LogFile(directory / f"hub-{place.name}.log", largest=LARGEST)
        written.take_stderr()
        configure_logs("text", "info", ThreadedLog(written.write), file=RelayedLog())
        run_loop(_serve, Setting(log_file=str(written.path)), options, place, lock)
    except (HubError, OSError, BaseExceptionGroup) as exc:
        known = [one for one in leaves(exc) if isinstance(one, HubError | OSError)]
        if not known:
            raise
        _say(str(known[0]).encode("utf-8", "replace"))
        log.error("the hub has not started", why=str(known[0]))  # noqa: TRY400 - no bug, so no traceback
        return 1
    return 0


def _parser() -> ArgumentParser:
    parser = ArgumentParser(prog="roots-hub (shared)")
    parser.add_argument("--directory", required=True)
    parser.add_argument("--name", required=True)
    served = parser.add_mutually_exclusive_group(required=True)
    served.add_argument("--config")
    served.add_argument("--command", nargs=REMAINDER)
    return parser


def _context(options: Namespace, environment: Mapping[str, str]) -> LoadContext:
    file = options.config
    directory = Path.cwd() if file is None else Path(file).parent
    return LoadContext(directory, str(Path.home()), dict(environment), None)


def _loaded(options: Namespace, environment: Mapping[str, str]) -> HubConfig:
    """Return the config as it is with the variables of an environment. Raises: ConfigError."""
    context = _context(options, environment)
    if options.config is None:
        return config_from_command(options.command, context, environment="all")
    loaded = load_config(options.config, context)
    for warning in loaded.warnings:
        log.warning(warning)
    return loaded.config


async def _serve(setting: Setting, options: Namespace, place: HubPlace, lock: int) -> None:
    serves = options.config or shlex.join(options.command)
    facts = HubFacts(__version__, serves, setting.log_file, time.monotonic(), resident)
    # No client's terminal is this process's, so a SIGHUP asks to reload.
    machine = this_machine(dict(os.environ))
    async with (
        ended_by_signals(reloads=True) as shutdown,
        open_hub(machine, shutdown) as hub,
        anyio.create_task_group() as tasks,
    ):
        served = ViewOfEach(hub, machine, setting, options)
        tasks.start_soon(_reload_when_asked, served, shutdown)
        server = AttachServer(served, place, facts, shutdown, linger=served.linger)
        log.info("serving attached clients", serves=serves, version=__version__)
        await server.serve(partial(_began, place))
        os.close(lock)  # another hub may start while this one ends its servers
        tasks.cancel_scope.cancel()
    ignore_ending_signals()


async def _reload_when_asked(served: ViewOfEach, shutdown: Shutdown) -> None:
    while True:
        await shutdown.asked_to_reload()
        await served.reload()


def _began(place: HubPlace) -> None:
    _say(READY)
    others = [
        name
        for name in place.directory.names()
        if name != place.name and have_same_source(name, place.name)
    ]
    for name in others:
        from threading import Thread  # noqa: PLC0415 - seldom needed

        other = HubPlace(place.directory, name)
        Thread(target=_retire, args=(other,), daemon=True).start()


def _retire(place: HubPlace) -> None:
    """Let a hub of another version end once it has no clients."""
    try:
        ask(place, "retire", __version__)
    except (NotAttachedError, OSError) as exc:
        log.warning("the hub of another version goes on", why=str(exc))


def _say(text: bytes) -> None:
    """Tell the process that started this one; it waits for the end of the pipe."""
    try:
        os.write(READY_DESCRIPTOR, text)
        os.close(READY_DESCRIPTOR)
    except OSError:
        return


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
