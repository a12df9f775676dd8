"""What a child wrote, read as messages: what cannot be read fails one call at most."""

from __future__ import annotations

from typing import Final

from hub.jsonrpc import messages as wire
from hub.jsonrpc.conduct import Conduct
from hub.jsonrpc.exact_json import UnreadableAnswerError, WireError
from hub.jsonrpc.message_ids import answered_by
from hub.jsonrpc.messages import Failure, Lost, Message, lost
from hub.protocol.constants import INTERNAL_ERROR

SHOWN: Final = 200
"""How much is logged of what a child wrote that is no message."""


def message_in(conduct: Conduct, text: bytes, *, otherwise: str) -> Message | None:
    """Return the message that a child wrote; None for what is none, logged as `otherwise`.

    For an answer that cannot be read its failure stands.

    Raises: GoneError if that was once too often.
    """
    try:
        return wire.parse_child(text)
    except UnreadableAnswerError as exc:
        said = f"the answer of server {conduct.server!r} cannot be read: {exc}"
        return Failure(exc.id, {"code": INTERNAL_ERROR, "message": said})
    except WireError as exc:
        shown = text[:SHOWN].decode("utf-8", "replace")
        conduct.log.warning(otherwise, text=shown, error=str(exc)[:SHOWN])
        conduct.count(otherwise, len(text))
        return None


def lost_in(conduct: Conduct, ends: bytes) -> Lost | None:
    """Return what stands for the answer, too large, that these are both ends of.

    None, if they do not tell whose answer it is, or that it is one.
    """
    conduct.log.warning("message too large, dropped", limit=wire.MAX_MESSAGE_BYTES)
    id_ = answered_by(ends)
    return None if id_ is None else lost(id_, f"it has more than {wire.MAX_MESSAGE_BYTES} bytes")
