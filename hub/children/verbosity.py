"""Lets a child of the handshake era log as much as its clients want to read."""

from __future__ import annotations

from typing import Final

import anyio
import structlog

from hub.children.child import Child
from hub.children.child_state import Ready
from hub.errors import ChildError
from hub.jsonrpc.peer import RpcError
from hub.values import SessionKey

PATIENCE: Final = 2.0
"""Seconds that a call waits for its child to take the level it wants."""

log = structlog.stdlib.get_logger(__name__)


async def log_from(child: Child, level: str, session: SessionKey | None = None) -> None:
    """Let a child log from `level` on: for all of a session, or, without one, for a call to come.

    A modern child is told with each call, and one that does not log is not told at all.
    """
    state, levels = child.state, child.answers.levels
    if not isinstance(state, Ready) or state.greeting.era == "modern":
        return
    if not state.greeting.offers("logging"):
        return
    wanted = levels.of_call(level) if session is None else levels.of_session(session, level)
    if wanted is None:
        return
    try:
        with anyio.move_on_after(None if session is not None else PATIENCE) as waiting:
            await child.forward("logging/setLevel", {"level": wanted})
    except (ChildError, RpcError) as exc:
        levels.forget()
        log.warning("log level not set", server=child.spec.name, error=str(exc))
    else:
        if waiting.cancelled_caught:
            levels.forget()
