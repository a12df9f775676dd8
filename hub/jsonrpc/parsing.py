"""Parse JSON-RPC messages: `parse_client` strictly, `parse_child` without a look at the payload.

A client's message is parsed completely and strictly. A child's result stays the bytes that the
child wrote (`Raw`), so numbers, unknown fields and key order do not change. MCP basic protocol,
"Messages"; JSON-RPC 2.0.
"""

from __future__ import annotations

import json
import re
from typing import Any, Literal, TypeAlias, cast

import msgspec
from msgspec import Raw

from hub.jsonrpc.exact_json import (
    MAX_PARTS,
    RequestId,
    UnreadableAnswerError,
    WireError,
    as_we_write_it,
    decode_strict,
    has_surrogates,
    is_too_deep,
    limit_halves,
    limit_parts,
    masked,
    request_id,
)
from hub.jsonrpc.messages import (
    Failure,
    Message,
    Notification,
    Payload,
    Request,
    Response,
    as_object,
)
from hub.protocol.constants import INVALID_PARAMS, INVALID_REQUEST, PARSE_ERROR
from hub.values import Json, JsonObject

MAX_MASKED = 1024 * 1024
"""Bytes; in a refused message up to this size the id is searched everywhere, else at its start."""
_UNDECODABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_BEGINS = rb'\s*+\{\s*+(?:"jsonrpc"\s*+:\s*+"2\.0"\s*+,\s*+)?'
_ASKS = re.compile(_BEGINS + rb'(?:"id"[^,]*+,\s*+)?"method"')
_ID = rb'"id"\s*+:\s*+(\d{1,15}|"[ !#-\[\]-~]{1,128}")\s*+'
"""An id as nearly all clients write it: a number, or a text without escapes."""
_FIRST = re.compile(_BEGINS + _ID + b",")
_ANSWERS = re.compile(_FIRST.pattern + rb'\s*+"(?:result|error)"')
_MEMBER = re.compile(r"[\s,]*")
"""What stands before a member's name, in an object that is known to be one."""
_COLON = re.compile(r"\s*:\s*")
_MARK = b"\xef\xbb\xbf"
_DECODER = json.JSONDecoder(parse_int=str, parse_float=str, strict=False)
_LAST = re.compile(rb",\s*+" + _ID + rb'(?:,\s*+"jsonrpc"\s*+:\s*+"2\.0"\s*+)?\}\s*+$')


def id_first(text: bytes) -> RequestId | None:
    """Return the id at the start of a message; None if the id is not there."""
    return _id_in(_FIRST.match(text))


def answer_first(text: bytes) -> int | None:
    """Return the id at the start of a response, before `result` or `error`; None otherwise.

    The hub's own requests have numbers: a response to a text is to none of them.
    """
    return _number(_id_in(_ANSWERS.match(text)))


def answered_by(ends: bytes) -> int | None:
    """Return the id of a truncated response from its start and end (`ends`); None if unknown."""
    return None if _ASKS.match(ends) else _number(_at_either_end(ends))


def asked_by(ends: bytes) -> RequestId | None:
    """Return the id of a truncated request from its start and end (`ends`); None if unknown."""
    return _at_either_end(ends) if _ASKS.match(ends) else None


def _at_either_end(ends: bytes) -> RequestId | None:
    return _id_in(_FIRST.match(ends) or _LAST.search(ends))


def _id_in(found: re.Match[bytes] | None) -> RequestId | None:
    if found is None:
        return None
    return found[1][1:-1].decode() if found[1].startswith(b'"') else int(found[1])


def _number(id_: RequestId | None) -> int | None:
    return id_ if isinstance(id_, int) else None


def parse_client(line: bytes) -> Message:
    """Return one message of a client, parsed strictly.

    Raises: WireError for this message only; the connection stays usable.
    """
    if len(line) > MAX_PARTS:
        _limit_parts(line)
    decoder = _trailing if line.startswith(b'{"method"') else _leading
    found = as_we_write_it(line, decoder)
    if found is not None and not is_too_deep(line, found.params, below=1):
        return Request(found.id, found.method, found.params)
    return _parse_strictly(line)


def _limit_parts(line: bytes) -> None:
    try:
        limit_parts(line)
    except WireError as exc:
        exc.id = _id_of(line)
        raise


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


# Each member is required, for what these do not know is left out: so nothing but their members
# comes out the same as it was written.


class _Leading(msgspec.Struct, frozen=True):
    """A request with its fields in the order in which we write them."""

    jsonrpc: Literal["2.0"]
    id: int | str
    method: str
    params: dict[str, Any]


class _Trailing(msgspec.Struct, frozen=True):
    """A request with its fields in the order in which the TypeScript SDK writes them."""

    method: str
    params: dict[str, Any]
    jsonrpc: Literal["2.0"]
    id: int | str


_Spelled: TypeAlias = msgspec.json.Decoder[_Leading | _Trailing]
_leading = cast("_Spelled", msgspec.json.Decoder(_Leading))
_trailing = cast("_Spelled", msgspec.json.Decoder(_Trailing))


def _id_of(line: bytes) -> RequestId | None:
    """Return the id of a refused message, so that the error response reaches its request.

    In text that is not JSON, only an id at the start is found.
    """
    if len(line) > MAX_MASKED:
        return id_first(line)
    try:
        # The two ids differ if the id has a surrogate; then it cannot be sent back.
        ids = [_envelope.decode(masked(line, digit)).id for digit in ("e", "f")]
        return ids[0] if ids[0] == ids[1] else None
    except _UNDECODABLE:
        return id_first(line)


def message_of(value: JsonObject) -> Message:
    """Return the `Message` that a parsed object is.

    Raises: WireError if the object is not a JSON-RPC message.
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
    return {"code": INVALID_REQUEST, "message": f"The {what} of the response is not an object"}


class _Envelope(msgspec.Struct, gc=False):
    """The top-level fields of a child's message; the payloads stay bytes."""

    id: int | str | None = None
    method: str | None = None
    params: Raw = Raw(b"")
    result: Raw = Raw(b"")
    error: Raw = Raw(b"")


_envelope = msgspec.json.Decoder(_Envelope)
_OPENING = ord("{")


def _open_masked(line: bytes, why: Exception) -> _Envelope:
    """Return the envelope of a message with lone surrogates, which the decoder refuses.

    A masked copy is decoded to find the payload; the payload's bytes come from `line`.
    """
    if not has_surrogates(line):
        raise _unreadable(line, why) from why
    try:
        limit_halves(line)
        limit_parts(line)
        copy = masked(line)
        envelope = _envelope.decode(copy)
        spans = _spans(copy)
    except (*_UNDECODABLE, ValueError, WireError) as exc:
        raise _unreadable(line, exc) from exc
    for field, (start, end) in spans.items():
        if field in {"params", "result", "error"}:
            setattr(envelope, field, Raw(line[start:end]))
    return envelope


def _spans(line: bytes) -> dict[str, tuple[int, int]]:
    """Return where the value of each member of a JSON object begins and ends, in bytes.

    Raises: ValueError or RecursionError if it is no object that Python can read.
    """
    text = line.decode("latin-1")  # a character for each byte; JSON's own signs are ASCII
    found: dict[str, tuple[int, int]] = {}
    end = text.index("{") + 1
    while text[begin := _after(_MEMBER, text, end)] == '"':
        name, end = _DECODER.raw_decode(text, begin)
        start = _after(_COLON, text, end)
        _, end = _DECODER.raw_decode(text, start)
        found[str(name)] = start, end
    return found


def _after(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return at if found is None else found.end()


def parse_child(line: bytes) -> Message:
    """Return one message of a child; results, errors and a notification's params stay bytes.

    Its line ends, which are valid between tokens, become spaces: clients take them for the ends of
    messages or events. A byte order mark is dropped: some servers begin with one.

    Raises:
        UnreadableAnswerError: a response to a known id cannot be read.
        WireError: the line is not a JSON-RPC message.
    """
    line = line.removeprefix(_MARK).replace(b"\r", b" ").replace(b"\n", b" ")
    try:
        envelope = _envelope.decode(line)
    except _UNDECODABLE as exc:
        envelope = _open_masked(line, exc)
    if not line.isascii():
        _check_text(line, envelope)
    if envelope.method is not None:
        return _asked(envelope, envelope.method)
    if envelope.error and bytes(envelope.error) != b"null":
        if memoryview(envelope.error)[0] != _OPENING:
            raise _no_object(envelope.error, "error", envelope.id)
        return Failure(envelope.id, envelope.error)
    if envelope.result and envelope.id is not None:
        if memoryview(envelope.result)[0] != _OPENING:
            raise _no_object(envelope.result, "result", envelope.id)
        return Response(envelope.id, envelope.result)
    raise WireError(INVALID_REQUEST, 'Neither "method" nor "result" nor "error"')


def _check_text(line: bytes, envelope: _Envelope) -> None:
    try:
        line.decode("utf-8")
    except UnicodeDecodeError as exc:
        kind = UnreadableAnswerError if envelope.method is None else WireError
        raise kind(PARSE_ERROR, f"Not UTF-8: {exc}", envelope.id) from exc


def _no_object(answered: Raw, what: str, id_: RequestId | None) -> WireError:
    kind = WireError if id_ is None else UnreadableAnswerError
    shown = bytes(answered)[:200].decode("utf-8", "replace")
    return kind(INVALID_REQUEST, f"its {what} is no object: {shown}", id_)


def _unreadable(line: bytes, why: Exception) -> WireError:
    """Return the error for an unreadable line, with the id of its request if the start shows it."""
    id_ = answer_first(line)
    if id_ is not None:
        said = str(why) if isinstance(why, WireError) else f"Not JSON: {why}"
        return UnreadableAnswerError(PARSE_ERROR, said, id_)
    return WireError(PARSE_ERROR, f"Not a JSON-RPC message: {why}", _id_of(line))


def _asked(envelope: _Envelope, method: str) -> Request | Notification:
    """Return the request or notification; params that are absent or null count as empty.

    Raises: WireError if they are anything else than an object.
    """
    text = bytes(envelope.params)
    if text not in {b"", b"null"} and not text.startswith(b"{"):
        raise WireError(INVALID_PARAMS, '"params" must be an object', envelope.id)
    params: Payload = {} if text in {b"", b"null"} else envelope.params
    if envelope.id is None:
        return Notification(method, params)
    return Request(envelope.id, method, as_object(params))
