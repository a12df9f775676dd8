"""One JSON-RPC conversation: answers find their questions, questions find their answerer.

The same class speaks to a client and to a child. It mints the ids of what it asks, so equal ids of
two clients never meet, and knows nothing of what the methods mean.
"""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol, Self

import anyio
import structlog
from anyio.abc import TaskGroup

from hub.core.protocol import INTERNAL_ERROR, INVALID_REQUEST
from hub.core.values import Json, JsonObject
from hub.runtime import wire
from hub.runtime.backlog import Backlog
from hub.runtime.strict_json import RequestId, WireError
from hub.runtime.wire import (
    Failure,
    Message,
    Notification,
    Payload,
    Request,
    Response,
    failure_of,
)

MAX_ASKED = 1024
"""How many requests of one side may be under way; more are refused."""
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
        """Keep a received error whole, so that it can be passed on unchanged."""
        try:
            read = wire.as_object(error)
        except WireError:
            return cls(INTERNAL_ERROR, f"the error that was answered is no object: {error!r:.200}")
        code, message = read.get("code"), read.get("message")
        return cls(
            code if isinstance(code, int) else INTERNAL_ERROR,
            message if isinstance(message, str) else "error",
            error=error,
        )


class LostError(RpcError):
    """The answer was lost on its way."""


@dataclass(slots=True, eq=False)
class Asked:
    """A request of the other side that is being answered."""

    request: Request
    outlet: Outlet
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    cancelled: bool = False

    @property
    def progress_token(self) -> RequestId | None:
        """What the asker wants progress reported under."""
        meta = self.request.params.get("_meta")
        token = meta.get("progressToken") if isinstance(meta, dict) else None
        return token if isinstance(token, int | str) and not isinstance(token, bool) else None


@dataclass(slots=True, eq=False)
class _Waiting:
    done: anyio.Event
    progress: Callable[[Payload], Awaitable[None]] | None
    answer: Response | Failure | None = None


Serve = Callable[[Asked], Awaitable[Payload]]
Notified = Callable[[Notification], Awaitable[None]]


class Peer:
    """One side's view of a conversation.

    `serve` answers the other side's requests, each in a task of `tasks` (or in the caller's,
    through `answer`); `notified` gets its notifications, in order. Both may raise `RpcError` alone.
    """

    def __init__(
        self, outlet: Outlet, *, serve: Serve, notified: Notified, tasks: TaskGroup
    ) -> None:
        self._outlet = outlet
        self._serve = serve
        self._notified = notified
        self._tasks = tasks
        self._ids = itertools.count(1)
        self._waiting: dict[RequestId, _Waiting] = {}
        self._asked: dict[RequestId, Asked] = {}
        self._backlog = Backlog()
        self._gone: str | None = None

    async def idle(self) -> None:
        """Return once every request taken by `receive` has its answer sent."""
        await self._backlog.idle()

    async def request(
        self,
        method: str,
        params: JsonObject,
        *,
        timeout: float | None,  # noqa: ASYNC109 - on it the other side is told
        outlet: Outlet | None = None,
        progress: Callable[[Payload], Awaitable[None]] | None = None,
    ) -> Payload:
        """Ask, and return the result as it came.

        With `progress` the request carries a progress token, and reports go there. When the caller
        is cancelled or the time runs out, the other side is told with `notifications/cancelled`.

        Raises: RpcError the other side answered; SilentError after `timeout` seconds; GoneError.
        """
        if self._gone is not None:
            raise GoneError(self._gone)
        id_ = next(self._ids)
        asked = Request(id_, method, params if progress is None else _with_token(params, id_))
        waiting = self._waiting[id_] = _Waiting(anyio.Event(), progress)
        through = outlet or self._outlet
        try:
            with anyio.fail_after(timeout):
                await through.send(asked)
                await waiting.done.wait()
        except TimeoutError as exc:
            await self._cancel(asked, through, "timed out")
            raise SilentError(f"no answer within {timeout:g} s") from exc
        except anyio.get_cancelled_exc_class():
            await self._cancel(asked, through, "cancelled by the caller")
            raise
        finally:
            del self._waiting[id_]
        return self._result(waiting.answer)

    def _result(self, answer: Response | Failure | None) -> Payload:
        match answer:
            case Response(_, result):
                return result
            case Failure(_, error, is_ours):
                raise (LostError if is_ours else RpcError).received(error)
            case None:
                raise GoneError(self._gone or "gone")

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

    async def receive(self, message: Message, outlet: Outlet | None = None) -> None:
        """Take one message of the other side, in order.

        A request is answered through `outlet`, by a task of its own; one of somebody who leaves
        many answers unread is not taken before he reads on.

        Raises: WireError for a message that cannot be taken; the conversation goes on.
        """
        match message:
            case Request():
                await self._backlog.room()
                asked = self.accept(message, outlet or self._outlet)
                self._backlog.begun()
                self._tasks.start_soon(self._answer_into, asked)
            case Notification("notifications/cancelled", params):
                self._cancel_asked(wire.as_object(params).get("requestId"))
            case Notification("notifications/progress", params):
                await self._progress(params)
            case Notification():
                await self._notified(message)
            case Response() | Failure():
                self._settle(message)

    def accept(self, request: Request, outlet: Outlet) -> Asked:
        """Register a request, so that it can be cancelled; `answer` must be called with it next.

        Raises: WireError if a request with its id is being answered still, or too many are.
        """
        if len(self._asked) >= MAX_ASKED:
            raise WireError(INTERNAL_ERROR, f"Over {MAX_ASKED} requests are under way", request.id)
        if request.id in self._asked:
            raise WireError(INVALID_REQUEST, "A request with this id is under way", request.id)
        asked = Asked(request, outlet)
        self._asked[request.id] = asked
        return asked

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
            if self._asked.get(id_) is asked:
                del self._asked[id_]
        return None

    async def _answer_into(self, asked: Asked) -> None:
        try:
            answer = await self.answer(asked)
            if answer is not None:
                with self._backlog.sending():
                    await asked.outlet.send(answer)
        except GoneError:
            log.debug("answer dropped: nobody reads", method=asked.request.method)
        finally:
            self._backlog.ended()

    def _cancel_asked(self, id_: Json) -> None:
        asked = self._asked.get(id_) if isinstance(id_, int | str) else None
        if asked is not None and asked.request.method != "initialize":
            asked.cancelled = True
            asked.scope.cancel()

    async def _progress(self, params: Payload) -> None:
        token = wire.as_object(params).get("progressToken")
        waiting = self._waiting.get(token) if isinstance(token, int | str) else None
        if waiting is not None and waiting.progress is not None:
            await waiting.progress(params)

    def _settle(self, answer: Response | Failure) -> None:
        waiting = self._waiting.get(answer.id) if answer.id is not None else None
        if waiting is None or waiting.done.is_set():
            log.debug("answer to no question", id=answer.id)
            return
        waiting.answer = answer
        waiting.done.set()

    def close(self, reason: str) -> None:
        """End the conversation: who waits learns `reason`, what is being answered is cancelled."""
        self._gone = self._gone or reason
        for waiting in self._waiting.values():
            waiting.done.set()
        for asked in self._asked.values():
            asked.scope.cancel()
        self._backlog.close()


def _with_token(params: JsonObject, token: RequestId) -> JsonObject:
    """Return params that ask for progress reports under `token`."""
    meta = params.get("_meta")
    return {**params, "_meta": {**(meta if isinstance(meta, dict) else {}), "progressToken": token}}
