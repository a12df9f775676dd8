"""One JSON-RPC conversation: answers find their questions, questions find their answerer.

The same class speaks to a client and to a child. It mints the ids of what it asks, so equal ids of
two clients never meet, and knows nothing of what the methods mean.
"""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Protocol, Self, runtime_checkable

import anyio
import structlog
from anyio.abc import TaskGroup
from msgspec import Struct, field

from hub.jsonrpc import messages as wire
from hub.jsonrpc.encoding import size_of, size_of_answer
from hub.jsonrpc.exact_json import WireError
from hub.jsonrpc.incoming import InboundRequests
from hub.jsonrpc.messages import (
    Failure,
    Message,
    Notification,
    Payload,
    Request,
    Response,
    failure_of,
)
from hub.jsonrpc.outgoing import (
    UNSAID,
    Answer,
    AwaitedRequest,
    PendingRequest,
    PendingRequests,
    RequestOwner,
    with_token,
)
from hub.protocol.constants import INTERNAL_ERROR
from hub.values import Json, JsonObject

CANCEL_GRACE = 2.0
"""Seconds that telling the other side of a cancellation may take."""

log = structlog.stdlib.get_logger(__name__)


class Outlet(Protocol):
    """Where messages to the other side go: a pipe, one HTTP response, a standing event stream."""

    async def send(self, message: Message) -> None:
        """Hand `message` over; waits while the other side does not read.

        Raises: GoneError when nobody will ever read it.
        """
        ...


@runtime_checkable
class NonBlockingOutlet(Protocol):
    """An outlet that can take a message without anybody waiting."""

    def post(self, message: Message) -> bool:
        """Hand `message` over if the other side takes it now, and return whether it did."""
        ...


class PeerWatch(Protocol):
    """Who keeps account of how the other side behaves."""

    def answered(self) -> None:
        """Take note that it answered what it was asked."""
        ...

    def stray(self, what: str, size: int) -> None:
        """Take note of something that is of no use to anybody, and how many bytes it has.

        Raises: GoneError if the other side is to be heard no more.
        """
        ...


class GoneError(Exception):
    """The other side is gone: nothing can be sent, and no answer will come."""


class SilentError(Exception):
    """No answer came within the time that was allowed."""


class RpcError(Exception):
    """A JSON-RPC error, received or to be answered; `error` is the whole error object."""

    def __init__(
        self, code: int, message: str, data: Json = None, *, error: Payload | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        plain: JsonObject = {"code": code, "message": message}
        self.error: Payload = (
            error if error is not None else plain if data is None else {**plain, "data": data}
        )

    @classmethod
    def received(cls, error: Payload) -> Self:
        """Keep a received error whole, so that it can be passed on unchanged.

        One that is not well made, which its reader might not take for an answer, goes on as the
        data of one that is.
        """
        try:
            read = wire.as_object(error)
        except WireError as exc:
            return cls(INTERNAL_ERROR, f"the error that was answered cannot be read: {exc}")
        code, message = read.get("code"), read.get("message")
        if type(code) is int and isinstance(message, str):
            return cls(code, message, error=error)
        return cls(
            code if type(code) is int else INTERNAL_ERROR,
            message if isinstance(message, str) else "error",
            read,
        )


class LostError(RpcError):
    """The answer was lost on its way."""


class Asked(Struct, eq=False):
    """A request of the other side that is being answered.

    `reason` is told of it when it is taken back. `pending` wait for what its asker is asked.
    `wait_for_room` returns once its asker has read enough of what it was answered.
    """

    request: Request
    outlet: Outlet
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    reason: str = UNSAID
    pending: PendingRequests = field(default_factory=PendingRequests)
    wait_for_room: Callable[[], Awaitable[None]] = field(
        default_factory=lambda: InboundRequests().wait_for_room
    )

    @property
    def can_be_cancelled(self) -> bool:
        """Whether the asker may take the request back, which the protocol forbids of one."""
        return self.request.method != "initialize"

    def cancel(self, reason: str = UNSAID) -> None:
        self.reason = reason
        self.scope.cancel()


Serve = Callable[[Asked], Awaitable[Payload]]
Notified = Callable[[Notification], Awaitable[None]]


class Peer:
    """One side's view of a conversation.

    `serve` answers the other side's requests, each in a task of `tasks` (or in the caller's,
    through `answer`); `notified` gets its notifications, in order. Both may raise `RpcError` alone.
    `watch` keeps account of how the other side behaves, if somebody does.
    """

    def __init__(
        self,
        outlet: Outlet,
        *,
        serve: Serve,
        notified: Notified,
        tasks: TaskGroup,
        watch: PeerWatch | None = None,
    ) -> None:
        self._watch = watch
        self._outlet = outlet
        self._letterbox = outlet if isinstance(outlet, NonBlockingOutlet) else None
        self._serve = serve
        self._notified = notified
        self._tasks = tasks
        self._ids = itertools.count(1)
        self.pending = PendingRequests()
        self.backlog = InboundRequests()
        self._gone: str | None = None

    async def request(
        self,
        method: str,
        params: JsonObject,
        *,
        timeout: float | None,  # noqa: ASYNC109 - on it the other side is told
        outlet: Outlet | None = None,
        request_owner: RequestOwner | None = None,
    ) -> Payload:
        """Ask, and return the result as it came.

        If `request_owner` wants progress, the request carries a token of ours, and reports go to
        the owner. The other side is told when the caller is cancelled or the time runs out.

        Raises: RpcError the other side answered; SilentError after `timeout` seconds; GoneError.
        """
        if self._gone is not None:
            raise GoneError(self._gone)
        id_, waiting = next(self._ids), AwaitedRequest(request_owner)
        own = params if waiting.progress is None else with_token(params, id_)
        asked = Request(id_, method, own)
        self.pending.add(id_, waiting)
        through = outlet or self._outlet
        try:
            with anyio.fail_after(timeout):
                await through.send(asked)
                await waiting.done.wait()
        except TimeoutError as exc:
            await self._cancel(asked, through, "timed out")
            raise SilentError(f"no answer within {timeout:g} s") from exc
        except anyio.get_cancelled_exc_class():
            await self._cancel(
                asked, through, UNSAID if request_owner is None else request_owner.reason
            )
            raise
        finally:
            self.pending.forget(id_)
        return self.result_of(waiting.answer)

    def post(self, method: str, params: JsonObject, waiter: PendingRequest) -> Request | None:
        """Ask without waiting: `waiter` gets the answer. Return None if that is not possible now.

        With `waiter.progress` the request carries a progress token, and reports go there.
        """
        if self._gone is not None or self._letterbox is None:
            return None
        id_ = next(self._ids)
        own = params if waiter.progress is None else with_token(params, id_)
        asked = Request(id_, method, own)
        try:
            if not self._letterbox.post(asked):
                return None
        except WireError:
            return None  # it has no JSON form: `request` says so
        self.pending.add(id_, waiter)
        return asked

    def withdraw(self, asked: Request, reason: str) -> None:
        """Give up what was posted: its waiter hears no more, the other side is told."""
        if self.pending.forget(asked.id):
            self._tasks.start_soon(self._cancel, asked, self._outlet, reason)

    def result_of(self, answer: Answer) -> Payload:
        """Return the result in an answer.

        Raises: RpcError the other side answered; LostError; GoneError if there is no answer.
        """
        if isinstance(answer, Response):
            return answer.result
        if answer is None:
            raise GoneError(self._gone or "gone")
        raise (LostError if isinstance(answer, wire.Lost) else RpcError).received(answer.error)

    async def _cancel(self, asked: Request, outlet: Outlet, reason: str) -> None:
        if asked.method == "initialize":  # which the protocol does not let anybody cancel
            return
        told = Notification("notifications/cancelled", {"requestId": asked.id, "reason": reason})
        with anyio.move_on_after(CANCEL_GRACE, shield=True), suppress(GoneError):
            await outlet.send(told)

    async def notify(self, method: str, params: Payload, *, outlet: Outlet | None = None) -> None:
        """Send a notification; one that nobody will read is dropped."""
        try:
            await (outlet or self._outlet).send(Notification(method, params))
        except GoneError:
            log.debug("notification dropped: nobody reads", method=method)

    async def receive(self, message: Message) -> None:
        """Take one message of the other side, in order.

        A request is answered by a task of its own; one of somebody who leaves many answers unread,
        or has asked too much already, is not taken before that is over.

        Raises: WireError for a message that cannot be taken; the conversation goes on. GoneError
            if `watch` wants no more of them.
        """
        match message:
            case Request():
                await self.backlog.room_for_more()
                self.take(message, self._outlet)
            case Notification("notifications/cancelled", params):
                self.backlog.cancel(wire.as_object(params))
            case Notification("notifications/progress", params):
                self._heed("reports on no call", params, await self.pending.report(params))
            case Notification():
                await self._notified(message)
            case Response(result=carried) | Failure(error=carried):
                self._heed("answers to no question", carried, self.pending.settle(message))

    def _heed(self, what: str, payload: Payload, is_wanted: bool) -> None:
        """Keep account of an answer, or a report, that somebody waits for or nobody does."""
        if self._watch is None:
            return
        if not is_wanted:
            self._watch.stray(what, size_of(payload))
        else:
            self._watch.answered()

    def take(self, request: Request, outlet: Outlet) -> None:
        """Answer a request through `outlet`, by a task of its own; as `receive`."""
        asked = self.accept(request, outlet)
        self.backlog.begun()
        self._tasks.start_soon(self._answer_into, asked)

    def accept(self, request: Request, outlet: Outlet) -> Asked:
        """Register a request, so that it can be cancelled; `answer` must be called with it next.

        Raises: WireError if a request with its id is being answered still, or too many are.
        """
        asked = Asked(
            request, outlet, pending=self.pending, wait_for_room=self.backlog.wait_for_room
        )
        self.backlog.add(request.id, asked)
        return asked

    async def answer_later(self, answer: Response | Failure, outlet: Outlet) -> None:
        """Send an answer that has to wait until it is read; it is dropped if it never will be."""
        with self.backlog.sending(size_of_answer(answer)), suppress(GoneError):
            await outlet.send(answer)

    async def answer(self, asked: Asked) -> Response | Failure | None:
        """Serve an accepted request in the caller's task; None if its asker cancelled it."""
        id_ = asked.request.id
        try:
            with asked.scope:
                return Response(id_, await self._serve(asked))
        except RpcError as exc:
            return Failure(id_, exc.error)
        except WireError as exc:
            return Failure(id_, failure_of(exc).error)
        finally:
            self.backlog.remove(id_, asked)
        return None

    async def _answer_into(self, asked: Asked) -> None:
        try:
            answer = await self.answer(asked)
            if answer is not None:
                await self.answer_later(answer, asked.outlet)
        finally:
            self.backlog.ended()

    def close(self, reason: str) -> None:
        """End the conversation: who waits learns `reason`, what is being answered is cancelled."""
        self._gone = self._gone or reason
        self.pending.close()
        self.backlog.close()
