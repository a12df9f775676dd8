"""The `subscriptions/listen` streams at a modern child, which sends notifications only on those.

One stream is for changed lists. Each subscribed resource has a stream of its own, so that it can
end without the others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

import anyio
import structlog
from anyio.abc import TaskGroup

from hub.children.handshake import without_meta
from hub.jsonrpc.errors import GoneError, RpcError
from hub.jsonrpc.exact_json import RequestId
from hub.jsonrpc.messages import Message, Notification, Payload, Request, Response, as_object
from hub.jsonrpc.peer import Outlet, Peer
from hub.protocol.constants import INVALID_PARAMS, LIST_CHANGED, METHOD_NOT_FOUND
from hub.protocol.listen_filter import (
    ACKNOWLEDGED,
    LISTEN,
    SUBSCRIPTION_ID_META,
    FilterError,
    ListenFilter,
    changes_of,
    filter_in,
)
from hub.values import Json, JsonObject, object_or_empty

SUBSCRIBING: Final = frozenset({"resources/subscribe", "resources/unsubscribe"})
"""The requests of legacy clients that become streams at a modern child."""
PAUSES: Final = (1.0, 2.0, 5.0, 15.0, 60.0)
"""Seconds before a stream that ended is requested again, by attempt; the last value repeats."""

Missed: TypeAlias = Callable[[frozenset[str]], None]
"""Receives the names of notifications that may have been lost while no stream was open."""

log = structlog.stdlib.get_logger(__name__)


class _Stream:
    """A request that stays open; it is its own outlet, to learn its id before it is sent.

    `waiting` counts who waits for the child to honour it. `is_wanted`: somebody was told that it
    does, so the stream has to stay.
    """

    def __init__(self, wanted: ListenFilter, outlet: Outlet) -> None:
        self.wanted = wanted
        self.scope = anyio.CancelScope()
        self.id: RequestId | None = None
        self.settled = anyio.Event()
        self.waiting, self.is_wanted = 0, False
        self.honoured: ListenFilter | None = None
        self.error: RpcError | None = None
        self._outlet = outlet

    async def send(self, message: Message) -> None:
        if isinstance(message, Request):
            self.id = message.id
        await self._outlet.send(message)

    def acknowledged(self, notifications: Json) -> None:
        try:
            self.honoured = filter_in(notifications)
        except FilterError:
            self.honoured = ListenFilter()
        self.settled.set()


class ChildListenStreams:
    """The streams at one child, run in `tasks`; `missed` gets changes that may have been lost."""

    def __init__(
        self,
        tasks: TaskGroup,
        peer: Peer,
        outlet: Outlet,
        params: Callable[[JsonObject], JsonObject],
        missed: Missed,
    ) -> None:
        self._tasks = tasks
        self._peer = peer
        self._outlet = outlet
        self._params = params
        self._missed = missed
        self._streams: set[_Stream] = set()
        self._subscribed: dict[str, _Stream] = {}

    def begin(self, capabilities: JsonObject) -> None:
        """Request a stream for the list changes that the child declares, if there are any."""
        wanted = changes_of(capabilities)
        if wanted.lists:
            self._open(wanted)

    def _open(self, wanted: ListenFilter) -> _Stream:
        stream = _Stream(wanted, self._outlet)
        self._streams.add(stream)
        self._tasks.start_soon(self._keep, stream)
        return stream

    async def answer(self, method: str, params: JsonObject, patience: float) -> Payload:
        """Do a legacy client's `resources/subscribe` or `resources/unsubscribe` by a stream.

        The child gets `patience` seconds to acknowledge a new stream.

        Raises: RpcError if the child sends no updates of that resource.
        """
        uri = str(params.get("uri"))
        if method == "resources/unsubscribe":
            stream = self._subscribed.pop(uri, None)
            if stream is not None:
                stream.scope.cancel()
            return {}
        stream = self._subscribed.get(uri)
        if stream is None:
            stream = self._subscribed[uri] = self._open(ListenFilter(uris=(uri,)))
        stream.waiting += 1
        try:
            with anyio.move_on_after(patience):
                await stream.settled.wait()
            if stream.honoured is not None and stream.honoured.uris:
                stream.is_wanted = True
                return {}
        finally:
            stream.waiting -= 1
            if not (stream.waiting or stream.is_wanted):
                self._drop(uri, stream)
        raise stream.error or RpcError(
            INVALID_PARAMS, f"The server does not report updates of {uri}"
        )

    def _drop(self, uri: str, stream: _Stream) -> None:
        """End a stream that the child does not honour, or that nobody waits for any more."""
        if self._subscribed.get(uri) is stream:
            del self._subscribed[uri]
        stream.scope.cancel()

    async def _keep(self, stream: _Stream) -> None:
        """Keep a stream open: request it again when it ends, unless the child refuses it."""
        attempts = 0
        try:
            with stream.scope:
                while True:
                    began = stream.honoured
                    await self._hold(stream)
                    attempts = 0 if stream.honoured is not began else attempts + 1
                    if stream.error is not None and stream.honoured is None:
                        return
                    await anyio.sleep(PAUSES[min(attempts, len(PAUSES) - 1)])
                    self._missed(stream.wanted.lists)
        except GoneError:
            return
        finally:
            stream.settled.set()
            self._streams.discard(stream)

    async def _hold(self, stream: _Stream) -> None:
        stream.error = None
        params: JsonObject = {"notifications": stream.wanted.fields()}
        try:
            await self._peer.request(LISTEN, self._params(params), timeout=None, outlet=stream)
        except RpcError as exc:
            stream.error = exc
            if exc.code != METHOD_NOT_FOUND:
                log.info("stream ended", error=str(exc))

    def note_end(self, message: Message) -> None:
        """End the stream that the child cancels: over stdio a child may end one without a result.

        A child may cancel nothing else.
        """
        if isinstance(message, Notification) and message.method == "notifications/cancelled":
            id_ = as_object(message.params).get("requestId")
            for stream in self._streams:
                if stream.id is not None and stream.id == id_:
                    self._peer.pending.settle(Response(stream.id, {}))

    def heard(self, notification: Notification) -> Notification | None:
        """Return a notification in the form for clients; None if it was for the hub alone."""
        if notification.method not in OF_STREAMS:
            return notification
        params = as_object(notification.params)
        if notification.method == ACKNOWLEDGED:
            id_ = object_or_empty(params.get("_meta")).get(SUBSCRIPTION_ID_META)
            for stream in self._streams:
                if stream.id == id_:
                    stream.acknowledged(params.get("notifications"))
            return None
        rest = without_meta(params, SUBSCRIPTION_ID_META)
        return notification if rest is params else Notification(notification.method, rest)


OF_STREAMS: Final = frozenset({ACKNOWLEDGED, "notifications/resources/updated", *LIST_CHANGED})
