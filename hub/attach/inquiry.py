"""Ask running hubs: for their status, to take their config over, to stop."""

from __future__ import annotations

import _socket
import os

from hub.attach.frames import ANSWER, FrameError, FrameReader, hello, parsed
from hub.attach.lifeline import NotAttachedError, connected
from hub.attach.runtime_directory import HubPlace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

PATIENCE = 30.0
"""Seconds for an answer: to take a config over, a hub may have to start servers."""
_CHUNK = 65536


def ask(
    place: HubPlace,
    kind: str,
    version: str,
    *,
    until_end: bool = False,
    patience: float | None = None,
) -> Mapping[str, object] | None:
    """Return a hub's answer; None if none is running. `until_end`: return when the hub has ended.

    `patience`: seconds for connecting and for each part of the answer.

    Raises: NotAttachedError if it does not answer.
    """
    connection = connected(place) if patience is None else connected(place, patience)
    if connection is None:
        return None
    try:
        connection.settimeout(PATIENCE if patience is None else patience)
        connection.sendall(hello(kind, place.secret(), version, pid=os.getpid()))
        return _answer(connection, until_end=until_end)
    except (OSError, FrameError) as exc:
        raise NotAttachedError(f"the hub does not answer: {exc}") from exc
    finally:
        connection.close()


def _answer(connection: _socket.socket, *, until_end: bool) -> Mapping[str, object]:
    frames, answer = FrameReader(), None
    while received := connection.recv(_CHUNK):
        for kind, content in frames.feed(received):
            if kind != ANSWER:
                raise NotAttachedError(str(parsed(content).get("why")))
            answer = parsed(content)
        if answer is not None and not until_end:
            break
    if answer is None:
        raise NotAttachedError("the hub has closed the connection")
    return answer
