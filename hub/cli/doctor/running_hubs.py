"""Hubs of this user: sockets left behind, hubs that hang, that are old, or that wait for a word."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from hub import __version__
from hub.attach.frames import peer_of
from hub.attach.lifeline import NotAttachedError, ask, connected
from hub.attach.runtime_directory import HubPlace, RuntimeDirectory
from hub.cli.doctor.scene import OTHERS, Scene, quoted, status
from hub.cli.terminal import Finding
from hub.values import JsonObject, object_or_empty

_PATIENCE: Final = 1.0
"""Seconds for an answer: a hub that is well needs a few milliseconds."""


def running_hubs(scene: Scene) -> Iterator[Finding]:
    """Yield what is wrong with the hubs in the user's runtime directories."""
    # What is not safe is said by `machine.directories`.
    for directory in RuntimeDirectory.existing(os.environ):
        for name in directory.names():
            yield from _hub(HubPlace(directory, name), scene)
        directory.close()


def _hub(place: HubPlace, scene: Scene) -> Iterator[Finding]:
    socket = Path(place.directory.path, f"{place.name}.sock")
    try:
        if not stat.S_ISSOCK(socket.lstat().st_mode):
            what = "is no socket, but in the place of one: no hub can start there"
            yield Finding("problem", "hubs", str(socket), what, f"rm -r {quoted(socket)}")
            return
        for file in (socket.with_suffix(".key"), socket.with_suffix(".lock")):
            if (found := status(file)) is not None and stat.S_IMODE(found.st_mode) & OTHERS:
                what = "other users may use it, so the hub and its clients refuse it"
                yield Finding("problem", "hubs", str(file), what, f"chmod 600 {quoted(file)}")
                return
        said = ask(place, "status", __version__, patience=_PATIENCE)
    except (NotAttachedError, OSError) as exc:
        process = _process(place)
        named = f" (process {process})" if process else ""
        what = f"the hub{named} does not answer: {exc}"
        fix = f"kill -9 {process}" if process else f"rm -f {quoted(socket)}"
        yield Finding("problem", "hubs", str(socket), what, fix)
        return
    if said is None:
        what = "no hub listens on this socket any more: its process is gone"
        key = quoted(socket.with_suffix(".key"))
        yield Finding("warning", "hubs", str(socket), what, f"rm -f {quoted(socket)} {key}")
    else:
        yield from _of_status(object_or_empty(dict(said)), scene)  # pyright: ignore[reportArgumentType] - parsed JSON


def _process(place: HubPlace) -> int | None:
    """Return the process that listens on a hub's socket; None if that is not known."""
    try:
        connection = connected(place, _PATIENCE)
        if connection is None:
            return None
        try:
            return peer_of(connection)[0]
        finally:
            connection.close()
    except (NotAttachedError, OSError):
        return None


def _of_status(said: JsonObject, scene: Scene) -> Iterator[Finding]:
    serves, version = str(said.get("serves")), str(said.get("version"))
    where = f"the hub of {serves}"
    named = f" --config {quoted(serves)}" if serves.startswith("/") else ""
    stop = f"{scene.hub} stop{named}" if named else f"kill {said.get('pid')}"
    if version != __version__:
        what = f"is of version {version}, while {__version__} is installed"
        yield Finding("warning", "hubs", where, what, stop)
    elif named and not Path(serves).is_file():
        what = "its config is gone"
        yield Finding("warning", "hubs", where, what, stop)
    else:
        yield from _of_config(object_or_empty(said.get("config")), where, scene, named)


def _of_config(said: JsonObject, where: str, scene: Scene, named: str) -> Iterator[Finding]:
    if said.get("error"):
        what = f"has not taken its config over: {said['error']}"
        yield Finding("problem", "hubs", where, what, f"{scene.hub} check{named}")
    for key, verb in (("waiting", "reload"), ("restart", "stop")):
        keys = said.get(key)
        if isinstance(keys, list) and keys:
            what = f"still serves with the old {', '.join(map(str, keys))}"
            yield Finding("warning", "hubs", where, what, f"{scene.hub} {verb}{named}")
            return
    if not said.get("error"):
        yield Finding("ok", "hubs", where, "answers")
