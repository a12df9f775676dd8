"""JSON-RPC messages: from bytes and back, with results carried and not read.

What a client sends is parsed once, strictly. What a child answers is carried as the bytes it wrote
(`Raw`), so numbers, unknown fields and key order come out as they went in. MCP basic protocol,
"Messages"; JSON-RPC 2.0.
"""

from __future__ import annotations

import re
from typing import Any, Literal, TypeAlias, cast

import msgspec
from msgspec import Raw

from hub.jsonrpc.exact_json import (
    RequestId,
    UnreadableAnswerError,
    WireError,
    as_we_write_it,
    decode_strict,
    has_surrogates,
    is_too_deep,
    masked,
    request_id,
)
from hub.protocol.constants import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, PARSE_ERROR
from hub.values import Json, JsonObject

_BEGINS = rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?'
_ASKS = re.compile(_BEGINS + rb'(?:"id"[^,]*,\s*)?"method"')
_FIRST = re.compile(_BEGINS + rb'"id"\s*:\s*(\d{1,15})\s*,')
_ANSWERS = re.compile(_FIRST.pattern + rb'\s*"(?:result|error)"')
_LAST = re.compile(rb',\s*"id"\s*:\s*(\d{1,15})\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$')


def id_first(text: bytes) -> int | None:
    """Return the id that a message begins with; None if it begins otherwise."""
    return _number(_FIRST.match(text))


def answer_first(text: bytes) -> int | None:
    """Return the id that an answer begins with; None if what begins is none, or does not tell."""
    return _number(_ANSWERS.match(text))


def answered_by(ends: bytes) -> int | None:
    """Return the id of the answer that these are both ends of; None if they do not tell."""
    return None if _ASKS.match(ends) else _at_either_end(ends)


def asked_by(ends: bytes) -> int | None:
    """Return the id of the request that these are both ends of; None if they do not tell."""
    return _at_either_end(ends) if _ASKS.match(ends) else None


def _at_either_end(ends: bytes) -> int | None:
    return _number(_FIRST.match(ends) or _LAST.search(ends))


def _number(found: re.Match[bytes] | None) -> int | None:
    return None if found is None else int(found[1])


MAX_MESSAGE_BYTES = 32 * 1024 * 1024
MAX_MASKED = 1024 * 1024
"""Bytes of a message that is refused up to which its id is looked for wherever it may be."""
_UNDECODABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

Payload: TypeAlias = Raw | JsonObject
"""A result, error or params object: bytes only carried, or an object somebody made or read."""


class _Versioned(msgspec.Struct, frozen=True, tag_field="jsonrpc", tag="2.0"):
    """What every message begins with."""


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
    """A successful answer."""

    id: RequestId
    result: Payload


class Failure(_Versioned, frozen=True):
    """An error answer; without id if the request was unreadable."""

    id: RequestId | None
    error: Payload


class Lost(Failure, frozen=True):
    """What stands for an answer that will not come."""


def lost(id_: RequestId, why: str) -> Lost:
    """Return what stands for an answer that will not come."""
    return Lost(id_, {"code": INTERNAL_ERROR, "message": why})


Message: TypeAlias = Request | Notification | Response | Failure


def failure_of(error: WireError) -> Failure:
    """Return the answer that tells the sender of a message why it is not taken."""
    return Failure(error.id, {"code": error.code, "message": str(error)})


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


def parse_client(line: bytes) -> Message:
    """Read one message of a client, strictly.

    Raises: WireError, to be answered on that message alone.
    """
    decoder = _trailing if line.startswith(b'{"method"') else _leading
    found = as_we_write_it(line, decoder)
    if found is not None and not is_too_deep(line, found.params, below=1):
        return Request(found.id, found.method, found.params)
    return _parse_strictly(line)


def _parse_strictly(line: bytes) -> Message:
    try:
        value = decode_strict(line)
    except WireError as exc:
        exc.id = _id_of(line)
        raise
    if not isinstance(value, dict):
        what = "Batches are not supported" if isinstance(value, list) else "Not a JSON-RPC object"
        raise WireError(INVALID_REQUEST, what)
    return message_of(value)


class _Leading(_Versioned, frozen=True):
    """A request in the order in which we write it."""

    id: int | str
    method: str
    params: dict[str, Any]


class _Trailing(msgspec.Struct, frozen=True):
    """A request in the order in which the TypeScript SDK writes it."""

    method: str
    params: dict[str, Any]
    jsonrpc: Literal["2.0"]
    id: int | str


_Spelled: TypeAlias = msgspec.json.Decoder[_Leading | _Trailing]
_leading = cast("_Spelled", msgspec.json.Decoder(_Leading))
_trailing = cast("_Spelled", msgspec.json.Decoder(_Trailing))


def _id_of(line: bytes) -> RequestId | None:
    """Return the id of a refused message, so that nobody waits for its answer in vain.

    Where the message is no JSON at all, an id at its beginning still counts.
    """
    if len(line) > MAX_MASKED:
        return id_first(line)
    try:
        # An id with half a character in it is none that could be given back.
        ids = [_envelope.decode(masked(line, letter)).id for letter in ("A", "B")]
        return ids[0] if ids[0] == ids[1] else None
    except _UNDECODABLE:
        return id_first(line)


def message_of(value: JsonObject) -> Message:
    """Tell what kind of message an object is.

    Raises: WireError if it is none.
    """
    known_id = request_id(value.get("id"))
    if value.get("jsonrpc") != "2.0":
        raise WireError(INVALID_REQUEST, 'Not JSON-RPC: "jsonrpc" must be "2.0"', known_id)
    if "id" in value and known_id is None and "error" not in value:
        raise WireError(INVALID_REQUEST, '"id" must be a string or an integer')
    if "method" in value:
        return _asking(value, known_id)
    if "error" in value and value["error"] is not None:
        return Failure(known_id, _answered(value["error"], "error"))
    if "result" in value and known_id is not None:
        result = value["result"]
        if isinstance(result, dict):
            return Response(known_id, result)
        return Failure(known_id, _answered(result, "result"))
    raise WireError(INVALID_REQUEST, 'Neither "method" nor "result" nor "error"', known_id)


def _asking(value: JsonObject, id_: RequestId | None) -> Request | Notification:
    method = value["method"]
    if not isinstance(method, str):
        raise WireError(INVALID_REQUEST, '"method" must be a string', id_)
    params = value.get("params")
    if params is None:
        params = {}
    elif not isinstance(params, dict):
        raise WireError(INVALID_PARAMS, '"params" must be an object', id_)
    return Notification(method, params) if id_ is None else Request(id_, method, params)


def _answered(value: Json, what: str) -> JsonObject:
    if isinstance(value, dict) and what == "error":
        return value
    return {"code": INVALID_REQUEST, "message": f"The {what} that was answered is no object"}


class _Envelope(msgspec.Struct, gc=False):
    """The outside of a child's message; what is inside stays bytes."""

    id: int | str | None = None
    method: str | None = None
    params: Raw = Raw(b"")
    result: Raw = Raw(b"")
    error: Raw = Raw(b"")


_envelope = msgspec.json.Decoder(_Envelope)
_OPENING = ord("{")


def _open_masked(line: bytes, why: Exception) -> _Envelope:
    """Open a message with a half character in it, which the decoder refuses.

    A masked copy tells where the payload is.
    """
    if not has_surrogates(line):
        raise _unreadable(line, why) from why
    copy = masked(line)
    try:
        envelope = _envelope.decode(copy)
    except _UNDECODABLE as exc:
        raise _unreadable(line, exc) from exc
    for field in ("params", "result", "error"):
        carried = bytes(getattr(envelope, field))
        after = copy.find(b'"%b"' % field.encode())
        if carried and (start := copy.find(carried, after)) >= 0:
            setattr(envelope, field, Raw(line[start : start + len(carried)]))
    return envelope


def parse_child(line: bytes) -> Message:
    """Read one message of a child: its outside only, so that a large answer costs no more.

    Raises: WireError if it is not a JSON-RPC message.
    """
    try:
        envelope = _envelope.decode(line)
    except _UNDECODABLE as exc:
        envelope = _open_masked(line, exc)
    if not line.isascii():
        _check_text(line, envelope)
    if envelope.method is not None:
        params = _params_of(envelope)
        if envelope.id is None:
            return Notification(envelope.method, params)
        return Request(envelope.id, envelope.method, as_object(params))
    if envelope.error and bytes(envelope.error) != b"null":
        return Failure(envelope.id, _carried(envelope.error, "error", envelope.id))
    if envelope.result and envelope.id is not None:
        return Response(envelope.id, _carried(envelope.result, "result", envelope.id))
    raise WireError(INVALID_REQUEST, 'Neither "method" nor "result" nor "error"')


def _check_text(line: bytes, envelope: _Envelope) -> None:
    try:
        line.decode("utf-8")
    except UnicodeDecodeError as exc:
        kind = UnreadableAnswerError if envelope.method is None else WireError
        raise kind(PARSE_ERROR, f"Not UTF-8: {exc}", envelope.id) from exc


def _carried(answered: Raw, what: str, id_: RequestId | None) -> Raw:
    if memoryview(answered)[0] == _OPENING:
        return answered
    kind = WireError if id_ is None else UnreadableAnswerError
    shown = bytes(answered)[:200].decode("utf-8", "replace")
    raise kind(INVALID_REQUEST, f"its {what} is no object: {shown}", id_)


def _unreadable(line: bytes, why: Exception) -> WireError:
    """Return the error for a line that cannot be read, and whose answer it seems to be."""
    id_ = answer_first(line)
    if id_ is not None:
        return UnreadableAnswerError(PARSE_ERROR, f"Not JSON: {why}", id_)
    return WireError(PARSE_ERROR, f"Not a JSON-RPC message: {why}", _id_of(line))


def _params_of(envelope: _Envelope) -> Payload:
    """Return the params, which may be absent or null; all else must be an object."""
    text = bytes(envelope.params)
    if text in {b"", b"null"}:
        return {}
    if not text.startswith(b"{"):
        raise WireError(INVALID_PARAMS, '"params" must be an object', envelope.id)
    return envelope.params
