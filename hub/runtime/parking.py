"""Calls of modern clients that outlive the requests they are made with.

A child of the handshake era asks within its call. Its modern client is asked by the request's
result: until the retry brings the answer the call is parked, in a task of the hub's own.
"""

from __future__ import annotations

from typing import Final

import anyio
import structlog
from anyio.abc import TaskGroup
from msgspec.structs import replace

from hub.core.protocol import INTERNAL_ERROR, INVALID_PARAMS
from hub.core.request_state import Brought
from hub.runtime.asker import CallAsker
from hub.runtime.parked import KEPT, ParkedCall
from hub.runtime.peer import Asked, RpcError
from hub.runtime.relay import Relay
from hub.runtime.session import Session
from hub.runtime.wire import Payload

MAX_PARKED: Final = 256
"""How many calls may wait for their clients' answers; what children ask beyond is refused."""
MAX_PARKED_OF_ONE: Final = 64
"""How many of these may be one principal's."""

log = structlog.stdlib.get_logger(__name__)


class Parking:
    """The calls that may be parked; each is a task of `tasks`, which outlive all requests."""

    def __init__(self, relay: Relay, tasks: TaskGroup) -> None:
        self.tasks = tasks
        self._relay = relay
        self._parked: dict[str, ParkedCall] = {}

    async def call(self, session: Session, asked: Asked, brought: Brought) -> Payload:
        """Take a call through for a client that can be asked; `session` is closed when it ends.

        Raises: InputNeededError, and as `Relay.call` does.
        """
        call = ParkedCall(CallAsker.of(session, asked, brought), self.park)
        self.tasks.start_soon(self._own, call, asked, brought)
        return await call.turn(call.first)

    async def resume(self, session: Session, asked: Asked, brought: Brought) -> Payload:
        """Go on with a parked call, if the roots of the client's retry still admit it.

        Raises: InputNeededError, and as `Relay.call` does; RpcError if there is no such call.
        """
        call = self._parked.get(brought.carried.parked or "")
        if call is None or call.case is None:
            raise RpcError(
                INVALID_PARAMS,
                "requestState is not valid: its call has ended; make the call again without it",
            )
        try:
            force = await session.force(asked.outlet)
            case = replace(call.case, session=session, asked=asked, force=force)
            refusal = self._relay.judge_again(case)
        except BaseException:
            call.give_up(asked.reason)
            raise
        if refusal is not None:
            call.give_up()
            return refusal
        return await call.turn(CallAsker.of(session, asked, brought))

    def park(self, call: ParkedCall) -> None:
        """Count a call among those that are parked.

        Raises: RpcError if there are too many.
        """
        of_one = sum(
            other.owner.principal == call.owner.principal for other in self._parked.values()
        )
        if call.key in self._parked:
            return
        if len(self._parked) >= MAX_PARKED or of_one >= MAX_PARKED_OF_ONE:
            log.warning("not asked: too many calls wait for their clients", of_one=of_one)
            raise RpcError(INTERNAL_ERROR, "too many calls wait for their clients' answers")
        self._parked[call.key] = call

    async def _own(self, call: ParkedCall, asked: Asked, brought: Brought) -> None:
        try:
            with call.scope:
                call.end(await self._relay.call(call.owner, asked, brought, call.seat))
        except Exception as exc:  # noqa: BLE001 - the task ends, and who waits for it learns why
            call.end(exc)
        finally:
            call.end(RpcError(INTERNAL_ERROR, "the call was cancelled"))
            call.owner.close()
            if not call.scope.cancel_called and call.key in self._parked:
                with anyio.move_on_after(KEPT):
                    await call.fetched.wait()
            self._parked.pop(call.key, None)
