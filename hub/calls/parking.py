"""Suspended ("parked") calls: calls of modern clients that outlive their requests.

A legacy child asks within its call, but its modern client is asked by the request's result. Until
the retry brings the answer, the call waits in a task of the hub. A call of the fast path needs no
such task, because its child's answer ends the call.
"""

from __future__ import annotations

from collections import Counter
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
"""How many calls may wait for their clients' answers; beyond, a child's request is refused."""
MAX_PARKED_OF_ONE: Final = 64
"""How many of these calls one principal may have."""

CANCELLED: Final = "the call was cancelled"

log = structlog.stdlib.get_logger(__name__)


class HandedOver(Struct):
    """A fast-path call whose child asked for input: the suspended call and how it was judged.

    The call goes on when its `request` arrives on the general path. `kept` are the roots of an
    earlier request, if the call was judged by those.
    """

    parked: ParkedCall
    request: Request
    call: Call
    guard: ToolGuard
    slot: ChildSlot
    kept: Announcement | None


class Parking:
    """Runs the calls that may have to wait for their client, and finds them again for a retry.

    Each runs in `tasks`, which outlive all requests.
    """

    def __init__(self, relay: Relay, tasks: TaskGroup) -> None:
        self.tasks = tasks
        self._relay = relay
        self._parked: dict[str, ParkedCall] = {}
        self._handed_over: dict[int, HandedOver] = {}

    async def call(self, session: Session, asked: Asked, retry: RetryInput) -> Payload:
        """Return the result of a new call that may ask its client; `session` is closed at its end.

        Raises: InputNeededError, and as `Relay.call` does.
        """
        caller = ClientCaller.of(session, asked, retry)
        handed_over = self._handed_over.pop(id(asked.request), None)
        if handed_over is not None:
            return await self._take_over(handed_over, caller, asked)
        scope = anyio.CancelScope()
        call = ParkedCall(caller, self.park, scope)
        self.tasks.start_soon(self._own, call, scope, asked, retry)
        return await call.turn(caller)

    async def resume(self, session: Session, asked: Asked, retry: RetryInput) -> Payload:
        """Return the result of a suspended call, or its refusal by the roots of the client's retry.

        Raises: InputNeededError, and as `Relay.call` does; RpcError if the call has ended.
        """
        call = self._parked.get(retry.state.parked or "")
        if call is None or call.case is None:
            raise RpcError(
                INVALID_PARAMS,
                "requestState is not valid: its call has ended; make the call again without it",
            )
        try:
            effective = await session.effective(asked.outlet)
            case = replace(call.case, session=session, asked=asked, effective=effective)
            refusal = await self._relay.judge_again(case)
        except BaseException:
            call.give_up(asked.reason)
            raise
        if refusal is not None:
            call.give_up()
            return refusal
        return await call.turn(ClientCaller.of(session, asked, retry))

    def park(self, call: ParkedCall) -> None:
        """Register a call that waits for its client; if there are too many, give up an old one.

        Raises: RpcError if there are too many, and none was abandoned.
        """
        if call.key in self._parked:
            return
        principal = call.owner.principal
        of_one = [one for one in self._parked.values() if one.owner.principal == principal]
        if len(of_one) >= MAX_PARKED_OF_ONE:
            self._give_up_one(of_one)
        elif len(self._parked) >= MAX_PARKED:
            self._give_up_one(self._by_principals())
        self._parked[call.key] = call

    def _by_principals(self) -> list[ParkedCall]:
        """Return all parked calls, those of the principal with the most first, then by age."""
        calls = list(self._parked.values())
        counts = Counter(one.owner.principal for one in calls)
        return sorted(calls, key=lambda one: -counts[one.owner.principal])

    def _give_up_one(self, calls: Sequence[ParkedCall]) -> None:
        """Give up the first of `calls` that was abandoned by its client.

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
                call.end(await self._relay.call(call.owner, asked, retry, call.caller_factory))
        except Exception as exc:  # noqa: BLE001 - the task ends, and the request gets the error
            call.end(exc)
        finally:
            call.end(RpcError(INTERNAL_ERROR, CANCELLED))
            call.owner.close()
            if scope.cancel_called:
                self._parked.pop(call.key, None)
            await self._until_fetched(call)

    async def _until_fetched(self, call: ParkedCall) -> None:
        """Keep the outcome of a suspended call until a retry fetches it, at most `KEPT` seconds."""
        try:
            if call.key in self._parked:
                with anyio.move_on_after(KEPT):
                    await call.fetched.wait()
        finally:
            self._parked.pop(call.key, None)

    # Calls of the fast path

    def hand_over(self, one: HandedOver) -> None:
        """Take over a call, which goes on when its request arrives; `end` must follow."""
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

    async def _take_over(self, one: HandedOver, caller: ClientCaller, asked: Asked) -> Payload:
        session = caller.owner
        try:
            one.parked.case = JudgingContext(
                session=session,
                asked=asked,
                call=one.call,
                guard=one.guard,
                effective=session.known_effective(),
                slot=one.slot,
                pointer=str,  # pointers into the arguments need no translation
                retry=caller.retry,
            )
            return await one.parked.turn(caller)
        finally:
            session.close()

    def handed_over(self, request: Request) -> HandedOver | None:
        """Return the handed-over call that goes on with a request; None if there is none."""
        return self._handed_over.get(id(request))

    def take_back(self, one: HandedOver) -> bool:
        """Forget a call whose request will not come; return whether it was still expected."""
        return self._handed_over.pop(id(one.request), None) is not None

    def end(self, one: HandedOver, outcome: Payload | Exception | None) -> None:
        """Store the outcome of a handed-over call; None means that the call was given up."""
        one.parked.end(RpcError(INTERNAL_ERROR, CANCELLED) if outcome is None else outcome)
