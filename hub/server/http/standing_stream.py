"""A session's standing event stream: what belongs to no request, while the client listens."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import anyio
from starlette.types import Receive, Send

from hub.jsonrpc.messages import Message, Notification
from hub.jsonrpc.peer import GoneError
from hub.server.http.event_store import STANDING, EventId, Journal
from hub.server.http.event_streams import EventStream

WAITING_NOTIFICATIONS = 256
"""How many notifications wait for a client's event stream; the oldest are dropped first."""


class Standing:
    """The event stream that the client opens with GET; there may be none."""

    def __init__(self, journal: Journal) -> None:
        self._stream = EventStream(journal, STANDING)
        self._holder: object = None
        self._is_listening = False
        self._waiting: deque[Message] = deque(maxlen=WAITING_NOTIFICATIONS)
        self._closed = anyio.Event()

    @property
    def is_open(self) -> bool:
        """Whether the client holds a stream open, or is opening it."""
        return self._holder is not None

    async def send(self, message: Message) -> None:
        """Send over the standing stream; without one, a notification waits for it.

        Raises: GoneError for a request that has no stream to go out on.
        """
        if self._is_listening and self._stream.carrier is not None:
            await self._stream.put(message)
        elif not isinstance(message, Notification) or self._closed.is_set():
            raise GoneError("the client holds no event stream open")
        else:
            self._waiting.append(message)

    def close(self) -> None:
        """End the stream with its session."""
        self._closed.set()
        self._stream.end()

    def knows(self, id_: EventId) -> bool:
        """Return whether an event of this stream can have been given to the client."""
        return self._stream.knows(id_)

    async def serve(
        self,
        send: Send,
        receive: Receive,
        opened: Callable[[], None],
        *,
        primed: bool,
        after: EventId | None = None,
    ) -> None:
        """Hold the stream open until client or session end it; once it carries, call `opened`.

        With `after`, it goes on from that event, in the place of a connection that was lost.
        """
        holder = self._holder = object()
        self._is_listening = False
        try:
            carrier = await self._stream.attach(send, after)
            await (self._stream.prime() if primed else self._stream.comment())
            while self._waiting:
                await self._stream.put(self._waiting.popleft())
            if self._holder is holder:
                self._is_listening = True
                opened()
            await self._stream.hold(carrier, receive)
        finally:
            if self._holder is holder:
                self._holder = None
                self._is_listening = False
