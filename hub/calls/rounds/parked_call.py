"""One call of a modern client that outlives the requests it is made with.

Its child asks within it, and waits; its client is asked by the result of the request that is there
just then, and answers with the next.
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
"""Seconds in which a child that asked may ask more, for all of it to go out at once."""
KEPT: Final = 60.0
"""Seconds for which the end of a call is kept for a retry that has not come yet."""
LOOK_AGAIN: Final = 1.0
"""Seconds between two looks for others who need the place of a call whose client is away."""
TOLD_BETWEEN: Final = 256
"""How many notifications are kept for the next round; the oldest are dropped first."""


class _Asking(Struct, eq=False):
    """What a child asked, as the client is asked it."""

    request: JsonObject
    settled: anyio.Event = field(default_factory=anyio.Event)
    answer: JsonObject | None = None


class ParkedCall:
    """One call: its child's `Caller`, whose client comes and goes with each round.

    What its child learns of the client is what its `first` round says. `case` is what the call was
    judged by, once it was; `owner` the session that its child is leased to. `park` is told of a
    call that has to wait, and raises RpcError if it may not; `stop` is what gives the call up.
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

    def seat(self, case: JudgingContext, for_roots: Stoppable) -> Caller:
        """Take note of what the call was judged by, and speak to its child for the client."""
        self.case = case
        self.first.consented, self.first.for_roots = case.consented, for_roots
        return self

    def _move(self) -> None:
        moved, self._moved = self._moved, anyio.Event()
        moved.set()

    # What the child sees

    @property
    def is_present(self) -> bool:
        """Whether a request of the client waits for the call just now."""
        return self._round is not None

    @property
    def progress(self) -> Progress | None:
        """Where progress reports go; None if the first round gave no token: the child has none."""
        return None if self.first.token is None else self._report

    async def _report(self, params: Payload) -> None:
        if self._round is not None and self._round.token is not None:
            await self._round.report(params)

    async def tell(self, spec: ServerSpec, notification: Notification) -> None:
        """Pass a notification on with this round, or else with the next."""
        if self._round is None:
            self._between.append((spec, notification))
        else:
            await self._round.tell(spec, notification)

    async def flush(self) -> None:
        """Return at once: the round that takes the result sees to it."""

    async def inputs(
        self, spec: ServerSpec, requests: Mapping[str, JsonObject], round_: ChildInputRound
    ) -> JsonObject:
        """Have the client asked by the result: a modern child keeps nothing open.

        Raises: InputNeededError, RpcError.
        """
        return await self.first.inputs(spec, requests, round_)

    def want_roots(self) -> bool:
        """Give the call up if its client was not asked for its roots."""
        return self.first.want_roots()

    def done(self) -> None:
        """Tell nobody: a modern client learns it from the result."""

    async def ask(
        self, method: str, params: JsonObject, request_owner: RequestOwner | None = None
    ) -> Payload:
        """Have the client asked by the round's result, and wait for the round that answers.

        Raises: RpcError if the client does not take it, if too many wait, if the call ends, or if
            its client is away for so long that it has to give way to others.
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
        """Return once a question is answered, or never will be."""
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
        """Return whether other calls at the same child need what this one holds."""
        child = None if self.case is None else self.case.slot.child
        return child is not None and child.answers.preemption.must_leave(self)

    @property
    def is_abandoned(self) -> bool:
        """Whether the client has been away for so long that others come first."""
        return self._round is None and anyio.current_time() >= self._left + PATIENCE

    # What the client's requests see

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
        """Take the client's request, and what it answers; return the call's result.

        Without it the call is cancelled: a client that leaves while a round is under way has given
        up the call.

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
        """Cancel the call, for a reason of its client's, who will not fetch how it ended."""
        self.reason = reason
        self.fetched.set()
        self._stop.cancel()

    async def _turn(self, round_: ClientCaller) -> Payload:
        while self._outcome is None:
            if not self._questions:
                await self._moved.wait()
                continue
            await anyio.sleep(GATHER)
            self._leave()  # what is told from here on would come after this round's result
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
        """Take note of how the call ended; what its child still asks is answered with an error."""
        if self._outcome is None:
            self._outcome = outcome
        for question in self._questions.values():
            question.settled.set()
        self.over.set()
        self._move()
