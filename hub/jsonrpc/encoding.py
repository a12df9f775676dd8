"""Encode messages as JSON bytes, and estimate the size of a payload."""

from __future__ import annotations

from contextlib import suppress

from msgspec import Raw

from hub.jsonrpc.exact_json import UNWRITABLE, encode, encode_lines, encoder, mended
from hub.jsonrpc.messages import Failure, Message, Payload, Response
from hub.values import Json, object_or_empty


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


def to_line(message: Message) -> bytes:
    """Return a message as JSON with a newline; otherwise as `to_bytes`."""
    try:
        return encoder.encode_lines([message])
    except UNWRITABLE:
        return encode_lines([_as_text(message)])


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
