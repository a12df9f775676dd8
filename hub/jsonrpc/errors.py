"""Errors of a JSON-RPC connection: what the other side answers, or that it does not."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final, Self

import msgspec

from hub.jsonrpc.exact_json import WireError
from hub.jsonrpc.messages import Payload, as_object
from hub.legible import shortened
from hub.protocol.constants import INTERNAL_ERROR
from hub.values import Json, JsonObject, object_or_empty

SHOWN_OF_ERROR: Final = 1000
"""Characters of a received error's message that the exception's text has."""
_UNDECODABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class GoneError(Exception):
    """The other side is gone: nothing can be sent, and no response will come."""


class SilentError(Exception):
    """No response arrived within the timeout."""


class RpcError(Exception):
    """A JSON-RPC error, received or to be sent; `error` is the whole error object."""

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
        """Return a received error unchanged, so that it can be passed on.

        A malformed error, which a client might not accept as a response, becomes the `data` of a
        well-formed one. One that cannot be read is replaced by an internal error. The text of this
        exception, which goes into logs, has the beginning of a long message only.
        """
        try:
            head = head_of(error)
            code, message = head.code, head.message
            if type(code) is int and isinstance(message, str):
                return cls(code, shortened(message, SHOWN_OF_ERROR), error=error)
            read = as_object(error)
        except WireError as exc:
            return cls(INTERNAL_ERROR, f"the error that was answered cannot be read: {exc}")
        return cls(
            code if type(code) is int else INTERNAL_ERROR,
            shortened(message, SHOWN_OF_ERROR) if isinstance(message, str) else "error",
            read,
        )

    @property
    def data(self) -> JsonObject:
        """The error's data; empty if there is none, or none that can be read."""
        with suppress(WireError):
            return object_or_empty(as_object(self.error).get("data"))
        return {}


class InternalError(RpcError):
    """A fault of the hub's own, which its log describes."""

    def __init__(self) -> None:
        super().__init__(INTERNAL_ERROR, "Internal error of the hub; its log says more")


class LostError(RpcError):
    """The response was lost (`Lost`), for example because it was too large."""


class ErrorHead(msgspec.Struct, gc=False):
    """What says which error it is; its data, which can be long, is passed over."""

    code: Any = None
    message: Any = None


_error_head = msgspec.json.Decoder(ErrorHead)


def head_of(error: Payload) -> ErrorHead:
    """Return the code and the message of an error object, of any type.

    Raises: WireError if the error is not a JSON object.
    """
    if not isinstance(error, dict):
        with suppress(*_UNDECODABLE):
            return _error_head.decode(error)
    read = as_object(error)
    return ErrorHead(read.get("code"), read.get("message"))
