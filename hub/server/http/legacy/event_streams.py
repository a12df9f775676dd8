"""Event streams (SSE) of a legacy session: events are numbered and stored, streams can be resumed.

MCP 2025-11-25, "Sending Messages to the Server" and "Resumability and Redelivery". A connection may
end before its stream does, through the client, a proxy or the hub itself. The client comes back
with the id of the last event that it got, and gets the later ones.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import anyio
from anyio.abc import TaskGroup
from starlette.types import Receive, Send

from hub.jsonrpc.errors import GoneError
from hub.jsonrpc.messages import Message, Notification, Request, lost, size_of
from hub.protocol.constants import LIST_CHANGED
from hub.server.http.legacy.event_store import STANDING, EventId, Journal, StoredEvent
from hub.server.http.responses import PING, PING_EVERY, begin_stream, event, until_disconnected

RETRY = 1000
"""Milliseconds that a client is asked to wait before it comes back."""
HANG_UP = 1.0
"""Seconds that the end of a response may take if its client does not read."""
TOO_LATE: Final = "The client came back too late for this question: the hub stores it no more"
"""The error of a question that its client never sees."""


class StreamConnection:
    """One HTTP response while it carries an event stream.

    `ended`: it carries the stream no longer. `gone`: its client is gone too, so nothing can be
    sent. `lost`: how many events its client does not get, because they are stored no more.
    """

    def __init__(self, send: Send) -> None:
        self.ended = anyio.Event()
        self.gone = False
        self.lost = 0
        self._send = send
        self._writing: set[anyio.CancelScope] = set()
        self._is_complete = False

    async def write(self, chunk: bytes) -> None:
        """Send a piece of the response unless `ended`; `cut` interrupts this."""
        if self.ended.is_set():
            return
        with anyio.CancelScope() as scope:
            self._writing.add(scope)
            try:
                await self._send({"type": "http.response.body", "body": chunk, "more_body": True})
            finally:
                self._writing.discard(scope)

    def cut(self) -> None:
        """Carry the stream no longer, even if a piece is being written."""
        self.ended.set()
        for scope in self._writing:
            scope.cancel()

    async def hang_up(self) -> None:
        """Complete the response, unless it is complete or its client is gone."""
        if self.gone or self._is_complete:
            return
        self._is_complete = True
        with anyio.move_on_after(HANG_UP):
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def keep_alive(self) -> None:
        """Send a comment every `PING_EVERY` seconds until `ended`."""
        while not self.ended.is_set():
            with anyio.move_on_after(PING_EVERY):
                await self.ended.wait()
                return
            await self.ping()

    async def ping(self) -> None:
        """Send a comment."""
        await self.write(PING)


class EventStream:
    """The events of one stream, in order.

    `is_resumable`: a client knows an event's id; it may if the stream `begins_at` a number, behind
    the events of an earlier process. `carrier` is the connection that carries the stream now;
    `carried` is set while there is one, `idle` while there is none.
    """

    def __init__(
        self,
        journal: Journal,
        number: int,
        carrier: StreamConnection | None = None,
        *,
        begins_at: int = 0,
    ) -> None:
        self.is_resumable = bool(begins_at)
        self.carried = anyio.Event()
        self.idle = anyio.Event()
        self._journal = journal
        self.number = number
        self._first = self._last = begins_at
        self._turn = anyio.Lock()
        self._over = False
        self._questions: dict[int, Request] = {}
        self.carrier: StreamConnection | None = None
        self._carry(carrier)

    def knows(self, id_: EventId) -> bool:
        """Return whether a client can have got an event of this stream with this id."""
        return self.is_resumable and id_.number <= self._last

    def _carry(self, carrier: StreamConnection | None) -> None:
        self.carrier = carrier
        if carrier is None:
            self.carried = anyio.Event()
            self.idle.set()
        else:
            self.idle = anyio.Event()
            self.carried.set()

    async def prime(self) -> None:
        """Send an event id without data: the client can come back even before the first event."""
        async with self._turn:
            await self._prime()

    async def _prime(self) -> None:
        self.is_resumable = True
        id_ = EventId(self.number, self._last)
        await self._write(b"id: %b\r\nretry: %d\r\ndata: \r\n\r\n" % (str(id_).encode(), RETRY))

    async def put(self, message: Message) -> None:
        """Store a message as the next event, and send it if a connection carries the stream."""
        async with self._turn:
            self._last += 1
            id_ = EventId(self.number, self._last)
            chunk = b"id: %b\r\n" % str(id_).encode() + event(message)
            if isinstance(message, Request):
                self._questions = {
                    at: one for at, one in self._unanswered() if one.id != message.id
                }
                self._questions[self._last] = message
            self._journal.add(id_, chunk)
            self.is_resumable = True
            await self._write(chunk)

    def _unanswered(self) -> Iterable[tuple[int, Request]]:
        """Return what the client was asked over the stream and has not answered, by event."""
        waiting = self._journal.pending
        return [(at, one) for at, one in self._questions.items() if one.id in waiting]

    async def ask_again(self) -> None:
        """Ask anew what the client has not answered: it does not say which events it has got."""
        for _, question in self._unanswered():
            await self.put(question)

    def _end_lost_questions(self, after: EventId, left: Sequence[StoredEvent]) -> None:
        """Wait no more for answers to what the client was asked behind `after` and cannot get."""
        stored = {event.id.number for event in left}
        for number, question in self._questions.items():
            if number > after.number and number not in stored:
                self._journal.pending.settle(lost(question.id, TOO_LATE))

    async def comment(self) -> None:
        """Send a comment, which means nothing."""
        async with self._turn:
            await self._write(PING)

    async def _write(self, chunk: bytes) -> None:
        if self.carrier is not None:
            await self.carrier.write(chunk)

    def release(self, carrier: StreamConnection) -> None:
        """Let a connection carry the stream no longer."""
        carrier.cut()
        if self.carrier is carrier:
            self._carry(None)

    def end(self) -> None:
        """End the stream: no event will come any more."""
        self._over = True
        self.interrupt()

    async def attach(
        self, send: Send, after: EventId | None, *, primed: bool = False
    ) -> StreamConnection:
        """Let a new connection carry the stream, beginning behind the event `after`; return it.

        `primed`: send an event id, even if there is no new event.
        """
        carrier = StreamConnection(send)
        await begin_stream(send)
        # A writer that is stuck on the old connection holds `_turn`: release that connection first.
        displaced = [self.interrupt()]
        async with self._turn:
            displaced.append(self.interrupt())
            self._carry(carrier)
            if after is not None:
                after = EventId(after.stream, max(after.number, self._first))
                left = self._journal.after(after)
                carrier.lost = self._journal.count_lost(after, left, self._last)
                self._end_lost_questions(after, left)
                for stored in left:
                    await carrier.write(stored.chunk)
            if primed:
                await self._prime()
            if self._over:
                self.release(carrier)
        for before in displaced:
            if before is not None:
                await before.hang_up()
        return carrier

    def interrupt(self) -> StreamConnection | None:
        """Release and return the connection that carries the stream; its client may come back."""
        carrier = self.carrier
        if carrier is not None:
            self.release(carrier)
        return carrier

    async def hold(
        self, carrier: StreamConnection, receive: Receive, *, at_most: float | None = None
    ) -> None:
        """Keep a connection open while it carries the stream, then complete its response.

        Returns when the stream is over, the client is gone, another connection carries the stream,
        or `at_most` seconds have passed.
        """
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._watch, carrier, receive, tasks)
                with anyio.move_on_after(at_most):
                    await carrier.keep_alive()
                tasks.cancel_scope.cancel()
        finally:
            self.release(carrier)
        await carrier.hang_up()

    async def _watch(self, carrier: StreamConnection, receive: Receive, tasks: TaskGroup) -> None:
        await until_disconnected(receive, tasks, carrier.ping)
        carrier.gone = True
        self.release(carrier)


WAITING_NOTIFICATIONS, WAITING_BYTES = 256, 4 * 1024 * 1024
"""How many notifications, and bytes of them, wait for a client's event stream; the oldest are
dropped first, and one that is larger waits alone."""


class NotificationStream(EventStream):
    """The event stream that a client opens with GET; a session may be without one.

    `asking` is called when the client is asked something over the stream.
    """

    def __init__(
        self,
        journal: Journal,
        asking: Callable[[], None] = lambda: None,
        *,
        begins_at: int = 0,
    ) -> None:
        super().__init__(journal, STANDING, begins_at=begins_at)
        self._asking = asking
        self._holder: object = None
        self._is_listening = False
        self._waiting: deque[Notification] = deque()
        self._dropped = 0

    @property
    def is_open(self) -> bool:
        """Whether the client holds the stream open, or is opening it."""
        return self._holder is not None

    async def send(self, message: Message) -> None:
        """Send a message over the open stream; without one, a notification waits for the stream.

        Raises: GoneError for a request without an open stream, and after `end`.
        """
        if self._is_listening and self.carrier is not None:
            if isinstance(message, Request):
                self._asking()
            await self.put(message)
        elif not isinstance(message, Notification) or self._over:
            raise GoneError("the client holds no event stream open")
        else:
            waiting = self._waiting
            waiting.append(message)
            while len(waiting) > WAITING_NOTIFICATIONS or (
                len(waiting) > 1 and sum(size_of(one.params) for one in waiting) > WAITING_BYTES
            ):
                waiting.popleft()
                self._dropped += 1

    async def serve(
        self,
        send: Send,
        receive: Receive,
        opened: Callable[[], None],
        *,
        primed: bool,
        after: EventId | None = None,
    ) -> None:
        """Hold the stream open until client or session end it; call `opened` when it is up.

        It takes the place of a stream that is open: that one may be lost, which only its client
        knows yet. With `after`, resume the stream after that event; without it the client is asked
        again what it has not answered. If later events are stored no more, too many waited, or
        some may have gone into a lost stream, it is told to list again.
        """
        may_lack = self.is_open and after is None
        holder = object()
        self._holder = self._holder or holder
        try:
            carrier = await self.attach(send, after)
            # Till then the stream went on that was open; whoever came up last holds it.
            self._holder, self._is_listening = holder, False
            await (self.prime() if primed else self.comment())
            await self._catch_up(after, lacks=may_lack or bool(carrier.lost))
            if self._holder is holder:
                self._is_listening = True
                opened()
            await self.hold(carrier, receive)
        finally:
            if self._holder is holder:
                self._holder = None
                self._is_listening = False

    async def _catch_up(self, after: EventId | None, *, lacks: bool) -> None:
        """Send what waited for the stream; a client that `lacks` something is to list again."""
        if after is None:
            await self.ask_again()
        dropped, self._dropped = self._dropped, 0
        if dropped:
            self._journal.log.info(
                "too many notifications waited for a client's stream", lost=dropped
            )
        for method in LIST_CHANGED if lacks or dropped else ():
            await self.put(Notification(method, {}))
        while self._waiting:
            await self.put(self._waiting.popleft())
