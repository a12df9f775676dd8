"""What a remote child sent, as events or with a refusal, read as messages."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import structlog
from msgspec import Raw

from hub.core.events import Event
from hub.core.protocol import METHOD_NOT_FOUND
from hub.runtime import wire
from hub.runtime.child_messages import SHOWN, lost_in, message_in
from hub.runtime.endpoint import Exchange, ExchangeError
from hub.runtime.strict_json import WireError
from hub.runtime.wire import Failure, Message

_BAD_REQUEST, _NOT_FOUND = 400, 404
_SERVER_ERROR = -32000
_FORGOTTEN = ("session", "not initialized")

log = structlog.stdlib.get_logger(__name__)

_batch = msgspec.json.Decoder(list[Raw])


def messages_in(server: str, event: Event) -> Iterator[Message]:
    """Yield the messages in an event, of which 2025-03-26 allows several.

    What is none is passed over; for an answer that cannot be read, or is too large, its failure
    comes.
    """
    if event.name != "message":
        log.debug("unknown event", server=server, name=event.name[:SHOWN])
        return
    if event.is_cut:
        cut = lost_in(server, event.text)
        if cut is not None:
            yield cut
        return
    for text in _texts(event.text):
        message = message_in(server, text, otherwise="event is not JSON-RPC")
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
