"""JSON-RPC messages: their types, their bytes, and the size of a payload. JSON-RPC 2.0."""

from __future__ import annotations

from contextlib import suppress
from typing import TypeAlias

import msgspec
from msgspec import Raw

from hub.jsonrpc.exact_json import (
    UNWRITABLE,
    RequestId,
    WireError,
    decode_strict,
    encode,
    encoder,
    mended,
)
from hub.protocol.constants import INTERNAL_ERROR, INVALID_REQUEST
from hub.values import Json, JsonObject, object_or_empty

MAX_MESSAGE_BYTES = 32 * 1024 * 1024

Payload: TypeAlias = Raw | JsonObject
"""A result, error or params object: unread bytes, or a parsed object."""


class _Versioned(msgspec.Struct, frozen=True, tag_field="jsonrpc", tag="2.0"):
    """The `"jsonrpc": "2.0"` field of every message."""


class Request(_Versioned, frozen=True, omit_defaults=True):
    """A JSON-RPC request."""

    id: RequestId
    method: str
    params: JsonObject = {}


class Notification(_Versioned, frozen=True, omit_defaults=True):
    """A JSON-RPC notification."""

    method: str
    params: Payload = {}


class Response(_Versioned, frozen=True):
    """A JSON-RPC response with a result."""

    id: RequestId
    result: Payload


class Failure(_Versioned, frozen=True):
    """A JSON-RPC error response; `id` is None if the request could not be read."""

    id: RequestId | None
    error: Payload


class Lost(Failure, frozen=True):
    """An error response made by the hub, because the child's response was lost or too large."""


class Untaken(Lost, frozen=True):
    """An error response made by the hub: the child is gone, and had not taken the request."""


def lost(id_: RequestId, why: str) -> Lost:
    """Return an internal error (-32603) for the request `id_` whose response was lost."""
    return Lost(id_, {"code": INTERNAL_ERROR, "message": why})


Message: TypeAlias = Request | Notification | Response | Failure


def failure_of(error: WireError) -> Failure:
    """Return the error response for a refused message."""
    return Failure(error.id, {"code": error.code, "message": str(error)})


def as_object(payload: Payload) -> JsonObject:
    """Return a payload as a parsed object; bytes are decoded, and repeated keys are tolerated.

    Raises: WireError if the payload is not a JSON object.
    """
    if isinstance(payload, dict):
        return payload
    value = decode_strict(bytes(payload), repeated_keys=True)
    if not isinstance(value, dict):
        raise WireError(INVALID_REQUEST, "Expected a JSON object")
    return value


def to_bytes(message: Message) -> bytes:
    """Return a message as JSON without a newline.

    In a response, lone surrogates (for example from a file name) are replaced: the response must
    be sent, because its request waits for it.

    Raises: WireError for any other message that has no JSON form, or for too deep nesting.
    """
    try:
        return encoder.encode(message)
    except UNWRITABLE:
        return encode(_as_text(message))


def _as_text(message: Message) -> Message:
    with suppress(RecursionError):  # the unchanged message then raises when it is encoded
        match message:
            case Response(id_, dict(result)):
                return Response(id_, object_or_empty(mended(result)))
            case Failure(id_, dict(error)):
                return Failure(id_, object_or_empty(mended(error)))
            case _:
                pass
    return message


def size_of_answer(answer: Response | Failure) -> int:
    """Return the approximate size of a response's payload in bytes."""
    return size_of(answer.result if isinstance(answer, Response) else answer.error)


def size_of(payload: Payload | Json) -> int:
    """Return the approximate size of a payload in bytes."""
    match payload:
        case Raw():
            return memoryview(payload).nbytes
        case str():
            return len(payload)
        case dict():
            return sum(len(key) + size_of(value) for key, value in payload.items())
        case list():
            return sum(map(size_of, payload), len(payload))
        case int():
            return 1 + payload.bit_length() // 3
        case _:
            return 8
