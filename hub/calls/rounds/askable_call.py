"""A call of a modern client, which can be asked only by the results of its requests.

A child asks within the call, and waits. The client's request is then answered by an
`input_required` result, and the call goes on without a request: it is detached. The client's next
request, the retry, brings the answers and attaches the call again.
"""

from __future__ import annotations

import math
import secrets
from collections import deque
from functools import partial
from itertools import count
from typing import Final, Protocol

import anyio
from msgspec import Struct, field

from hub.calls.caller import ClientCaller
from hub.calls.in_flight import AwaitedReply, InFlightCall, KeptReply, ReplySink
from hub.calls.results import renumbered
from hub.children.child_call import CallResult
from hub.children.clients import InputNeededError
from hub.children.concurrency import PATIENCE
from hub.jsonrpc.errors import RpcError
from hub.jsonrpc.messages import Failure, Notification, Payload, Request, Response, size_of
from hub.jsonrpc.peer import Asked
from hub.jsonrpc.requests import UNSAID, RequestOwner
from hub.protocol.constants import INTERNAL_ERROR
from hub.protocol.input_requests import CallState, in_modern_words, inward
from hub.sessions.client import require_taken
from hub.sessions.session import Session
from hub.specs import ServerSpec
from hub.system.tasks import TaskStarter
from hub.values import JsonObject, SessionKey

GATHER: Final = 0.02
"""Seconds to collect further requests of a child, so that one result asks for all of them."""
KEPT: Final = 60.0
"""Seconds for which the answer of a detached call is kept for a retry that has not come yet."""
LOOK_AGAIN: Final = 1.0
"""Seconds between two checks whether other calls need the slot of a detached call."""
TOLD_BETWEEN, BYTES_BETWEEN = 256, 4 * 1024 * 1024
"""Notifications, and their bytes, that are kept for the next request; the oldest are dropped first,
and one that is larger is kept alone."""


class Parked(Protocol):
    """The calls that wait for their clients, as `ParkedCalls` has them."""

    def add(self, one: Dialogue) -> None:
        """Register a call that waits for its client's answers.

        Raises: RpcError if too many calls wait.
        """
        ...

    def remove(self, one: Dialogue) -> None:
        """Forget a call that no retry can attach any more."""
        ...

    def make_room(self) -> None:
        """Drop old answers if those that are kept have too many bytes."""
        ...


class AskableCalls(Protocol):
    """What the calls of all modern clients share; `tasks` outlive the clients' requests."""

    tasks: TaskStarter

    @property
    def parked(self) -> Parked:
        """The calls that wait for their clients."""
        ...

    def input_required(
        self, needed: InputNeededError, request: Request, session: Session
    ) -> JsonObject:
        """Return the result of a request that asks its client for input.

        Raises: RpcError for a method whose result may not ask.
        """
        ...


class AskableCall(InFlightCall, eq=False, kw_only=True):
    """One call of a modern client in flight, with what its child asks meanwhile.

    `known_as` is the key of the client that would answer: the owner of the route may be another
    client, which called the tool before.
    """

    calls: AskableCalls
    known_as: SessionKey
    dialogue: Dialogue | None = None

    # The `Caller` of the child

    @property
    def party(self) -> SessionKey:
        return self.known_as

    @property
    def is_present(self) -> bool:
        return self.dialogue is None or not self.dialogue.is_detached

    async def report(self, params: Payload) -> None:
        if self.dialogue is None:
            await super().report(params)
        else:
            await self.dialogue.report(params)

    async def tell(self, spec: ServerSpec, notification: Notification) -> None:
        if self.dialogue is None:
            await super().tell(spec, notification)
        else:
            await self.dialogue.tell(spec, notification)

    async def ask(
        self, method: str, params: JsonObject, request_owner: RequestOwner | None = None
    ) -> Payload:
        """Ask the client by the result of its request, and wait for the answer in the retry.

        Raises: RpcError if the client does not support the request, if too many calls wait, if the
            call ends, or if the client is away too long while other calls need the child.
        """
        require_taken(self.owner.client, method, params)
        if self.is_settled:
            raise RpcError(INTERNAL_ERROR, "the call is over")
        if self.dialogue is None:
            self.dialogue = Dialogue(self)
            self.calls.tasks.start_soon(self.dialogue.keep)
        return await self.dialogue.ask(method, params)

    def done(self) -> None:
        """Do nothing: a modern client gets no notification that an elicitation is complete."""

    @property
    def has_told_all(self) -> bool:
        if self.dialogue is None:
            return super().has_told_all
        return self.dialogue.has_told_all

    async def flush(self) -> None:
        if self.dialogue is None:
            await super().flush()
        else:
            await self.dialogue.flush()

    # The end of the call

    def ended(self, result: CallResult) -> None:
        if self.dialogue is not None:
            self.dialogue.end()
        super().ended(result)

    def _take_back(self, reason: str) -> None:
        if self.dialogue is not None:
            self.dialogue.end()
        super()._take_back(reason)

    def _ask_by_result(self, needed: InputNeededError) -> None:
        """End the call with an `input_required` result; the client's retry is a new call."""
        asking = self.calls.input_required(needed, self.request, self.owner)
        self.audit.write("admitted")
        self._answer(Response(self.request.id, self.route.complete(asking)))

    def _fail(self, error: RpcError) -> None:
        super()._fail(renumbered(error))

    def _sent_to_urls(
        self, needed: InputNeededError, answer: Response | Failure
    ) -> Response | Failure:
        return self.asking(needed)

    def asking(self, needed: InputNeededError) -> Response | Failure:
        """Return the answer to the current request that asks the client for input."""
        asking = partial(self.calls.input_required, needed, self.request, self.owner)
        return self.route.answer(self.request, asking)

    def cancel(self, reason: str = UNSAID) -> None:
        """Cancel the call: the child is notified, no request will get its answer."""
        if self.dialogue is not None:
            self.dialogue.fetched.set()
        self.audit.release()
        super().cancel(reason)


class _Question(Struct, eq=False):
    """One request of the child, as the client gets it, and the client's answer."""

    request: JsonObject
    settled: anyio.Event = field(default_factory=anyio.Event)
    answer: JsonObject | None = None


class Dialogue:
    """What the child asks within one call, while its client's requests come and go.

    `is_detached`: no request of the client waits for `call` now. `is_claimed`: a retry is here, and
    is judged; what comes of that decides how the call ends. `over` is set once the call has ended,
    and `fetched` once no request will fetch its answer any more.
    """

    def __init__(self, call: AskableCall) -> None:
        self.key = secrets.token_hex(16)
        self.is_detached = self.is_claimed = False
        self.over, self.fetched = anyio.Event(), anyio.Event()
        self.call = call
        self._speaker = ClientCaller(
            call.owner, call.outlet, call.token, call.calls.tasks, call.send_queue
        )
        self._left = math.inf
        self._questions: dict[str, _Question] = {}
        self._numbers = count(1)
        self._between: deque[tuple[ServerSpec, Notification]] = deque(maxlen=TOLD_BETWEEN)
        self._kept: KeptReply | None = None
        self._is_gathering = False

    @property
    def principal(self) -> str:
        """The principal of the call's client."""
        return self.call.owner.principal

    # The child's side

    async def ask(self, method: str, params: JsonObject) -> Payload:
        """Ask the client, and return its answer; see `AskableCall.ask`."""
        self.call.calls.parked.add(self)
        key = f"ask/{next(self._numbers)}"
        asked: JsonObject = {"method": method, "params": in_modern_words(method, params)}
        question = self._questions[key] = _Question(asked)
        self._gather()
        try:
            await self._settled(question)
        finally:
            self._questions.pop(key, None)
        if question.answer is None:
            raise RpcError(INTERNAL_ERROR, "the client is gone: it did not answer in time")
        return question.answer

    async def _settled(self, question: _Question) -> None:
        """Return once a request of the child is answered, or the call has ended.

        Raises: RpcError if the client is away too long while other calls need the child.
        """
        preemption = self.call.route.resolved.child.answers.preemption
        while True:
            with anyio.move_on_after(LOOK_AGAIN):
                await question.settled.wait()
                return
            if self.is_abandoned and preemption.must_leave(self.call):
                raise RpcError(
                    INTERNAL_ERROR,
                    f"the client has not come back for {PATIENCE:g} s, and others wait",
                )

    @property
    def is_abandoned(self) -> bool:
        """Whether the client has been away for `PATIENCE` seconds, so that other calls go first."""
        is_away = self.is_detached and not self.is_claimed
        return is_away and anyio.current_time() >= self._left + PATIENCE

    @property
    def kept_size(self) -> int:
        """The bytes of the answer that is kept for a retry to come, about; 0 if none is."""
        kept = self._kept
        if kept is None or self.call.register is not kept or self.is_claimed:
            return 0
        return kept.size

    async def report(self, params: Payload) -> None:
        """Send a progress report within the current request, if that wants any."""
        if not self.is_detached and self._speaker.token is not None:
            await self._speaker.report(params)

    async def tell(self, spec: ServerSpec, notification: Notification) -> None:
        """Send a notification within the current request, or keep it for the next one."""
        if not self.is_detached:
            await self._speaker.tell(spec, notification)
            return
        between = self._between
        between.append((spec, notification))
        while sum(size_of(one.params) for _, one in between) > BYTES_BETWEEN and len(between) > 1:
            between.popleft()

    @property
    def has_told_all(self) -> bool:
        """Whether the current request has no message that waits to be sent before its answer."""
        return self.is_detached or self._speaker.has_told_all

    async def flush(self) -> None:
        """Return once the current request has no such message."""
        if not self.is_detached:
            await self._speaker.flush()

    def end(self) -> None:
        """End the requests of the child that still wait, because the call has ended."""
        self.over.set()
        if not self.is_detached:
            self.fetched.set()
        for question in self._questions.values():
            question.settled.set()

    async def keep(self) -> None:
        """Keep the answer until a retry fetches it; cancel the call at the end.

        A retry has `KEPT` seconds to come, and the time that it takes to judge it.
        """
        try:
            await self.over.wait()
            self.call.calls.parked.make_room()
            with anyio.move_on_after(KEPT):
                await self.fetched.wait()
            if self.is_claimed:
                await self.fetched.wait()
        finally:
            self.call.cancel()
            self.call.calls.parked.remove(self)

    # The client's side

    def _gather(self) -> None:
        if not self.is_detached and not self._is_gathering:
            self._is_gathering = True
            self.call.calls.tasks.start_soon(self._ask_client)

    async def _ask_client(self) -> None:
        """Answer the current request with the child's requests, and detach the call from it."""
        await anyio.sleep(GATHER)
        self._is_gathering = False
        call, reply = self.call, self.call.reply
        if call.is_settled or not self._questions:
            return
        self.is_detached, self.is_claimed = True, False
        self._left = anyio.current_time()
        call.audit.is_held = True
        kept = call.reply = self._kept = KeptReply(Asked(call.request, reply.outlet))
        # What was told before goes out first; what is told from now on would follow the result.
        await self._speaker.flush()
        if kept.is_over:
            self.fetched.set()
            await kept.pass_on(reply, call.request)
        elif self._questions:
            call.leave()
            call.register = kept
            await reply.deliver(self._asking())
        else:
            await self._attach(reply)

    def _asking(self) -> Response | Failure:
        call = self.call
        requests: JsonObject = {key: one.request for key, one in self._questions.items()}
        lasts = call.route.resolved.to.spec.timeout + KEPT
        return call.asking(InputNeededError(requests, CallState(parked=self.key), lasts=lasts))

    async def _attach(self, reply: ReplySink) -> None:
        while self._between:
            await self._speaker.tell(*self._between.popleft())
        self.call.reply = reply
        self.call.audit.release()
        self.is_detached = False

    async def come_back(self, speaker: ClientCaller, reply: AwaitedReply, request: Request) -> None:
        """Go on with the call for the client's next request, which brings answers."""
        call, kept = self.call, self._kept
        self._speaker = speaker
        call.request, call.register = request, reply
        await self._attach(reply)
        if kept is not None and kept.is_over:
            self.fetched.set()
            await speaker.flush()
            await kept.pass_on(reply, request)
            return
        for key, answer in inward(speaker.retry.responses, list(self._questions)).items():
            if isinstance(answer, dict):
                question = self._questions.pop(key)
                question.answer = answer
                question.settled.set()
        if self._questions:
            self._gather()
