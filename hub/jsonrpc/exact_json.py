"""Strict JSON parser and encoder: exact numbers, unique keys, bounded depth, valid Unicode."""

from __future__ import annotations

import gc
import json
import re
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from decimal import Decimal
from typing import Literal, TypeAlias, TypeVar, cast

import msgspec

from hub.protocol.constants import INVALID_REQUEST, PARSE_ERROR
from hub.values import Json, JsonObject

_SURROGATE = re.compile(rb"\\u[dD](?=[89a-fA-F][0-9a-fA-F]{2})")


def has_surrogates(text: bytes) -> bool:
    """Return whether JSON text escapes a surrogate (U+D800 to U+DFFF), alone or in a pair."""
    return _SURROGATE.search(text) is not None


def masked(text: bytes, digit: Literal["e", "f"] = "e") -> bytes:
    """Return `text` with `digit` in place of the `d` that each surrogate escape begins with.

    The length and all positions stay the same, so a decoder that refuses lone surrogates can
    locate values in the text. Different surrogates stay different: two keys do not become one.
    """
    return _SURROGATE.sub(rb"\\u" + digit.encode(), text)


def mended(value: Json) -> Json:
    """Return `value` with surrogate pairs joined and lone surrogates replaced by U+FFFD."""
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, dict):
        return {str(mended(key)): mended(inner) for key, inner in value.items()}
    return [mended(inner) for inner in value] if isinstance(value, list) else value


MAX_DEPTH = 128
MAX_PARTS = 250_000
"""Lists, objects and keys in one message: reading takes a microsecond for each, or more.
Ten commas count as one of these: the items of a list take less."""
MAX_SPELLED = 50_000
"""Numbers in one message that have to keep their spelling (`1.10`, `1E5`, `-0`)."""
MAX_HALVES = 100_000
"""Escaped halves of characters (surrogates) in a message that has lone ones: such a message is read
in steps, which take long for each of them."""
MAX_DIGITS = 640
"""Digits that a number is computed from: the time for one grows with the square of its digits.
A longer one only keeps its spelling."""
_LONG = 64 * 1024
_SPACE = b" \t\r\n"
_AS_ZEROS = bytes.maketrans(b"123456789", b"0" * 9)
_LONGEST = b"0" * MAX_DIGITS
_STEP = 64
_SAMPLED = b"0" * (MAX_DIGITS // _STEP)

RequestId: TypeAlias = int | str


def request_id(value: Json) -> RequestId | None:
    """Return `value` if it is a valid request id or progress token (int or str), else None."""
    # In Python a bool is an int.
    return value if isinstance(value, int | str) and not isinstance(value, bool) else None


class WireError(Exception):
    """A message is refused: a JSON-RPC error `code`, and the message's `id` if it is known."""

    def __init__(self, code: int, message: str, id: RequestId | None = None) -> None:  # noqa: A002 - JSON-RPC's name
        super().__init__(message)
        self.code = code
        self.id = id


class UnreadableAnswerError(WireError):
    """The response to our request `id` cannot be read; the request must be ended with an error."""


class _Written(Decimal):
    """A number that is encoded exactly as it was spelled: `1.10`, `1E5`, `-0`."""

    __slots__ = ("text",)
    text: str


def _written(text: str) -> _Written:
    number = _Written(text)
    number.text = text
    return number


def _as_read(value: object) -> msgspec.Raw:
    if isinstance(value, _Written):
        return msgspec.Raw(value.text.encode())
    raise TypeError(f"{type(value).__name__} is not JSON")


_T = TypeVar("_T")

encoder = msgspec.json.Encoder(decimal_format="number", enc_hook=_as_read)
"""Give its `encode_lines` only lists: of others msgspec 0.22 makes a list that it never frees."""
UNWRITABLE = (UnicodeEncodeError, RecursionError)
"""The errors that `encoder` raises for a value that has no JSON form."""


def encode(value: object) -> bytes:
    """Return `value` as one line of JSON.

    Raises: WireError for a lone surrogate, or for nesting that is too deep for the encoder.
    """
    try:
        return encoder.encode(value)
    except RecursionError as exc:
        raise WireError(INVALID_REQUEST, "Nested too deeply") from exc
    except UnicodeEncodeError as exc:
        said = "Text is not valid Unicode (a lone surrogate)"
        raise WireError(INVALID_REQUEST, said) from exc


def _number(text: str) -> float | Decimal:
    """Return a float, or a `_Written` if the float would be encoded differently from `text`."""
    value = float(text)
    return value if repr(value) == text and "e" not in text else _written(text)


def _integer(text: str) -> int | Decimal:
    is_long = MAX_DIGITS < len(text) <= sys.get_int_max_str_digits()
    return _written(text) if is_long or text == "-0" else int(text)


def _refuse_constant(text: str) -> Json:
    raise ValueError(f"{text} is not JSON")


class _Spelling:
    """Reads numbers as `_number` and `_integer` do, but keeps only `MAX_SPELLED` spellings."""

    def __init__(self) -> None:
        self._kept = 0

    def number(self, text: str) -> float | Decimal:
        return self._counted(_number(text))

    def integer(self, text: str) -> int | Decimal:
        return self._counted(_integer(text))

    def _counted(self, value: _T) -> _T:
        if isinstance(value, _Written):
            self._kept += 1
            if self._kept > MAX_SPELLED:
                raise _TooMuchError(f"Over {MAX_SPELLED:,} numbers are written in an unusual way")
        return value


class _TooMuchError(ValueError):
    pass


class _RepeatedKeyError(ValueError):
    pass


def _unique(pairs: list[tuple[str, Json]]) -> JsonObject:
    made = dict(pairs)
    if len(made) != len(pairs):
        seen: set[str] = set()
        repeated = next(key for key, _ in pairs if key in seen or seen.add(key))
        raise _RepeatedKeyError(f"The key {repeated!r:.80} is repeated in one object")
    return made


def _reading(
    pairs: Callable[[list[tuple[str, Json]]], JsonObject] | None, spelling: _Spelling | None = None
) -> json.JSONDecoder:
    return json.JSONDecoder(
        object_pairs_hook=pairs,
        parse_float=_number if spelling is None else spelling.number,
        parse_int=_integer if spelling is None else spelling.integer,
        parse_constant=_refuse_constant,
    )


_strict, _tolerant = _reading(_unique), _reading(None)
_decoder = msgspec.json.Decoder[Json]()


_OF_PARTS = (b"[", b"{", b":", b",")


def limit_parts(line: bytes) -> None:
    """Refuse JSON that takes far longer to read than other JSON of its length.

    Raises: WireError if it has more than `MAX_PARTS`.
    """
    if len(line) <= MAX_PARTS or not any(_has_many(line, one) for one in _OF_PARTS):
        return  # nearly all of it is text
    if _parts(line) <= MAX_PARTS:
        return
    # Many texts have brackets and colons, too: only what stands outside of strings counts.
    if _has_too_many_parts(line.replace(b"\\\\", b"").replace(b'\\"', b"")):
        raise WireError(
            INVALID_REQUEST,
            f"Too many values: over {MAX_PARTS:,} lists, objects and keys (10 items count as one)",
        )


def _has_too_many_parts(bare: bytes) -> bool:
    """Return whether JSON without escaped quotes has more than `MAX_PARTS` outside of strings.

    It is cut at its quotes in portions: a list of all pieces may take 30 times its memory.
    """
    parts = commas = strings = 0
    is_inside = False
    for start in range(0, len(bare), _LONG):
        pieces = bare[start : start + _LONG].split(b'"')
        outside = b"".join(pieces[is_inside::2])
        commas += outside.count(b",")
        parts += _parts(outside.replace(b",", b""))
        strings += len(pieces) // 2
        is_inside ^= len(pieces) % 2 == 0
        # Each string is a key or an item: with so many more of them it is no JSON.
        if parts + commas // 10 > MAX_PARTS or strings > 12 * MAX_PARTS:
            return True
    return False


def limit_halves(line: bytes) -> None:
    """Refuse a text that has too many escaped surrogates, of which some are alone.

    Raises: WireError if it has more than `MAX_HALVES`.
    """
    if line.count(b"\\ud") + line.count(b"\\uD") > MAX_HALVES:
        raise WireError(INVALID_REQUEST, f"Over {MAX_HALVES:,} halves of characters, some alone")


def _parts(line: bytes) -> int:
    return line.count(b"[") + line.count(b"{") + line.count(b":") + line.count(b",") // 10


@contextmanager
def _uninterrupted(line: bytes) -> Generator[None]:
    """Keep Python from looking for garbage again and again while a long line is read."""
    if len(line) < _LONG or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def as_we_write_it(line: bytes, decoder: msgspec.json.Decoder[_T]) -> _T | None:
    """Return what `decoder` reads in `line` if our encoder writes the same bytes, else None.

    Space between values does not count. The same bytes prove that no key is repeated and that no
    number or text has changed. Most clients' messages pass, several times as fast as by the strict
    decoder. Depth is not checked. A decoder of a struct must require each member that we write:
    else a member with space in its name, which it leaves out, passes for one that has a default.
    """
    try:
        if len(line) < _LONG:  # nearly every message: a context costs more than it is worth here
            value = decoder.decode(line)
            written = encoder.encode(value)
        else:
            with _uninterrupted(line):
                if has_long_number(line):
                    return None
                value = decoder.decode(line)
                written = encoder.encode(value)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    # Space in texts is left out, too, but those are as the decoder has read them in any case.
    is_same = written == line or (
        len(written) < len(line) and written.translate(None, _SPACE) == line.translate(None, _SPACE)
    )
    return value if is_same else None


def has_long_number(line: bytes) -> bool:
    """Return whether `line` has `MAX_DIGITS` digits in a row, in a number or a text.

    In so many, each 64th byte is a digit, too: these alone rule out nearly all lines.
    """
    if _SAMPLED not in line[::_STEP].translate(_AS_ZEROS):
        return False
    return _LONGEST in line.translate(_AS_ZEROS)


def is_too_deep(line: bytes, value: Json, *, below: int = 0) -> bool:
    """Return whether the JSON in `line` is nested deeper than `MAX_DEPTH`.

    `value` is the part of that JSON that lies `below` levels deep.
    """
    if len(line) <= 2 * MAX_DEPTH:
        return False  # each level needs two brackets
    return _may_be_deep(line) and _deeper_than(value, MAX_DEPTH - below)


def _may_be_deep(line: bytes) -> bool:
    """Return whether `line` has enough brackets to be nested too deeply."""
    if len(line) < _LONG:
        return line.count(b"[") + line.count(b"{") > MAX_DEPTH
    return any(_has_many(line, bracket) for bracket in (b"[", b"{"))


def _has_many(line: bytes, sign: bytes) -> bool:
    """Return whether `line` has at least `MAX_DEPTH / 2` of `sign`.

    Faster than `count` for a long text with few of them.
    """
    at = -1
    for _ in range(MAX_DEPTH // 2):
        at = line.find(sign, at + 1)
        if at < 0:
            return False
    return True


def decode_strict(line: bytes, *, repeated_keys: bool = False) -> Json:
    """Return the JSON value in `line`; numbers keep their spelling.

    A key repeated in one object is an error. With `repeated_keys` the last one wins, as for most
    JSON readers, and lone surrogates are replaced: for text of a child.

    Raises: WireError with -32700 (not JSON) or -32600 (repeated key, too deep or too much to read,
        lone surrogate).
    """
    limit_parts(line)
    value = as_we_write_it(line, _decoder)
    if value is not None and not is_too_deep(line, value):
        return value
    value = _read_exactly(line, repeated_keys=repeated_keys)
    if is_too_deep(line, value):
        raise WireError(INVALID_REQUEST, f"Nested deeper than {MAX_DEPTH} levels")
    if b"\\u" not in line:
        return value
    if repeated_keys:
        return mended(value)
    encode(value)
    return value


def _read_exactly(line: bytes, *, repeated_keys: bool) -> Json:
    """Return the JSON value in `line`, read as `decode_strict` says but for depth and surrogates.

    Raises: WireError.
    """
    decoder = _tolerant if repeated_keys else _strict
    if len(line) > MAX_SPELLED:
        decoder = _reading(None if repeated_keys else _unique, _Spelling())
    try:
        with _uninterrupted(line):
            return cast("Json", decoder.decode(line.decode("utf-8")))
    except (_RepeatedKeyError, _TooMuchError) as exc:
        raise WireError(INVALID_REQUEST, str(exc)) from exc
    except RecursionError as exc:
        raise WireError(INVALID_REQUEST, f"Nested deeper than {MAX_DEPTH} levels") from exc
    except (ValueError, ArithmeticError) as exc:
        # JSON syntax, UTF-8, a number with over 4,300 digits or an exponent out of range
        raise WireError(PARSE_ERROR, f"Parse error: {exc}"[:300]) from exc


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
    return any(isinstance(item, dict | list) for item in level)
