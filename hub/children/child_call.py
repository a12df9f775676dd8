"""One call at one child: its turn among other calls, its request, a modern child's rounds, its end.

It needs no task: the limiter, the deadlines and the answer of the child move it on. Only further
rounds of a modern child, which asks by an `input_required` result, run in a task.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, Protocol, TypeAlias

import anyio
import structlog
from msgspec import Struct, field

from hub.children.callbacks import ChildCallbacks
from hub.children.child import Child, Ready
from hub.children.clients import Caller, InputNeededError, StaleError
from hub.children.failures import no_slot_free, no_turn
from hub.children.handshake import input_required, with_envelope, without_server_info
from hub.children.listen_streams import SUBSCRIBING
from hub.errors import ChildError
from hub.jsonrpc.errors import GoneError, InternalError, LostError, RpcError, SilentError
from hub.jsonrpc.exact_json import WireError
from hub.jsonrpc.messages import Payload, Request, Response, Untaken, size_of
from hub.jsonrpc.peer import Peer
from hub.jsonrpc.requests import UNSAID, Answer, Progress
from hub.protocol.constants import HEADER_MISMATCH, INTERNAL_ERROR, INVALID_PARAMS
from hub.specs import ServerSpec
from hub.system.tasks import TaskStarter
from hub.values import Call, JsonObject, SessionKey, object_or_empty

log = structlog.stdlib.get_logger(__name__)

MAX_INPUT_ROUNDS: Final = 8
"""The number of times that a modern child may ask for input within one call."""
MAX_INPUTS: Final = 100
"""Requests for input in one result."""
MAX_STATE: Final = 1024 * 1024
"""Characters of a `requestState`, about; it is carried back and forth in each round."""

CallResult: TypeAlias = Payload | ChildError | RpcError | InputNeededError | StaleError
"""How a call ended: with the child's result, or with the error in its place.

`StaleError`: it, or its next round, was not sent, or not taken: it has to be judged again.
"""


class ResultTaker(Protocol):
    """Who makes a call: it is asked before the call is sent, and gets the result."""

    @property
    def may_be_sent(self) -> bool:
        """Whether the verdict holds on a call that waited for its turn, or for its next round."""
        ...

    def ended(self, result: CallResult) -> None:
        """Take the end of the call; called once, and not after `cancel`. Must not raise."""


class _Rounds(Struct, eq=False):
    """The task for the rounds after a modern child's `first` result; None if that is awaited."""

    first: Payload | None
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    are_over: anyio.Event = field(default_factory=anyio.Event)


class ChildCall(Struct, eq=False):
    """One call of a client that the guard has admitted, at a child that was ready.

    `request_owner` is the client's side of the call: the child's requests and notifications within
    it go there. `progress` takes progress reports, if the client wants any. `taker` gets the
    result. Further rounds run in `tasks`.
    """

    child: Child
    ready: Ready
    peer: Peer
    call: Call
    request_owner: Caller
    progress: Progress | None
    taker: ResultTaker
    tasks: TaskStarter
    _is_at_child: bool = False
    _sent: Request | None = None
    _rounds: _Rounds | None = None

    @property
    def party(self) -> SessionKey:
        return self.request_owner.party

    @property
    def queue_key(self) -> str:
        return self.request_owner.queue_key

    def begin(self) -> None:
        """Send the call, or queue it until the child may ask in it, and a slot is free."""
        answers, limiter = self.child.answers, self.child.limiter
        if answers.line.is_active and not answers.line.admits(self):
            return
        if limiter.turns or len(answers.calls) >= limiter.concurrency:
            limiter.line_up(self)
        else:
            self._send_first()

    def proceed(self) -> None:
        """Go on with a call in which the child may ask: no other client's is in the way."""
        if self._is_valid:
            self.begin()
        else:
            self._end_unsent(StaleError())

    def turned_away(self, why: ChildError) -> None:
        self.taker.ended(why)

    def have_turn(self) -> None:
        """Send the queued call, now that a slot is free."""
        if self._is_valid:
            self._send_first()
        else:
            self._end_unsent(StaleError())

    @property
    def _is_valid(self) -> bool:
        """Whether a call that waited may still be sent."""
        child = self.child
        return isinstance(child.state, Ready) and not child.is_stopping and self.taker.may_be_sent

    def _end_unsent(self, why: CallResult) -> None:
        self.child.answers.line.over(self.request_owner)
        self.taker.ended(why)

    def _send_first(self) -> None:
        child = self.child
        self._is_at_child = True
        child.answers.begin(self.request_owner, self.call)
        child.deadlines.begin(self)
        call = self.call
        try:
            if self.ready.handshake.era == "legacy" and not self.request_owner.retry.is_retry:
                self._sent = self.peer.post(call.method, call.params, self)
            elif call.method in SUBSCRIBING:
                self._begin_rounds(None)  # a modern child is subscribed to by a stream
            else:
                self._send(self._worded(self._own_retry()))
        except GoneError:
            self._end(StaleError())
        except RpcError as exc:
            self._end(exc)
        except Exception:
            # Raised from here, it would leave the call in flight, or end the calls before it, too.
            log.exception("request failed", server=child.spec.name, method=call.method)
            self._end(InternalError())

    def _own_retry(self) -> JsonObject:
        """Return the fields for the child that the client's retry brings.

        Raises: RpcError if the child had not asked for them.
        """
        if self.ready.handshake.era == "modern":
            return self.child.answers.resumed(self.request_owner)
        if self.request_owner.retry.state.child is not None:
            name = self.child.spec.name
            raise RpcError(INVALID_PARAMS, f"server {name!r} did not ask for input")
        return {}

    def _worded(self, more: JsonObject) -> JsonObject:
        """Return the call's params in the form of the child's era, with `more` fields."""
        params, handshake, caller = self.call.params, self.ready.handshake, self.request_owner
        if handshake.era == "modern":
            hub = self.child.hub.on_behalf_of(caller.asks)
            params = with_envelope(params, handshake, hub, caller.log_level)
        return {**params, **more} if more else params

    def _send(self, params: JsonObject) -> None:
        self._sent = self.peer.post(self.call.method, params, self)

    # The child's answer

    def settle(self, answer: Answer) -> None:
        """Take the child's first answer: end the call, or start a task for further rounds."""
        if type(answer) is Response and self.ready.handshake.era == "legacy":
            if self.child.answers.line.is_active:
                self.child.answers.learn(self.request_owner, answer.result)
            self._leave(is_answered=True)
            self.taker.ended(answer.result)
        elif isinstance(answer, Untaken):
            self._end(StaleError())
        else:
            self._take(answer)

    def _take(self, answer: Answer) -> None:
        result: CallResult
        try:
            result = self.peer.result_of(answer)
            if self.ready.handshake.era == "modern":
                if input_required(result) is not None:
                    self._begin_rounds(result)
                    return
                result = without_server_info(result)
        except (LostError, GoneError) as exc:
            result = self.child.without_answer(exc)
        except RpcError as exc:
            if self._is_new_process(exc):
                self._send_again()
                return
            if exc.code == HEADER_MISMATCH:  # its tools may want other headers by now
                self.child.lists.note_change({"notifications/tools/list_changed"}, is_told=False)
            # Its traceback would hold it, however large, until the garbage is collected.
            result = exc.with_traceback(None)
        except WireError as exc:
            result = RpcError(exc.code, str(exc))
        self._end(result)

    def _is_new_process(self, error: RpcError) -> bool:
        """Return whether the child rejects the state of another process, and may do without it.

        With roots that it did not have before, the server may run as another process. That need not
        know the state of the first one.
        """
        retry = self.request_owner.retry
        child, sent = retry.state.child, self._sent
        return (
            child is not None
            and child.wants_roots
            and error.code == INVALID_PARAMS
            and sent is not None
            and not {"requestState", "inputResponses"}.isdisjoint(sent.params)
        )

    def _send_again(self) -> None:
        if not self.taker.may_be_sent:
            self._end(StaleError())
            return
        try:
            self._send(self._worded({}))
        except GoneError as exc:
            self._end(self.child.without_answer(exc))

    def _begin_rounds(self, first: Payload | None) -> None:
        self.child.deadlines.end(self)  # each round has its own timeout
        self._rounds = _Rounds(first)
        self.tasks.start_soon(self._go_on, self._rounds)

    async def _go_on(self, rounds: _Rounds) -> None:
        try:
            if rounds.scope.cancel_called:
                return  # cancelled before this task has begun
            with rounds.scope:
                result = await self._result_of(rounds.first)
                # Nobody waits for the result of a call that was given up meanwhile.
                if not rounds.scope.cancel_called:
                    self._end(result)
        finally:
            rounds.are_over.set()

    async def _result_of(self, first: Payload | None) -> CallResult:
        params = self._worded({})

        async def send(more: JsonObject) -> Payload:
            if not self.taker.may_be_sent:  # each round is the whole call again
                raise StaleError
            return await self.child.request(
                self.call.method, {**params, **more}, self.request_owner
            )

        try:
            result = first if first is not None else await send({})
            return without_server_info(
                await in_rounds(send, self.child.answers, self.request_owner, result)
            )
        except (ChildError, RpcError, InputNeededError, StaleError) as exc:
            return exc
        except WireError as exc:
            return RpcError(exc.code, str(exc))
        except Exception as exc:  # noqa: BLE001 - the task ends, and the client gets the error
            return RpcError(INTERNAL_ERROR, str(exc))

    # The end

    def _end(self, result: CallResult) -> None:
        self._leave(is_answered=not isinstance(result, ChildError | StaleError))
        self.taker.ended(result)

    def _leave(self, *, is_answered: bool) -> None:
        """Free the child's slot and end its deadline: the child is finished with the call."""
        child = self.child
        self._is_at_child = False
        child.deadlines.end(self)
        child.answers.end(self.request_owner, is_answered=is_answered)

    def expire(self) -> None:
        """Fail the call: the child had no free slot in time, or did not answer in time."""
        child = self.child
        if not self._is_at_child:
            if child.answers.line.step_out(self):
                self.taker.ended(no_turn(child.spec))
            else:
                child.limiter.step_out(self)
                self._end_unsent(no_slot_free(child.spec))
            return
        self._withdraw("timed out")
        self.taker.ended(child.without_answer(SilentError("timed out")))

    def cancel(self, reason: str = UNSAID) -> None:
        """Take the call back: its taker gets no result, and the child is told the `reason`."""
        line = self.child.answers.line
        if self._is_at_child:
            self._withdraw(reason)
        elif not line.step_out(self):
            self.child.limiter.step_out(self)
            line.over(self.request_owner)

    def _withdraw(self, reason: str) -> None:
        if self._rounds is not None:
            self._rounds.scope.cancel()
        elif self._sent is not None:
            self.peer.withdraw(self._sent, reason)
        self._leave(is_answered=False)

    @property
    def is_over(self) -> bool:
        """Whether no task for further rounds is running."""
        return self._rounds is None or self._rounds.are_over.is_set()

    async def over(self) -> None:
        """Return once `is_over` is true."""
        if self._rounds is not None:
            await self._rounds.are_over.wait()


async def in_rounds(
    send: Callable[[JsonObject], Awaitable[Payload]],
    answers: ChildCallbacks,
    caller: Caller,
    first: Payload,
) -> Payload:
    """Return a modern child's result after its `first` one, which may ask for input.

    `send` sends the call again, with the fields that a round adds.

    Raises: ChildError if the child asks too often or for too much, or its input takes too long;
        RpcError if a request for input is refused, or from `send`; InputNeededError if the client
        must be asked by the result of its own call.
    """
    result = first
    rounds, ends = 0, anyio.current_time() + answers.spec.timeout
    while True:
        wanted = input_required(result)
        if wanted is None:
            caller.done()
            return result
        # A result without `inputRequests` only asks for a repetition of the call. It counts as a
        # round when the call's time limit has passed.
        rounds += bool(wanted.get("inputRequests")) or anyio.current_time() > ends
        _check_size(wanted, answers.spec)
        more = await _inputs(wanted, answers, caller)
        if rounds == MAX_INPUT_ROUNDS:
            raise ChildError(
                f"server {answers.spec.name!r} asked for input {rounds} times within one call"
            )
        result = await send(more)


def _check_size(wanted: JsonObject, spec: ServerSpec) -> None:
    """Raise ChildError if a child's result asks for too much."""
    inputs = len(object_or_empty(wanted.get("inputRequests")))
    if inputs > MAX_INPUTS:
        raise ChildError(
            f"server {spec.name!r} asks for {inputs} inputs at once, more than {MAX_INPUTS}"
        )
    size = size_of(wanted.get("requestState"))
    if size > MAX_STATE:
        raise ChildError(
            f"server {spec.name!r} sends a requestState of {size} characters, more than {MAX_STATE}"
        )


async def _inputs(wanted: JsonObject, answers: ChildCallbacks, caller: Caller) -> JsonObject:
    """Return the input that the child asks for; the wait is limited, as the call holds a slot."""
    spec = answers.spec
    try:
        with anyio.fail_after(spec.timeout if wanted.get("inputRequests") else None):
            return await answers.inputs(wanted, caller)
    except TimeoutError:
        raise ChildError(
            f"server {spec.name!r} asked for input that the client did not give "
            f"within {spec.timeout:g} s"
        ) from None
