"""What is sent to a remote child: a POST for each message, and for each request a task."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

import anyio
import structlog
from anyio.abc import TaskGroup

from hub.children.remote.arrivals import Arrivals
from hub.children.remote.http_client import ExchangeError
from hub.jsonrpc import messages as wire
from hub.jsonrpc.encoding import to_bytes
from hub.jsonrpc.exact_json import RequestId, request_id
from hub.jsonrpc.messages import Message, Notification, Request, lost
from hub.jsonrpc.peer import GoneError

log = structlog.stdlib.get_logger(__name__)


class Transport(Protocol):
    """How messages are posted, and what comes of it."""

    def asking(self, request: Request, body: bytes) -> Callable[[], Awaitable[None]]:
        """Return what posts a request, as things are now, and brings what comes of that.

        It raises ExchangeError if no answer can come, GoneError if none ever will.
        """
        ...

    async def tell(self, message: Message, body: bytes) -> None:
        """Post what is no request.

        Raises: ExchangeError if it is lost.
        """
        ...


class Posts:
    """The outlet of a remote child; `tasks` run the requests, and how one fails arrives."""

    def __init__(
        self, server: str, transport: Transport, arrivals: Arrivals, tasks: TaskGroup
    ) -> None:
        self._server = server
        self._transport = transport
        self._arrivals = arrivals
        self._tasks = tasks
        self._under_way: dict[RequestId, anyio.CancelScope] = {}

    async def send(self, message: Message) -> None:
        """Send a request and return; send anything else and return once it is taken.

        What cannot be sent fails its own request; of anything else the log tells. A request that is
        taken back is given up.

        Raises: GoneError when the connection has ended; WireError for what cannot be written.
        """
        if self._arrivals.ended is not None:
            raise GoneError(self._arrivals.ended)
        if self.post(message):
            return
        body, id_ = to_bytes(message), taken_back(message)
        try:
            await self._transport.tell(message, body)
        except ExchangeError as exc:
            log.warning("message lost", server=self._server, error=str(exc))
        finally:
            self.give_up(id_)

    def post(self, message: Message) -> bool:
        """Send a request, which nobody has to wait for; return whether it is one."""
        if not isinstance(message, Request) or self._arrivals.ended is not None:
            return False
        ask = self._transport.asking(message, to_bytes(message))
        scope = self._under_way[message.id] = anyio.CancelScope()
        self._tasks.start_soon(self._run, message.id, scope, ask)
        return True

    async def _run(
        self, id_: RequestId, scope: anyio.CancelScope, ask: Callable[[], Awaitable[None]]
    ) -> None:
        try:
            with scope:
                await ask()
        except ExchangeError as exc:
            await self._arrivals.put(lost(id_, str(exc)))
        except GoneError as exc:
            self._arrivals.end(str(exc))
        finally:
            if self._under_way.get(id_) is scope:
                del self._under_way[id_]

    def has(self, id_: RequestId | None) -> bool:
        """Return whether a request is under way."""
        return id_ in self._under_way

    def give_up(self, id_: RequestId | None, *, after: float = 0.0) -> None:
        """End a request's POST, if it is under way still after so many seconds."""
        scope = None if id_ is None else self._under_way.get(id_)
        if scope is not None:
            scope.deadline = anyio.current_time() + after


def taken_back(message: Message) -> RequestId | None:
    """Return the id of the request that a message says is of no interest any more."""
    if not isinstance(message, Notification) or message.method != "notifications/cancelled":
        return None
    return request_id(wire.as_object(message.params).get("requestId"))
