"""JSON-RPC peer: sends requests and matches responses, and serves the other side's requests.

The same class is used for a client and for a child. It creates the ids of its own requests, so
equal ids of two clients do not collide. What the methods mean is decided elsewhere.
"""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, Protocol, runtime_checkable

import anyio
import anyio.lowlevel
import structlog
from msgspec import Struct, field

from hub.jsonrpc import messages as wire
from hub.jsonrpc.errors import GoneError, InternalError, LostError, RpcError, SilentError
from hub.jsonrpc.exact_json import RequestId, WireError
from hub.jsonrpc.messages import (
    Failure,
    Message,
    Notification,
    Payload,
    Request,
    Response,
    failure_of,
    size_of,
    size_of_answer,
)
from hub.jsonrpc.peer_conduct import PeerConduct
from hub.jsonrpc.requests import (
    UNSAID,
    Answer,
    AwaitedRequest,
    InboundRequests,
    PendingRequest,
    PendingRequests,
    RequestOwner,
    with_token,
)
from hub.system.tasks import TaskStarter
from hub.values import JsonObject

CANCEL_GRACE = 2.0
"""Seconds that sending `notifications/cancelled` may take."""
LAST_GRACE: Final = 0.3
"""The same once the connection ends: the hub's end must not wait long for a peer that is stuck."""
TURNS_TO_TELL: Final = 3
"""Turns of the loop in which a cancelled request's task tells whom it has asked.

What the peer sends after the cancellation, such as its answer to the client, comes after that.
"""

_FAR: Final = 2**52
"""Ids begin below this after `Peer.skip_ids`: every JSON reader takes numbers of 53 bits."""

log = structlog.stdlib.get_logger(__name__)


class Outlet(Protocol):
    """Where messages to the other side are sent: a pipe, one HTTP response, an event stream."""

    async def send(self, message: Message) -> None:
        """Send `message`; waits while the other side does not read.

        Raises: GoneError if the other side is gone.
        """
        ...


@runtime_checkable
class NonBlockingOutlet(Protocol):
    """An outlet that can send a message without waiting."""

    def post(self, message: Message) -> bool:
        """Send `message` if that is possible without waiting; return whether it was sent."""
        ...


@runtime_checkable
class LosableOutlet(Protocol):
    """An outlet whose connection may end before it does: the other side may come back to it."""

    @property
    def is_lost(self) -> bool:
        """Whether no connection carries it, so that nobody may ever read what is sent."""
        ...


class Asked(Struct, eq=False):
    """A request of the other side that is being answered; responses go to `outlet`.

    `reason` is the reason of its cancellation. `pending` has our own requests to the same peer,
    `backlog` all its requests under way. `granted` are the scopes of the token that it came with,
    None for one that has no scopes. `needed` are all that it would have needed, once it is refused
    for want of some.
    """

    request: Request
    outlet: Outlet
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    reason: str = UNSAID
    pending: PendingRequests = field(default_factory=PendingRequests)
    backlog: InboundRequests = field(default_factory=InboundRequests)
    granted: frozenset[str] | None = None
    needed: tuple[str, ...] = ()

    @property
    def can_be_cancelled(self) -> bool:
        """Whether the peer may cancel the request; MCP forbids it for `initialize`."""
        return self.request.method != "initialize"

    def cancel(self, reason: str = UNSAID) -> None:
        self.reason = reason
        self.scope.cancel()


Serve = Callable[[Asked], Awaitable[Payload]]
Notified = Callable[[Notification], Awaitable[None]]


class Peer:
    """Our side of one JSON-RPC connection.

    `serve` answers the other side's requests, each in a task of `tasks` (or in the caller's task,
    through `answer`); what it raises becomes the error response. `notified` gets the
    notifications, in order; its errors leave `receive`. `watch` counts useful and useless messages.
    """

    def __init__(
        self,
        outlet: Outlet,
        *,
        serve: Serve,
        notified: Notified,
        tasks: TaskStarter,
        watch: PeerConduct | None = None,
    ) -> None:
        self._watch = watch
        self._cancel_grace = CANCEL_GRACE
        self._outlet = outlet
        self._letterbox = outlet if isinstance(outlet, NonBlockingOutlet) else None
        self._serve = serve
        self._notified = notified
        self._tasks = tasks
        self._ids = itertools.count(1)
        self.pending = PendingRequests()
        self.backlog = InboundRequests()
        self._gone: str | None = None
        self._late: dict[RequestId, anyio.CancelScope] = {}
        self._telling: set[anyio.CancelScope] = set()

    def skip_ids(self) -> None:
        """Go on with ids that no earlier peer of the same other side has used, or nearly surely."""
        self._ids = itertools.count(secrets.randbelow(_FAR) + 1)

    async def request(
        self,
        method: str,
        params: JsonObject,
        *,
        timeout: float | None,  # noqa: ASYNC109 - on timeout the other side must be told
        outlet: Outlet | None = None,
        request_owner: RequestOwner | None = None,
    ) -> Payload:
        """Send a request and return its result unchanged.

        If `request_owner` wants progress, the request has a progress token of ours, and reports go
        to the owner. If the caller is cancelled or the request times out, the other side is told.

        Raises: RpcError from an error response; SilentError after `timeout` seconds; GoneError.
        """
        if self._gone is not None:
            raise GoneError(self._gone)
        id_, waiting = next(self._ids), AwaitedRequest(request_owner)
        own = params if waiting.progress is None else with_token(params, id_)
        asked = Request(id_, method, own)
        self.pending[id_] = waiting
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
            self.pending.pop(id_, None)
        return self.result_of(waiting.answer)

    def post(self, method: str, params: JsonObject, waiter: PendingRequest) -> Request:
        """Send a request, from a task if the other side does not read now; return the request.

        `waiter` gets the response, None if the connection has ended. If `waiter.progress` is set,
        it gets the progress reports.

        Raises: RpcError for params that have no JSON form; GoneError if the connection has ended.
        """
        if self._gone is not None:
            raise GoneError(self._gone)
        id_ = next(self._ids)
        own = params if waiter.progress is None else with_token(params, id_)
        asked = Request(id_, method, own)
        try:
            is_sent = self._letterbox is not None and self._letterbox.post(asked)
        except WireError as exc:
            raise RpcError(exc.code, str(exc)) from exc
        self.pending[id_] = waiter
        if not is_sent:
            self._late[id_] = scope = anyio.CancelScope()
            self._tasks.start_soon(self._post_late, asked, scope)
        return asked

    async def _post_late(self, asked: Request, scope: anyio.CancelScope) -> None:
        try:
            with scope:
                await self._outlet.send(asked)
        except GoneError:
            self.pending.settle_gone(asked.id)
        except WireError as exc:
            self.pending.settle(Failure(asked.id, failure_of(exc).error))
        finally:
            self._late.pop(asked.id, None)

    def withdraw(self, asked: Request, reason: str) -> None:
        """Cancel a request that `post` sent: its waiter gets nothing, the other side is told."""
        late = self._late.get(asked.id)
        if late is not None:
            late.cancel()
        if self.pending.pop(asked.id, None) is None:
            return
        # What cancels a late request comes after it, if its task still sends it.
        outlet = self._letterbox if late is None else None
        if outlet is None or not outlet.post(_cancellation(asked, reason)):
            self._tasks.start_soon(self._cancel, asked, self._outlet, reason)

    def result_of(self, answer: Answer) -> Payload:
        """Return the result in a response.

        Raises: RpcError from an error response; LostError; GoneError if there is no response.
        """
        if isinstance(answer, Response):
            return answer.result
        if answer is None:
            raise GoneError(self._gone or "gone")
        raise (LostError if isinstance(answer, wire.Lost) else RpcError).received(answer.error)

    async def _cancel(self, asked: Request, outlet: Outlet, reason: str) -> None:
        if asked.method == "initialize":  # MCP forbids cancelling it
            return
        told = _cancellation(asked, reason)
        with (
            anyio.move_on_after(self._cancel_grace, shield=True) as telling,
            suppress(GoneError),
        ):
            self._telling.add(telling)
            try:
                await outlet.send(told)
            finally:
                self._telling.discard(telling)

    async def notify(self, method: str, params: Payload, *, outlet: Outlet | None = None) -> None:
        """Send a notification; it is dropped if the other side is gone."""
        try:
            await (outlet or self._outlet).send(Notification(method, params))
        except GoneError:
            log.debug("notification dropped: nobody reads", method=method)

    async def receive(self, message: Message) -> None:
        """Process one message of the other side; call it for the messages in order.

        A request is answered in a task of its own. It waits first while the peer has too many
        unread responses, or too many bytes of requests under way.

        Raises:
            WireError: the message is refused; the connection stays usable.
            GoneError: `watch` ends the connection.
        """
        match message:
            case Request():
                await self.backlog.room_for_more()
                self.take(message, self._outlet)
            case Notification("notifications/cancelled", params):
                self.backlog.cancel(wire.as_object(params))
                for _ in range(TURNS_TO_TELL):
                    await anyio.lowlevel.checkpoint()
            case Notification("notifications/progress", params):
                self._heed("reports on no call", params, await self.pending.report(params))
            case Notification():
                await self._notified(message)
            case Response(result=carried) | Failure(error=carried):
                self._heed("answers to no question", carried, self.pending.settle(message))

    def _heed(self, what: str, payload: Payload, is_wanted: bool) -> None:
        """Tell `watch` about a response or progress report, useful (`is_wanted`) or not."""
        if self._watch is None:
            return
        if not is_wanted:
            self._watch.stray(what, size_of(payload))
        else:
            self._watch.answers += 1

    def take(self, request: Request, outlet: Outlet) -> None:
        """Answer a request through `outlet`, in a task of its own.

        Raises: WireError as `accept`.
        """
        asked = self.accept(request, outlet)
        self.backlog.begun()
        self._tasks.start_soon(self._answer_into, asked)

    def accept(
        self, request: Request, outlet: Outlet, granted: frozenset[str] | None = None
    ) -> Asked:
        """Register a request, so that it can be cancelled; `answer` must follow.

        Raises: WireError if its id is still in use, or if too many requests are in progress.
        """
        asked = Asked(request, outlet, pending=self.pending, backlog=self.backlog, granted=granted)
        self.backlog.add(request.id, asked)
        return asked

    async def answer_later(self, answer: Response | Failure, outlet: Outlet) -> None:
        """Send a response, counted as unsent until then; it is dropped if the peer is gone."""
        letterbox = self._letterbox if outlet is self._outlet else None
        if letterbox is not None and letterbox.post(answer):
            return
        with self.backlog.sending(size_of_answer(answer)), suppress(GoneError):
            await outlet.send(answer)

    async def answer(self, asked: Asked) -> Response | Failure | None:
        """Return the response to an accepted request, made in the caller's task.

        None if the request was cancelled.
        """
        id_ = asked.request.id
        try:
            with asked.scope:
                return Response(id_, await self._serve(asked))
        except RpcError as exc:
            return Failure(id_, exc.error)
        except WireError as exc:
            return Failure(id_, failure_of(exc).error)
        except Exception:
            # Raised from here, it would end the connection of a child, and the calls of others.
            log.exception("request failed", method=asked.request.method)
            return Failure(id_, InternalError().error)
        finally:
            self.backlog.leave(id_, asked)
        return None

    async def _answer_into(self, asked: Asked) -> None:
        try:
            answer = await self.answer(asked)
            if answer is not None:
                await self.answer_later(answer, asked.outlet)
        finally:
            self.backlog.ended()

    def hurry(self) -> None:
        """Let what tells the other side of cancelled requests take `LAST_GRACE` seconds at most."""
        self._cancel_grace = LAST_GRACE
        latest = anyio.current_time() + LAST_GRACE
        for telling in self._telling:
            telling.deadline = min(telling.deadline, latest)

    def close(self, reason: str) -> None:
        """End the connection: pending requests raise GoneError with `reason`, served ones stop."""
        self._gone = self._gone or reason
        self.pending.close()
        self.backlog.close()


def _cancellation(asked: Request, reason: str) -> Notification:
    return Notification("notifications/cancelled", {"requestId": asked.id, "reason": reason})
