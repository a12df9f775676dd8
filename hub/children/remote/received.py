"""What a remote child sent, as events or with a refusal, read as messages."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator

import anyio
import msgspec
from msgspec import Raw

from hub.children.child_messages import SHOWN, lost_in, message_in
from hub.children.remote.http_client import Exchange, ExchangeError
from hub.jsonrpc import messages as wire
from hub.jsonrpc.conduct import Conduct
from hub.jsonrpc.exact_json import WireError
from hub.jsonrpc.lines import CROWD, PORTION
from hub.jsonrpc.messages import Failure, Message, Response
from hub.jsonrpc.pace import Pace
from hub.jsonrpc.peer import GoneError
from hub.protocol.constants import METHOD_NOT_FOUND
from hub.protocol.sse_parser import Event, EventParser

_BAD_REQUEST, _NOT_FOUND = 400, 404
_SERVER_ERROR = -32000
_FORGOTTEN = ("session", "not initialized")

_batch = msgspec.json.Decoder(list[Raw])


async def events_in(chunk: bytes, parser: EventParser, conduct: Conduct) -> AsyncGenerator[Event]:
    """Yield the events that `chunk` completes; a crowd of lines is read bit by bit.

    What brings no event is paced, and counted if it belongs to no event that could be one.

    Raises: GoneError if that was too much.
    """
    pace = conduct.pace
    for piece in _pieces(chunk):
        began = pace.clock()
        events = parser.feed(piece)
        if not events:
            pace.spend(pace.clock() - began, len(piece))
            why = conduct.verdict("events without an end", len(piece)) if parser.is_cut else None
            if why is not None:
                raise GoneError(why)
        for event in events:
            yield event
            await _give_way(pace)
        await _give_way(pace)


async def _give_way(pace: Pace) -> None:
    rest = pace.rest()
    if rest is not None:
        await anyio.sleep(rest)


def _pieces(chunk: bytes) -> Iterator[bytes]:
    if chunk.count(b"\n") <= CROWD and chunk.count(b"\r") <= CROWD:
        yield chunk
        return
    for start in range(0, len(chunk), PORTION):
        yield chunk[start : start + PORTION]


def messages_in(conduct: Conduct, event: Event) -> Iterator[Message]:
    """Yield the messages in an event, of which 2025-03-26 allows several.

    What is none is passed over; for an answer that cannot be read, or is too large, its failure
    comes.

    Raises: GoneError if what is none was once too much.
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
        message = message_in(conduct, text, otherwise="event is not JSON-RPC")
        if not isinstance(message, Response | Failure):
            pace.spend(pace.clock() - began)
        if message is not None:
            yield message


def _texts(text: bytes) -> list[bytes]:
    if not text.lstrip().startswith(b"["):
        return [text]
    try:
        return [bytes(one) for one in _batch.decode(text)]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return [text]


async def refusal_in(exchange: Exchange) -> Failure | None:
    """Return the JSON-RPC error in the body of a refusal, which says more than the status."""
    try:
        text = await exchange.body(wire.MAX_MESSAGE_BYTES)
        found = wire.parse_child(text)
        if not isinstance(found, Failure) or "jsonrpc" not in wire.as_object(Raw(text)):
            return None
        code = wire.as_object(found.error).get("code")
    except (ExchangeError, WireError):
        return None
    return found if isinstance(code, int) and not isinstance(code, bool) else None


def is_session_unknown(status: int, error: Failure | None) -> bool:
    """Return whether a child that keeps sessions refuses a message for want of this one.

    The protocol's word for that is 404. Servers made after the TypeScript SDK's example say 400,
    and why in words; after a restart they have forgotten every session.
    """
    said = {} if error is None else wire.as_object(error.error)
    if status == _NOT_FOUND:
        return said.get("code") != METHOD_NOT_FOUND
    text = str(said.get("message", "")).lower()
    known = error is None or error.id is not None or said.get("code") != _SERVER_ERROR
    return status == _BAD_REQUEST and not known and any(word in text for word in _FORGOTTEN)
