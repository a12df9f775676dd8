"""`roots-hub status`, `reload` and `stop`: ask the user's running hubs."""

from __future__ import annotations

import json
import os
import sys
from argparse import Namespace
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, cast

from msgspec import Struct

from hub import __version__
from hub.cli.options import Subparsers, add_config_option
from hub.cli.terminal import aligned
from hub.config.load import config_source
from hub.config.source.documents import is_inline
from hub.errors import StartError
from hub.legible import legible, on_one_line
from hub.values import Json, JsonObject, object_or_empty

if TYPE_CHECKING:
    from hub.attach.runtime_directory import HubPlace

_UNITS = ((86400, "d"), (3600, "h"), (60, "min"))


def register(subparsers: Subparsers) -> None:
    """Add the subcommands `status`, `reload` and `stop`."""
    status = subparsers.add_parser(
        "status",
        help="show running hubs, their clients and servers",
        description="Show the hubs of this user, their clients and their running servers.",
    )
    status.add_argument("--config", metavar="FILE", help="only the hubs of this config")
    status.add_argument("--json", action="store_true", help="print JSON")
    status.set_defaults(perform=_status)
    reload = subparsers.add_parser(
        "reload",
        help="have a running hub take its changed config over",
        description="Have a running hub, or all of one config, take their changed config over, and "
        "print what they say.",
    )
    add_config_option(reload)
    reload.set_defaults(perform=_reload)
    stop = subparsers.add_parser(
        "stop",
        help="end a running hub with its servers",
        description="End a running hub, or all of one config, with their servers. Clients see "
        "their server end.",
    )
    add_config_option(stop)
    stop.add_argument("--all", action="store_true", help="end all hubs of this user")
    stop.set_defaults(perform=_stop)


class RunningHub(Struct, frozen=True):
    """A hub that answers: its place, and what it said of itself."""

    place: HubPlace
    said: JsonObject

    @property
    def serves(self) -> str:
        """The path of its config, or its command, for people."""
        return on_one_line(str(self.said.get("serves")))

    def ask(self, kind: str, *, until_end: bool = False) -> JsonObject:
        """Return its answer; empty if it has ended meanwhile."""
        return _asked(self.place, kind, until_end=until_end) or {}


def _asked(place: HubPlace, kind: str, *, until_end: bool = False) -> JsonObject | None:
    """Return a hub's answer; None if it does not run. Raises: StartError if it does not answer."""
    from hub.attach.lifeline import NotAttachedError, ask  # noqa: PLC0415 - not on Windows

    try:
        return cast("JsonObject | None", ask(place, kind, __version__, until_end=until_end))
    except (NotAttachedError, OSError) as exc:
        raise StartError(
            f"the hub {place.name} in {place.directory.path}: {exc}",
            "Try again. If that does not help, `roots-hub doctor` says what does.",
        ) from exc


def _running(config: str | None) -> tuple[list[RunningHub], list[StartError]]:
    """Return the hubs that run, with a config only those that serve it; and who does not answer.

    Raises: StartError if none can be found.
    """
    if sys.platform == "win32":
        return [], []
    from hub.attach.runtime_directory import (  # noqa: PLC0415 - not on Windows
        HubPlace,
        RuntimeDirectory,
        UnsafeDirectoryError,
        of_config,
    )

    try:
        RuntimeDirectory.opened(os.environ).close()
    except UnsafeDirectoryError as exc:
        raise StartError(f"no hub can be found: {exc}", "Make the directory yours alone.") from exc
    wanted = None if config is None else of_config(config, str(Path.cwd()))[0]
    found: list[RunningHub] = []
    silent: list[StartError] = []
    for place in (
        HubPlace(directory, name)
        for directory in RuntimeDirectory.existing(os.environ)
        for name in directory.names()
    ):
        try:
            said = _asked(place, "status")
        except StartError as error:
            silent.append(error)
            continue
        if said is None and place.name.startswith("run-"):
            place.remove("sock")  # its process was killed, and no other hub has this name
            place.remove("key")
        if said is not None and (wanted is None or wanted == said.get("serves")):
            found.append(RunningHub(place, said))
    return found, silent


def _meant(options: Namespace) -> list[RunningHub]:
    """Return the hubs of the config that is meant: several after an update, or beside `run`.

    One of them may not answer, unless the config is named.

    Raises: StartError if it is not certain which config is meant, or no hub serves it.
    """
    config = config_source(options.config, os.environ)
    found, silent = _running(config)
    if silent and not (found and config):
        raise silent[0]
    if not found:
        which = "" if config is None or is_inline(config) else f" for {config}"
        raise StartError(
            f"no hub is running{which}",
            "`roots-hub status` lists those that run; `run` and `attach` start one.",
        )
    configs = list(dict.fromkeys(one.serves for one in found))
    if len(configs) > 1:
        named = "\n".join(f"  --config {one}" for one in configs)
        raise StartError(f"{len(found)} hubs are running", f"Name one of them:\n{named}")
    return found


def _status(options: Namespace) -> int:
    running, silent = _running(config_source(options.config, {}))
    found = [one.said for one in running]
    if options.json:
        print(json.dumps({"hubs": found}, indent=2))
    elif found or not silent:
        print("\n\n".join("\n".join(lines_of(one)) for one in found) or "no hub is running")
    for error in silent:
        print(f"roots-hub: {legible(str(error))}", file=sys.stderr)
    return 1 if silent else 0


def _reload(options: Namespace) -> int:
    taken = [_reloaded(hub) for hub in _meant(options)]
    return 0 if all(taken) else 1


def _reloaded(hub: RunningHub) -> bool:
    """Have a hub take its config over, show what it says, and return whether it did."""
    said = hub.ask("reload")
    lines = said.get("lines")
    # The hub names its config as it was started with it, perhaps in another directory.
    shown = map(str, lines if isinstance(lines, list) else ())
    print(f"{hub.serves}:", *map(on_one_line, shown), sep="\n")
    return bool(said.get("ok", True))


def _stop(options: Namespace) -> int:
    found, silent = _running(None) if options.all else (_meant(options), [])
    for one in found:
        one.ask("stop", until_end=True)
        print(f"stopped: {one.serves} (process {one.said.get('pid')})")
    if silent:
        raise silent[0]
    if not found:
        print("no hub is running")
    return 0


# The table


def lines_of(said: JsonObject) -> list[str]:
    """Return what a hub said of itself, for people."""
    clients, children = _rows(said.get("clients")), _rows(said.get("children"))
    has_own = said.get("clients", ()) is None  # they do not attach
    counted = "not counted, as `run` started it" if has_own else len(clients)
    lines = [
        f"{said.get('serves')}",
        f"  process {said.get('pid')}, roots-hub {said.get('version')}, up "
        f"{_time(said.get('uptime'))}, {_size(said.get('memory'))}",
        f"  log: {said.get('log') or 'its stderr'}",
        *_of_config(object_or_empty(said.get("config"))),
        f"  clients: {counted}",
        *(f"    process {one.get('pid')} in {one.get('directory')}" for one in clients),
        f"  servers: {len(children)}",
    ]
    if children:
        head = ("SERVER", "STATE", "PID", "USERS", "MEMORY", "UP", "ROOTS")
        lines += _table([head, *(_child(one) for one in children)])
    down = _rows(said.get("down"))
    if down:
        lines.append(f"  servers that are down: {len(down)}")
        lines += (f"    {one.get('server')}: {one.get('error')}" for one in down)
    limited = _rows(said.get("principals"))
    if limited:
        principals = {str(one.get("principal")) for one in limited}
        lines.append(f"  principals with limits: {len(principals)}")
        lines += _table([("PRINCIPAL", "USED"), *map(_principal, limited)])
    return [on_one_line(line) for line in lines]


def _number(found: Json) -> str:
    return f"{found:.15g}" if isinstance(found, int | float) else "-"


def _most(of: JsonObject) -> str:
    limit, burst = of.get("limit"), of.get("burst")
    is_more = isinstance(limit, int | float) and isinstance(burst, int | float) and burst > limit
    return f"{_number(burst)} at once" if is_more else _number(limit)


def _principal(one: JsonObject) -> tuple[str, ...]:
    uses = {key: object_or_empty(of) for key, of in object_or_empty(one.get("limits")).items()}
    shown = (f"{key} {_number(of.get('used'))} of {_most(of)}" for key, of in uses.items())
    within = f" in {one['profile']}" if one.get("profile") else ""
    return f"{one.get('principal')}{within}", ", ".join(shown)


def _of_config(said: JsonObject) -> Iterable[str]:
    """Yield what is wrong with the config file, what waits for the user, and for a restart."""
    if said.get("error"):
        yield f"  config: not taken over: {said['error']}"
    for key, text in (
        ("waiting", "waits for `roots-hub reload`"),
        ("restart", "waits for a restart"),
    ):
        keys = said.get(key)
        if isinstance(keys, list) and keys:
            yield f"  config: {text}: {', '.join(map(str, keys))}"


def _rows(found: Json) -> list[JsonObject]:
    return [object_or_empty(one) for one in found] if isinstance(found, list) else []


def _child(one: JsonObject) -> tuple[str, ...]:
    roots = one.get("roots")
    named = ", ".join(map(str, roots)) if isinstance(roots, list) else ""
    return (
        *(str(one.get(key, "-")) for key in ("server", "state", "pid", "users")),
        _size(one.get("memory")),
        _time(one.get("uptime")),
        named or "-",
    )


def _table(rows: list[tuple[str, ...]]) -> Iterable[str]:
    return (f"    {line}" for line in aligned(rows))


def _size(found: Json) -> str:
    return f"{found / 1_000_000:.1f} MB" if isinstance(found, int | float) else "-"


def _time(found: Json) -> str:
    if not isinstance(found, int | float):
        return "-"
    for seconds, unit in _UNITS:
        if found >= seconds:
            return f"{found / seconds:.0f} {unit}"
    return f"{found:.0f} s"
