"""Messages as the JSON that they are sent as."""

from __future__ import annotations

from contextlib import suppress

from msgspec import Raw

from hub.jsonrpc.exact_json import UNWRITABLE, encode, encode_lines, encoder, mended
from hub.jsonrpc.messages import Failure, Message, Payload, Response
from hub.values import Json, object_or_empty


def to_bytes(message: Message) -> bytes:
    """Return a message as JSON without a line end.

    In an answer, which somebody waits for, what is no text (a file name need not be) is replaced.

    Raises: WireError for another message that has no JSON form, or one that is nested too deeply.
    """
    try:
        return encoder.encode(message)
    except UNWRITABLE:
        return encode(_as_text(message))


def to_line(message: Message) -> bytes:
    """Return a message as a line of JSON; as `to_bytes`."""
    try:
        return encoder.encode_lines([message])
    except UNWRITABLE:
        return encode_lines([_as_text(message)])


def _as_text(message: Message) -> Message:
    with suppress(RecursionError):  # as it is, it has no JSON form either
        match message:
            case Response(id_, dict(result)):
                return Response(id_, object_or_empty(mended(result)))
            case Failure(id_, dict(error)):
                return Failure(id_, object_or_empty(mended(error)))
            case _:
                pass
    return message


def size_of_answer(answer: Response | Failure) -> int:
    """Return about how many bytes an answer has."""
    return size_of(answer.result if isinstance(answer, Response) else answer.error)


def size_of(payload: Payload | Json) -> int:
    """Return about how many bytes a payload has."""
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
