"""JSON-RPC messages: from bytes and back, with results carried and not read.

What a client sends is parsed once, strictly. What a child answers is carried as the bytes it wrote (`Raw`), so
numbers, unknown fields and key order come out as they went in. MCP basic protocol, "Messages"; JSON-RPC 2.0.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import TypeAlias, cast

import msgspec
from msgspec import Raw

from hub.core.protocol import INVALID_PARAMS, INVALID_REQUEST, PARSE_ERROR
from hub.core.values import Json, JsonObject

MAX_MESSAGE_BYTES = 32 * 1024 * 1024
MAX_DEPTH = 128

RequestId: TypeAlias = int | str
Payload: TypeAlias = Raw | JsonObject
"""A result, error or params object: bytes that are only carried, or an object that somebody made or read."""


@dataclass(frozen=True, slots=True)
class Request:
    """A JSON-RPC request."""

    id: RequestId
    method: str
    params: JsonObject


@dataclass(frozen=True, slots=True)
class Notification:
    """A JSON-RPC notification."""

    method: str
    params: Payload


@dataclass(frozen=True, slots=True)
class Response:
    """A successful answer."""

    id: RequestId
    result: Payload


@dataclass(frozen=True, slots=True)
class Failure:
    """An error answer; `id` is None where the request could not be read."""

    id: RequestId | None
    error: Payload


Message: TypeAlias = Request | Notification | Response | Failure


class WireError(Exception):
    """A message that cannot be taken: the JSON-RPC error to answer, and the request's id where it could be read."""

    def __init__(self, code: int, message: str, id: RequestId | None = None) -> None:  # noqa: A002 - the wire's word
        super().__init__(message)
        self.code = code
        self.id = id

    def failure(self) -> Failure:
        """The answer that tells the sender."""
        return Failure(self.id, {"code": self.code, "message": str(self)})


_encoder = msgspec.json.Encoder(decimal_format="number")
_decoder = msgspec.json.Decoder()


def encode(value: object) -> bytes:
    """Return `value` as one line of JSON.

    Raises: WireError for text that has no UTF-8 form (a lone surrogate) or nesting beyond the encoder's reach.
    """
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError as exc:
        raise WireError(INVALID_REQUEST, "Text is not valid Unicode (a lone surrogate)") from exc
    except RecursionError as exc:
        raise WireError(INVALID_REQUEST, "Nested too deeply") from exc


def as_object(payload: Payload) -> JsonObject:
    """Read a carried payload.

    Raises: WireError if it is not a JSON object.
    """
    if isinstance(payload, dict):
        return payload
    value = decode_strict(bytes(payload), repeated_keys=True)
    if not isinstance(value, dict):
        raise WireError(INVALID_REQUEST, "Expected a JSON object")
    return value


def _number(text: str) -> float | Decimal:
    """Keep a number's exact value where a float would change it."""
    value = float(text)
    if repr(value) == text:
        return value
    exact = Decimal(text)
    return value if math.isfinite(value) and Decimal(repr(value)) == exact else exact


def _refuse_constant(text: str) -> Json:
    raise ValueError(f"{text} is not JSON")


class _RepeatedKeyError(ValueError):
    pass


def _unique(pairs: list[tuple[str, Json]]) -> JsonObject:
    made = dict(pairs)
    if len(made) != len(pairs):
        seen: set[str] = set()
        repeated = next(key for key, _ in pairs if key in seen or seen.add(key))
        raise _RepeatedKeyError(f"The key {repeated!r:.80} stands twice in one object")
    return made


_strict = json.JSONDecoder(
    object_pairs_hook=_unique, parse_float=_number, parse_constant=_refuse_constant
)
_tolerant = json.JSONDecoder(parse_float=_number, parse_constant=_refuse_constant)


def decode_strict(line: bytes, *, repeated_keys: bool = False) -> Json:
    """Return the JSON value in `line`, exactly: numbers keep their value, no key stands twice, nesting is bounded.

    `repeated_keys` lets the last of several equal keys win, for what a child wrote and a client will read likewise.

    Raises: WireError with -32700 (not JSON) or -32600 (JSON that is not taken).
    """
    decoder = _tolerant if repeated_keys else _strict
    try:
        value = cast("Json", decoder.decode(line.decode("utf-8")))
        too_deep = line.count(b"[") + line.count(b"{") > MAX_DEPTH and _deeper_than(
            value, MAX_DEPTH
        )
    except _RepeatedKeyError as exc:
        raise WireError(INVALID_REQUEST, str(exc)) from exc
    except RecursionError as exc:
        raise WireError(INVALID_REQUEST, f"Nested deeper than {MAX_DEPTH} levels") from exc
    except ValueError as exc:  # JSON syntax, UTF-8, a number of more than 4,300 digits
        raise WireError(PARSE_ERROR, f"Parse error: {exc}"[:300]) from exc
    if too_deep:
        raise WireError(INVALID_REQUEST, f"Nested deeper than {MAX_DEPTH} levels")
    if b"\\u" in line:
        encode(value)
    return value


def _deeper_than(value: Json, limit: int) -> bool:
    level = [value]
    for _ in range(limit):
        following: list[Json] = []
        for item in level:
            if isinstance(item, dict):
                following.extend(item.values())
            elif isinstance(item, list):
                following.extend(item)
        if not following:
            return False
        level = following
    return True


def parse_client(line: bytes) -> Message:
    """Read one message of a client, strictly.

    Raises: WireError, to be answered on that message alone.
    """
    try:
        value = decode_strict(line)
    except WireError as exc:
        exc.id = _id_of(line)
        raise
    if not isinstance(value, dict):
        what = "Batches are not supported" if isinstance(value, list) else "Not a JSON-RPC object"
        raise WireError(INVALID_REQUEST, what)
    return message_of(value)


def _id_of(line: bytes) -> RequestId | None:
    """The id of a message that is refused, so that its sender need not wait for an answer in vain."""
    try:
        return _envelope.decode(line).id
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def message_of(value: JsonObject) -> Message:
    """Tell what kind of message an object is.

    Raises: WireError if it is none.
    """
    id_ = value.get("id")
    known_id = id_ if isinstance(id_, int | str) and not isinstance(id_, bool) else None
    if value.get("jsonrpc") != "2.0":
        raise WireError(INVALID_REQUEST, 'Not JSON-RPC: "jsonrpc" must be "2.0"', known_id)
    if "id" in value and known_id is None and "error" not in value:
        raise WireError(INVALID_REQUEST, '"id" must be a string or an integer')
    if "method" in value:
        return _asking(value, known_id)
    if "result" in value and known_id is not None:
        return Response(known_id, _object(value["result"], '"result"', known_id))
    if "error" in value:
        return Failure(known_id, _object(value["error"], '"error"', known_id))
    raise WireError(INVALID_REQUEST, 'Neither "method" nor "result" nor "error"', known_id)


def _asking(value: JsonObject, id_: RequestId | None) -> Request | Notification:
    method = value["method"]
    if not isinstance(method, str):
        raise WireError(INVALID_REQUEST, '"method" must be a string', id_)
    params = _object(value.get("params", {}), '"params"', id_)
    return Notification(method, params) if id_ is None else Request(id_, method, params)


def _object(value: Json, what: str, id_: RequestId | None) -> JsonObject:
    if value is None and what == '"params"':
        return {}
    if not isinstance(value, dict):
        code = INVALID_PARAMS if what == '"params"' else INVALID_REQUEST
        raise WireError(code, f"{what} must be an object", id_)
    return value


class _Envelope(msgspec.Struct, gc=False):
    """The outside of a child's message; what is inside stays bytes."""

    id: int | str | None = None
    method: str | None = None
    params: Raw = Raw(b"{}")
    result: Raw = Raw(b"")
    error: Raw = Raw(b"")


_envelope = msgspec.json.Decoder(_Envelope)
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")


def _open(line: bytes) -> _Envelope:
    try:
        return _envelope.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        if not _SURROGATE.search(line):
            raise WireError(PARSE_ERROR, f"Not a JSON-RPC message: {exc}") from exc
    return _open_masked(line)


def _open_masked(line: bytes) -> _Envelope:
    """Open a message with a lone surrogate in it, which JavaScript writes for a cut emoji and the decoder refuses.

    A copy with other escapes of the same length in their place tells where the payload is.
    """
    masked = _SURROGATE.sub(rb"\\u0041", line)
    try:
        envelope = _envelope.decode(masked)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise WireError(PARSE_ERROR, f"Not a JSON-RPC message: {exc}") from exc
    for field in ("params", "result", "error"):
        carried = bytes(getattr(envelope, field))
        if carried and (start := masked.find(carried)) >= 0:
            setattr(envelope, field, Raw(line[start : start + len(carried)]))
    return envelope


def parse_child(line: bytes) -> Message:
    """Read one message of a child: its outside only, so that an answer costs the same whatever its size.

    Raises: WireError if it is not a JSON-RPC message.
    """
    envelope = _open(line)
    if envelope.method is not None:
        if envelope.id is None:
            return Notification(envelope.method, envelope.params)
        return Request(envelope.id, envelope.method, as_object(envelope.params))
    if envelope.result and envelope.id is not None:
        return Response(envelope.id, envelope.result)
    if envelope.error:
        return Failure(envelope.id, envelope.error)
    raise WireError(INVALID_REQUEST, 'Neither "method" nor "result" nor "error"')


def _line(fields: dict[str, object]) -> bytes:
    return encode({"jsonrpc": "2.0", **fields})


def to_bytes(message: Message) -> bytes:
    """Return `message` as JSON without a line end."""
    match message:
        case Request(id_, method, params):
            return _line(
                {"id": id_, "method": method, "params": params}
                if params
                else {"id": id_, "method": method}
            )
        case Notification(method, params):
            empty = not params or params == Raw(b"{}")
            return _line({"method": method} if empty else {"method": method, "params": params})
        case Response(id_, result):
            return _line({"id": id_, "result": result})
        case Failure(id_, error):
            return _line({"id": id_, "error": error})


Parse: TypeAlias = Callable[[bytes], Message]
