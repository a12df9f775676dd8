"""A suspended call: one call of a modern client that takes several requests.

Its legacy child sends a request within the call, and waits. The client is asked by the
`input_required` result of its current request, and answers with its next request, the retry.
"""

from __future__ import annotations

import math
import secrets
from collections import deque
from collections.abc import Callable, Mapping
from itertools import count
from typing import Final

import anyio
from msgspec import Struct, field

from hub.calls.caller import ClientCaller
from hub.calls.consent import JudgingContext
from hub.children.clients import Caller, InputNeededError, Stoppable
from hub.children.concurrency import PATIENCE
from hub.jsonrpc.messages import Notification, Payload
from hub.jsonrpc.outgoing import UNSAID, Progress, RequestOwner
from hub.jsonrpc.peer import RpcError
from hub.protocol.constants import INTERNAL_ERROR
from hub.protocol.input_requests import in_modern_words, inward
from hub.protocol.request_state import CallState, ChildInputRound
from hub.sessions.notifications import require_taken
from hub.specs import ServerSpec
from hub.values import JsonObject

GATHER: Final = 0.02
"""Seconds to collect further requests of a child, so that one result asks for all of them."""
KEPT: Final = 60.0
"""Seconds for which the outcome of a call is kept for a retry that has not come yet."""
LOOK_AGAIN: Final = 1.0
"""Seconds between two checks whether other calls need the slot of a call without its client."""
TOLD_BETWEEN: Final = 256
"""How many notifications are kept for the next request; the oldest are dropped first."""


class _Asking(Struct, eq=False):
    """One request of the child, as the client gets it, and the client's answer."""

    request: JsonObject
    settled: anyio.Event = field(default_factory=anyio.Event)
    answer: JsonObject | None = None


class ParkedCall:
    """One call: the child's `Caller`, while the client's requests come and go.

    The child knows the client by its `first` request. `case` is the context that the call was
    judged in, once it was judged. `owner` is the session that uses the child. `park` registers a
    call that has to wait, and raises RpcError if there are too many. `stop` gives the call up.
    """

    def __init__(
        self, first: ClientCaller, park: Callable[[ParkedCall], None], stop: Stoppable
    ) -> None:
        self.key = secrets.token_hex(16)
        self.owner = first.owner
        self.session, self.party, self.retry = first.session, first.party, first.retry
        self.asks, self.log_level = first.asks, first.log_level
        self.case: JudgingContext | None = None
        self.over, self.fetched = anyio.Event(), anyio.Event()
        self.reason = UNSAID
        self._park = park
        self._stop = stop
        self.first = first
        self._round: ClientCaller | None = first
        self._left = math.inf
        self._questions: dict[str, _Asking] = {}
        self._numbers = count(1)
        self._between: deque[tuple[ServerSpec, Notification]] = deque(maxlen=TOLD_BETWEEN)
        self._outcome: Payload | Exception | None = None
        self._moved = anyio.Event()

    def caller_factory(self, case: JudgingContext, for_roots: Stoppable) -> Caller:
        """Store the context that the call was judged in; return this call as the child's caller."""
        self.case = case
        self.first.consented, self.first.for_roots = case.consented, for_roots
        return self

    def _move(self) -> None:
        moved, self._moved = self._moved, anyio.Event()
        moved.set()

    # The `Caller` of the child

    @property
    def is_present(self) -> bool:
        """Whether a request of the client waits for this call now."""
        return self._round is not None

    @property
    def progress(self) -> Progress | None:
        """The function that takes progress reports; None if the first request gave no token."""
        return None if self.first.token is None else self._report

    async def _report(self, params: Payload) -> None:
        if self._round is not None and self._round.token is not None:
            await self._round.report(params)

    async def tell(self, spec: ServerSpec, notification: Notification) -> None:
        """Send a notification within the current request, or keep it for the next one."""
        if self._round is None:
            self._between.append((spec, notification))
        else:
            await self._round.tell(spec, notification)

    async def flush(self) -> None:
        """Return at once: `turn` flushes before it returns the result."""

    async def inputs(
        self, spec: ServerSpec, requests: Mapping[str, JsonObject], round_: ChildInputRound
    ) -> JsonObject:
        """Ask the client by the result of its request: the call at a modern child has ended.

        Raises: InputNeededError, RpcError.
        """
        return await self.first.inputs(spec, requests, round_)

    def want_roots(self) -> bool:
        """Give the call up if its client was not asked for its roots; return whether it was."""
        return self.first.want_roots()

    def done(self) -> None:
        """Do nothing: a modern client gets no notification that an elicitation is complete."""

    async def ask(
        self, method: str, params: JsonObject, request_owner: RequestOwner | None = None
    ) -> Payload:
        """Ask the client by the result of its current request, and wait for the retry's answer.

        Raises: RpcError if the client does not support the request, if too many calls wait, if the
            call ends, or if the client is away too long while other calls need the child.
        """
        require_taken((self._round or self.first).owner.client, method, params)
        if self._outcome is not None:
            raise RpcError(INTERNAL_ERROR, "the call is over")
        self._park(self)
        key = f"ask/{next(self._numbers)}"
        asked: JsonObject = {"method": method, "params": in_modern_words(method, params)}
        question = self._questions[key] = _Asking(asked)
        self._move()
        try:
            await self._settled(question)
        finally:
            self._questions.pop(key, None)
        if question.answer is None:
            raise RpcError(INTERNAL_ERROR, "the client is gone: it did not answer in time")
        return question.answer

    async def _settled(self, question: _Asking) -> None:
        """Return once a request of the child is answered, or the call has ended.

        Raises: RpcError if the client is away too long while other calls need the child.
        """
        while True:
            with anyio.move_on_after(LOOK_AGAIN):
                await question.settled.wait()
                return
            if self.is_abandoned and self._must_leave():
                raise RpcError(
                    INTERNAL_ERROR,
                    f"the client has not come back for {PATIENCE:g} s, and others wait",
                )

    def _must_leave(self) -> bool:
        """Return whether other calls need this call's slot, or its end, at the same child."""
        child = None if self.case is None else self.case.slot.child
        return child is not None and child.answers.preemption.must_leave(self)

    @property
    def is_abandoned(self) -> bool:
        """Whether the client has been away for `PATIENCE` seconds, so that other calls go first."""
        return self._round is None and anyio.current_time() >= self._left + PATIENCE

    # The client's requests

    async def _come(self, round_: ClientCaller) -> None:
        await self._flush()
        await self._speak_in(round_)
        for key, answer in inward(round_.retry.responses, list(self._questions)).items():
            if isinstance(answer, dict):
                question = self._questions.pop(key)
                question.answer = answer
                question.settled.set()

    async def _speak_in(self, round_: ClientCaller) -> None:
        self._round = round_
        while self._between:
            await round_.tell(*self._between.popleft())

    async def turn(self, round_: ClientCaller) -> Payload:
        """Return the call's result for one request of the client, which may bring answers.

        If the request is cancelled, or its client leaves meanwhile, the call is cancelled too.

        Raises: InputNeededError if the child asks first; RpcError and other errors of the call.
        """
        try:
            if round_ is not self.first:
                await self._come(round_)
            return await self._turn(round_)
        except anyio.get_cancelled_exc_class():
            self.give_up(round_.reason)
            raise
        finally:
            self._leave()

    def _leave(self) -> None:
        self._round, self._left = None, anyio.current_time()

    def give_up(self, reason: str = UNSAID) -> None:
        """Cancel the call for the client's `reason`; no request will fetch its outcome."""
        self.reason = reason
        self.fetched.set()
        self._stop.cancel()

    async def _turn(self, round_: ClientCaller) -> Payload:
        while self._outcome is None:
            if not self._questions:
                await self._moved.wait()
                continue
            await anyio.sleep(GATHER)
            self._leave()  # a notification from now on would follow this request's result
            await round_.flush()
            if self._questions and self._outcome is None:
                raise self._needed()
            await self._speak_in(round_)
        await self._flush()
        self.fetched.set()
        if isinstance(self._outcome, Exception):
            raise self._outcome
        return self._outcome

    async def _flush(self) -> None:
        if self._round is not None:
            await self._round.flush()

    def _needed(self) -> InputNeededError:
        requests: JsonObject = {key: one.request for key, one in self._questions.items()}
        limit = self.case.slot.spec.timeout if self.case is not None else 0.0
        return InputNeededError(requests, CallState(parked=self.key), lasts=limit + KEPT)

    def end(self, outcome: Payload | Exception) -> None:
        """Store the call's first outcome; requests of the child that still wait get an error."""
        if self._outcome is None:
            self._outcome = outcome
        for question in self._questions.values():
            question.settled.set()
        self.over.set()
        self._move()
