"""Messages to and from a remote child: a POST for each, a task per request, the inbound queue."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator

import anyio
import msgspec
import structlog
from anyio.abc import TaskGroup
from msgspec import Raw

from hub.children.link import SHOWN, lost_in, message_in, parsed
from hub.children.remote.exchange import Exchange, ExchangeError
from hub.children.remote.http_client import Endpoint
from hub.jsonrpc import messages as wire
from hub.jsonrpc import parsing
from hub.jsonrpc.errors import ErrorHead, GoneError, head_of
from hub.jsonrpc.exact_json import MAX_PARTS, RequestId, WireError, request_id
from hub.jsonrpc.lines import MANY_LINES, PORTION
from hub.jsonrpc.messages import (
    Failure,
    Message,
    Notification,
    Request,
    Response,
    Untaken,
    lost,
    size_of,
    to_bytes,
)
from hub.jsonrpc.peer_conduct import LoopShare, PeerConduct
from hub.protocol.constants import INTERNAL_ERROR, METHOD_NOT_FOUND
from hub.protocol.sse_parser import EventParser, ServerSentEvent

QUEUE, MAX_UNREAD = 16, 64 * 1024 * 1024
"""How many messages of a child, and bytes, may wait in the queue; above that, its streams pause."""


class InboundQueue:
    """The messages from a child in order of arrival; `put` waits while those before are too many.

    A message that waits with its `put` is in the queue already, so that the end does not lose it.

    The reader has finished with a message when it asks for the next; `conduct` limits its pace.
    """

    def __init__(self, conduct: PeerConduct, max_unread: int = MAX_UNREAD) -> None:
        self.server = conduct.server
        self._conduct = conduct
        self._max_unread = max_unread
        self._waiting: deque[tuple[Message, int]] = deque()
        self._brought = self._taken = 0
        self._bytes_brought = self._bytes_taken = 0
        self._came: anyio.Event | None = None
        self._left: anyio.Event | None = None
        self.ended: str | None = None
        self.settle: Callable[[Response | Failure], bool] | None = None

    async def put(self, message: Message) -> None:
        """Add a message; after `end` it is dropped.

        If the queue is empty and its reader waits, a response goes to `settle` directly. If nobody
        waits for that response, it is queued as any other message.
        """
        if (
            self.settle is not None
            and self._came is not None
            and isinstance(message, Response | Failure)
            and self.settle(message)
        ):
            self._conduct.answers += 1
            return
        if self.ended is not None:
            return
        before, bytes_before = self._brought, self._bytes_brought
        entry = message, _size(message)
        self._waiting.append(entry)
        self._brought += 1
        self._bytes_brought += entry[1]
        self._tell()
        try:
            while self._is_full(before, bytes_before) and self.ended is None:
                self._left = self._left or anyio.Event()
                await self._left.wait()
        except BaseException:  # given up: nobody wants it any more
            self._drop(entry)
            raise

    def _drop(self, entry: tuple[Message, int]) -> None:
        kept = [one for one in self._waiting if one is not entry]
        if len(kept) < len(self._waiting):
            self._waiting = deque(kept)
            self._count_out(entry[1])

    def _count_out(self, size: int) -> None:
        self._taken += 1
        self._bytes_taken += size
        self._go_on()

    def _is_full(self, before: int, bytes_before: int) -> bool:
        """Return whether too many of the messages that were brought before one still wait."""
        many = before - self._taken >= QUEUE
        return many or bytes_before - self._bytes_taken >= self._max_unread

    def end(self, reason: str) -> None:
        """Accept no further messages; the first reason counts."""
        if self.ended is None:
            self.ended = reason
            self._tell()
            self._go_on()

    def hand_back(self, id_: RequestId, reason: str) -> None:
        """End, and tell who waits for a response to this request that it was not taken."""
        self.end(reason)  # first: the request must not come to this connection again
        if self.settle is not None:
            self.settle(Untaken(id_, {"code": INTERNAL_ERROR, "message": reason}))

    async def next(self) -> Message:
        """Return the next message. Raises: GoneError, with `end`'s reason, after the last one."""
        rest = self._conduct.pace.done()
        if rest is not None:
            await anyio.sleep(rest)
        while not self._waiting:
            if self.ended is not None:
                raise GoneError(self.ended)
            self._came = anyio.Event()
            await self._came.wait()
        message, size = self._waiting.popleft()
        self._conduct.pace.hand(size)
        self._count_out(size)
        return message

    def _tell(self) -> None:
        if self._came is not None:
            self._came.set()
            self._came = None

    def _go_on(self) -> None:
        if self._left is not None:
            self._left.set()
            self._left = None


def _size(message: Message) -> int:
    """Return about how many bytes a message has; what the hub has made up itself counts as 0."""
    match message:
        case Request(params=params):
            return size_of(params)
        case Response(result=Raw() as state) | Failure(error=Raw() as state):
            return memoryview(state).nbytes
        case Notification(params=Raw() as state):
            return memoryview(state).nbytes
        case _:
            return 0


log = structlog.stdlib.get_logger(__name__)


class RemoteLink:
    """The connection to a remote child, whose messages are queued; posts messages for its outlet.

    `tasks` run what is in flight. `outlet` is that of a connection which another transport takes
    over.
    """

    private_directory: str | None = None
    pid: int | None = None

    def __init__(
        self, endpoint: Endpoint, tasks: TaskGroup, outlet: HttpOutbox | None = None
    ) -> None:
        self._endpoint = endpoint
        self._tasks = tasks
        self.conduct = endpoint.conduct
        self.outlet = outlet or HttpOutbox(self, InboundQueue(self.conduct), tasks)
        self._inbound = self.outlet.inbound

    async def next(self) -> Message:
        return await self._inbound.next()

    def hand_answers_to(self, settle: Callable[[Response | Failure], bool]) -> None:
        self._inbound.settle = settle

    def asking(self, request: Request, body: bytes) -> Callable[[], Awaitable[None]]:
        """Return a function that posts a request with the present headers and queues the response.

        It raises ExchangeError if this request gets no response, GoneError if no request ever will.
        """
        raise NotImplementedError

    async def tell(self, message: Message, body: bytes) -> None:
        """Post a message that is not a request. Raises: ExchangeError if it is lost."""
        raise NotImplementedError


class HttpOutbox:
    """The outlet of a remote child; `tasks` run the requests, `inbound` gets their failures.

    Another `transport` may take over.
    """

    def __init__(self, transport: RemoteLink, inbound: InboundQueue, tasks: TaskGroup) -> None:
        self.transport = transport
        self.inbound = inbound
        self._tasks = tasks
        self._under_way: dict[RequestId, anyio.CancelScope] = {}

    async def send(self, message: Message) -> None:
        """Send a request and return; send any other message and wait until the child accepts it.

        A request that cannot be sent fails; any other message that cannot be sent is logged. A
        request that the message cancels is ended.

        Raises: GoneError when the connection has ended; WireError for a message that cannot be
            encoded.
        """
        if self.inbound.ended is not None:
            raise GoneError(self.inbound.ended)
        if self.post(message):
            return
        body, id_ = to_bytes(message), taken_back(message)
        try:
            await self.transport.tell(message, body)
        except ExchangeError as exc:
            log.warning("message lost", server=self.inbound.server, error=str(exc))
        except GoneError as exc:
            self.inbound.end(str(exc))
            raise
        finally:
            self.give_up(id_)

    def post(self, message: Message) -> bool:
        """Start sending if `message` is a request, without waiting; return whether it is one."""
        if not isinstance(message, Request) or self.inbound.ended is not None:
            return False
        ask = self.transport.asking(message, to_bytes(message))
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
            await self.inbound.put(lost(id_, str(exc)))
        except GoneError as exc:
            self.inbound.end(str(exc))
        finally:
            if self._under_way.get(id_) is scope:
                del self._under_way[id_]

    def has(self, id_: RequestId | None) -> bool:
        """Return whether a request is in flight."""
        return id_ in self._under_way

    def give_up(self, id_: RequestId | None, *, after: float = 0.0) -> None:
        """End a request's POST if it is still in flight after `after` seconds."""
        scope = None if id_ is None else self._under_way.get(id_)
        if scope is not None:
            scope.deadline = anyio.current_time() + after


def taken_back(message: Message) -> RequestId | None:
    """Return the id of the request that a message cancels; None for any other message."""
    if not isinstance(message, Notification) or message.method != "notifications/cancelled":
        return None
    return request_id(wire.as_object(message.params).get("requestId"))


LONGEST_REFUSAL = 1024 * 1024
REFUSAL_PATIENCE = 5.0
"""Seconds that the body of a refusal may take; its status says enough."""
_BAD_REQUEST, _NOT_FOUND = 400, 404
_SERVER_ERROR = -32000
_FORGOTTEN = ("session", "not initialized")

_batch = msgspec.json.Decoder(list[Raw])


async def events_in(
    chunk: bytes, parser: EventParser, conduct: PeerConduct
) -> AsyncGenerator[ServerSentEvent]:
    """Yield the events that `chunk` completes; a chunk with very many lines is read in pieces.

    Input that completes no event uses up the child's time. Input of an event that is too long
    counts as waste. Raises: GoneError if there was too much waste.
    """
    pace = conduct.pace
    for piece in _pieces(chunk):
        began = pace.clock()
        events = parser.feed(piece)
        if not events:
            pace.spend(pace.clock() - began, len(piece))
            why = conduct.verdict("events that do not end", len(piece)) if parser.is_cut else None
            if why is not None:
                raise GoneError(why)
        for event in events:
            yield event
            await _give_way(pace)
        await _give_way(pace)


async def _give_way(pace: LoopShare) -> None:
    rest = pace.rest()
    if rest is not None:
        await anyio.sleep(rest)


def _pieces(chunk: bytes) -> Iterator[bytes]:
    if chunk.count(b"\n") <= MANY_LINES and chunk.count(b"\r") <= MANY_LINES:
        yield chunk
        return
    for start in range(0, len(chunk), PORTION):
        yield chunk[start : start + PORTION]


def messages_in(conduct: PeerConduct, event: ServerSentEvent) -> Iterator[Message]:
    """Yield the messages in an event; MCP 2025-03-26 allows several.

    Text that is not a message is skipped. A `Failure` or `Lost` replaces a response that cannot be
    read or is too large. Raises: GoneError if there was too much that is not a message.
    """
    pace = conduct.pace
    began = pace.clock()
    if event.name != "message":
        conduct.log.debug("unknown event", name=event.name[:SHOWN])
        conduct.count("events of an unknown kind", len(event.text))
        pace.spend(pace.clock() - began)
        return
    if event.is_cut:
        cut = lost_in(conduct, event.text)
        if cut is not None:
            yield cut
        return
    for text in _texts(event.text):
        began = pace.clock()
        message = message_in(conduct, text, parsed(text), otherwise="event is not JSON-RPC")
        if not isinstance(message, Response | Failure):
            pace.spend(pace.clock() - began)
        if message is not None:
            yield message


def _texts(text: bytes) -> list[bytes]:
    # Each message of a list takes far more memory than the two bytes that it may have.
    if not text.lstrip().startswith(b"[") or text.count(b",") > MAX_PARTS:
        return [text]
    try:
        return [bytes(one) for one in _batch.decode(text)]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return [text]


async def refusal_in(exchange: Exchange, within: float = REFUSAL_PATIENCE) -> Failure | None:
    """Return the JSON-RPC error in a refusal's body, which says more than the status; or None.

    A body of more than `LONGEST_REFUSAL` bytes, or one that takes more than `within` seconds, is
    not read on.
    """
    text = b""
    try:
        with anyio.move_on_after(within):
            text = await exchange.body(LONGEST_REFUSAL)
        found = parsing.parse_child(text)
        if not isinstance(found, Failure) or "jsonrpc" not in wire.as_object(Raw(text)):
            return None
        code = head_of(found.error).code
    except (ExchangeError, WireError):
        return None
    return found if isinstance(code, int) and not isinstance(code, bool) else None


def is_session_unknown(status: int, error: Failure | None) -> bool:
    """Return whether a child refuses a message because it does not know the session.

    The protocol's status for that is 404. Servers made after the TypeScript SDK's example send 400
    and a text; after a restart they have forgotten every session.
    """
    said = ErrorHead() if error is None else head_of(error.error)
    if status == _NOT_FOUND:
        return bool(said.code != METHOD_NOT_FOUND)
    text = str(said.message).lower()
    known = error is None or error.id is not None or said.code != _SERVER_ERROR
    return status == _BAD_REQUEST and not known and any(word in text for word in _FORGOTTEN)
