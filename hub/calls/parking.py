"""Calls of modern clients that outlive the requests they are made with.

A child of the handshake era asks within its call. Its modern client is asked by the request's
result: until the retry brings the answer the call is parked, in a task of the hub's own. A call
that went by express needs none: its child's answer ends it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import anyio
import structlog
from anyio.abc import TaskGroup
from msgspec import Struct
from msgspec.structs import replace

from hub.calls.caller import ClientCaller
from hub.calls.consent import JudgingContext
from hub.calls.dispatch import Relay
from hub.calls.rounds.parked_call import KEPT, ParkedCall
from hub.children.slot import ChildSlot
from hub.guard.decide import ToolGuard
from hub.jsonrpc.messages import Payload, Request
from hub.jsonrpc.peer import Asked, RpcError
from hub.protocol.constants import INTERNAL_ERROR, INVALID_PARAMS
from hub.protocol.request_state import RetryInput
from hub.roots.roots import Announcement
from hub.sessions.session import Session
from hub.values import Call

MAX_PARKED: Final = 256
"""How many calls may wait for their clients' answers; what children ask beyond is refused."""
MAX_PARKED_OF_ONE: Final = 64
"""How many of these may be one principal's."""

CANCELLED: Final = "the call was cancelled"

log = structlog.stdlib.get_logger(__name__)


class HandedOver(Struct):
    """A call whose child asked before its answer: what it was judged by, and its request.

    The request comes the general way, for its call to go on there; an earlier one of its client
    brought the roots that were `kept`.
    """

    parked: ParkedCall
    request: Request
    call: Call
    guard: ToolGuard
    slot: ChildSlot
    kept: Announcement | None


class Parking:
    """The calls that may be parked; each is a task of `tasks`, which outlive all requests."""

    def __init__(self, relay: Relay, tasks: TaskGroup) -> None:
        self.tasks = tasks
        self._relay = relay
        self._parked: dict[str, ParkedCall] = {}
        self._handed_over: dict[int, HandedOver] = {}

    async def call(self, session: Session, asked: Asked, retry: RetryInput) -> Payload:
        """Take a call through for a client that can be asked; `session` is closed when it ends.

        Raises: InputNeededError, and as `Relay.call` does.
        """
        asker = ClientCaller.of(session, asked, retry)
        handed_over = self._handed_over.pop(id(asked.request), None)
        if handed_over is not None:
            return await self._take_over(handed_over, asker, asked)
        scope = anyio.CancelScope()
        call = ParkedCall(asker, self.park, scope)
        self.tasks.start_soon(self._own, call, scope, asked, retry)
        return await call.turn(asker)

    async def resume(self, session: Session, asked: Asked, retry: RetryInput) -> Payload:
        """Go on with a parked call, if the roots of the client's retry still admit it.

        Raises: InputNeededError, and as `Relay.call` does; RpcError if there is no such call.
        """
        call = self._parked.get(retry.state.parked or "")
        if call is None or call.case is None:
            raise RpcError(
                INVALID_PARAMS,
                "requestState is not valid: its call has ended; make the call again without it",
            )
        try:
            force = await session.force(asked.outlet)
            case = replace(call.case, session=session, asked=asked, force=force)
            refusal = await self._relay.judge_again(case)
        except BaseException:
            call.give_up(asked.reason)
            raise
        if refusal is not None:
            call.give_up()
            return refusal
        return await call.turn(ClientCaller.of(session, asked, retry))

    def park(self, call: ParkedCall) -> None:
        """Count a call among those that are parked.

        Raises: RpcError if there are too many.
        """
        if call.key in self._parked:
            return
        principal = call.owner.principal
        of_one = [one for one in self._parked.values() if one.owner.principal == principal]
        if len(self._parked) >= MAX_PARKED or len(of_one) >= MAX_PARKED_OF_ONE:
            self._give_up_one(of_one)
        self._parked[call.key] = call

    def _give_up_one(self, calls: Sequence[ParkedCall]) -> None:
        """Give up the first of these that was left for long.

        Raises: RpcError if there is none.
        """
        left = next((one for one in calls if one.is_abandoned), None)
        if left is None:
            log.warning("not asked: too many calls wait for their clients", of_one=len(calls))
            raise RpcError(INTERNAL_ERROR, "too many calls wait for their clients' answers")
        del self._parked[left.key]
        left.give_up("its client has not come back, and others ask")

    async def _own(
        self, call: ParkedCall, scope: anyio.CancelScope, asked: Asked, retry: RetryInput
    ) -> None:
        try:
            with scope:
                call.end(await self._relay.call(call.owner, asked, retry, call.seat))
        except Exception as exc:  # noqa: BLE001 - the task ends, and who waits for it learns why
            call.end(exc)
        finally:
            call.end(RpcError(INTERNAL_ERROR, CANCELLED))
            call.owner.close()
            if scope.cancel_called:
                self._parked.pop(call.key, None)
            await self._until_fetched(call)

    async def _until_fetched(self, call: ParkedCall) -> None:
        """Keep the end of a call that is parked for a retry that has not come yet."""
        try:
            if call.key in self._parked:
                with anyio.move_on_after(KEPT):
                    await call.fetched.wait()
        finally:
            self._parked.pop(call.key, None)

    # Calls that went by express

    def hand_over(self, one: HandedOver) -> None:
        """Let a call go on when its request comes; `end` must follow."""
        self._handed_over[id(one.request)] = one
        self.tasks.start_soon(self._keep, one)

    async def _keep(self, one: HandedOver) -> None:
        call = one.parked
        try:
            await call.over.wait()
            with anyio.move_on_after(KEPT):
                await call.fetched.wait()
        finally:
            call.give_up()
            self._parked.pop(call.key, None)
            self.take_back(one)

    async def _take_over(self, one: HandedOver, asker: ClientCaller, asked: Asked) -> Payload:
        session = asker.owner
        try:
            one.parked.case = JudgingContext(
                session=session,
                asked=asked,
                call=one.call,
                guard=one.guard,
                force=session.known_force(),
                slot=one.slot,
                pointer=str,  # its arguments are the client's own
                retry=asker.retry,
            )
            return await one.parked.turn(asker)
        finally:
            session.close()

    def handed_over(self, request: Request) -> HandedOver | None:
        """Return the call that goes on with a request, if there is one."""
        return self._handed_over.get(id(request))

    def take_back(self, one: HandedOver) -> bool:
        """Forget a call whose request will not come; return whether it had not come."""
        return self._handed_over.pop(id(one.request), None) is not None

    def end(self, one: HandedOver, outcome: Payload | Exception | None) -> None:
        """Take note of how such a call ended; None: it was given up."""
        one.parked.end(RpcError(INTERNAL_ERROR, CANCELLED) if outcome is None else outcome)
