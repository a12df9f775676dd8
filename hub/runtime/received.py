"""What a remote child wrote, read as messages; what cannot be read fails one call at most."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import structlog
from msgspec import Raw

from hub.core.events import Event
from hub.core.protocol import INTERNAL_ERROR, METHOD_NOT_FOUND
from hub.runtime import wire
from hub.runtime.endpoint import Exchange, ExchangeError
from hub.runtime.link import answered_by
from hub.runtime.strict_json import UnreadableAnswerError, WireError
from hub.runtime.wire import Failure, Message, lost

TOO_LARGE = f"it has more than {wire.MAX_MESSAGE_BYTES} bytes"
_SHOWN = 200
_BAD_REQUEST, _NOT_FOUND = 400, 404
_SERVER_ERROR = -32000
_FORGOTTEN = ("session", "not initialized")

log = structlog.stdlib.get_logger(__name__)

_batch = msgspec.json.Decoder(list[Raw])


def messages_in(server: str, event: Event) -> Iterator[Message]:
    """Yield the messages in an event, of which 2025-03-26 allows several.

    What is none is logged and passed over; for an answer that cannot be read, or is too large, its
    failure comes.
    """
    if event.name != "message":
        log.debug("unknown event", server=server, name=event.name[:_SHOWN])
        return
    if event.is_cut:
        log.warning("message too large, dropped", server=server, limit=wire.MAX_MESSAGE_BYTES)
        id_ = answered_by(event.text)
        if id_ is not None:
            yield lost(id_, TOO_LARGE)
        return
    for text in _texts(event.text):
        try:
            yield wire.parse_child(text)
        except UnreadableAnswerError as exc:
            said = f"the answer of server {server!r} cannot be read: {exc}"
            yield Failure(exc.id, {"code": INTERNAL_ERROR, "message": said})
        except WireError as exc:
            shown = text[:_SHOWN].decode("utf-8", "replace")
            log.warning("event is not JSON-RPC", server=server, text=shown, error=str(exc))


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
