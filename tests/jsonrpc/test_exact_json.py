from __future__ import annotations

import gc
import json
import sys
import tracemalloc
from collections.abc import Callable
from decimal import Decimal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.jsonrpc.exact_json import (
    MAX_DEPTH,
    MAX_DIGITS,
    MAX_HALVES,
    MAX_PARTS,
    MAX_SPELLED,
    RequestId,
    WireError,
    decode_strict,
    encode,
    encoder,
    has_long_number,
    has_surrogates,
    limit_halves,
    masked,
    mended,
    request_id,
)
from hub.jsonrpc.messages import Failure, Message, Notification, Request, Response, to_bytes
from hub.jsonrpc.parsing import parse_child
from hub.jsonrpc.pipes import to_line
from hub.protocol.constants import INVALID_REQUEST, PARSE_ERROR
from hub.values import Json, JsonObject


def refused(line: bytes, *, repeated_keys: bool = False) -> WireError:
    with pytest.raises(WireError) as caught:
        decode_strict(line, repeated_keys=repeated_keys)
    return caught.value


@pytest.mark.parametrize(
    "text",
    [
        "1e400",
        "-1e400",
        "1.10",
        str(2**100),
        "0.1",
        "1e-7",
        "1E5",
        "1e+16",
        "-0.0",
        "-0",
        "0.12345678901234567890",
    ],
)
def test_a_number_is_written_as_it_was_read(text: str) -> None:
    for value in (decode_strict(text.encode()), decode_strict(text.encode(), repeated_keys=True)):
        assert encode(value).decode() == text
        assert isinstance(value, int | float | Decimal)
        assert Decimal(str(value)) == Decimal(text)
    assert encode(decode_strict(f'{{ "a" : [ "b c", {text} ] }}'.encode())) == (
        f'{{"a":["b c",{text}]}}'.encode()
    )


DIGITS = st.text("0123456789", min_size=1, max_size=30)


@given(
    st.booleans(),
    DIGITS.filter(lambda digits: digits == "0" or digits[0] != "0"),
    st.none() | DIGITS,
    st.none() | st.tuples(st.sampled_from(["e", "E", "e+", "E-", "e-"]), st.integers(0, 500)),
)
def test_any_number_is_written_as_it_was_read(
    negative: bool,
    whole: str,
    fraction: str | None,
    exponent: tuple[str, int] | None,
) -> None:
    sign, behind = "-" if negative else "", "" if fraction is None else f".{fraction}"
    raised = "" if exponent is None else f"{exponent[0]}{exponent[1]}"
    line = f'{{"n": [{sign}{whole}{behind}{raised}]}}'.encode()
    assert encode(decode_strict(line)) == line.replace(b" ", b"")


def test_a_number_is_a_float_only_where_a_float_is_written_the_same() -> None:
    assert isinstance(decode_strict(b"1.5"), float)
    assert isinstance(decode_strict(b"1e2"), Decimal)
    assert isinstance(decode_strict(b"1e400"), Decimal)
    assert isinstance(decode_strict(b"0.1000000000000000055511151231257827"), Decimal)
    assert decode_strict(b"7") == 7


def test_values_that_are_not_json_are_not_written() -> None:
    with pytest.raises(TypeError, match="object is not JSON"):
        encode(object())


@pytest.mark.parametrize("text", [b"NaN", b"[Infinity]", b'{"a":-Infinity}'])
def test_an_invalid_number_is_a_parse_error(text: bytes) -> None:
    assert refused(text).code == PARSE_ERROR
    assert refused(text, repeated_keys=True).code == PARSE_ERROR


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"{}x",
        b"\xff",
        b'"\xed\xa0\x80"',
        b"1" * 5000,
        b"1e" + b"9" * 22,
        b"'a'",
        b"\x00",
    ],
)
def test_invalid_json_is_a_parse_error(text: bytes) -> None:
    error = refused(text)
    assert error.code == PARSE_ERROR
    assert len(str(error)) <= 300


@pytest.mark.parametrize("text", [b'{"a":1,"a":1}', b'[{"b":{"a":1,"x":0,"a":2}}]'])
def test_a_repeated_key_in_an_object_is_an_error(text: bytes) -> None:
    error = refused(text)
    assert error.code == INVALID_REQUEST
    assert str(error) == "The key 'a' is repeated in one object"


def test_two_spellings_of_a_key_are_one_key() -> None:
    assert refused(b'{"path":1,"p\\u0061th":2}').code == INVALID_REQUEST


def test_the_last_of_several_keys_wins_where_they_are_let_through() -> None:
    assert decode_strict(b'{"a":1,"a":2}', repeated_keys=True) == {"a": 2}


def test_no_memory_is_kept_of_what_is_written() -> None:
    def as_a_line(value: object) -> bytes:
        return encoder.encode_lines([value])

    for write in (encode, as_a_line):
        write({"a": 1})
        before = sys.getallocatedblocks()
        for _ in range(1000):
            write({"a": 1})
        assert sys.getallocatedblocks() - before < 500


def test_nesting_is_bounded() -> None:
    deepest = b"[" * MAX_DEPTH + b"]" * MAX_DEPTH
    assert decode_strict(deepest)
    assert decode_strict(b"[" + b"{}," * 500 + b"{}]"), "many are not deep"
    for text in (b"[" + deepest + b"]", b'{"a":' + deepest + b"}", b"[" * 10**5 + b"]" * 10**5):
        error = refused(text)
        assert (error.code, str(error)) == (INVALID_REQUEST, "Nested deeper than 128 levels")


def test_brackets_in_text_are_no_nesting() -> None:
    assert decode_strict(b'"' + b"[" * 1000 + b'"') == "[" * 1000


def test_text_must_be_valid_unicode() -> None:
    assert decode_strict(b'"\\ud83d\\ude00"') == "😀"
    for text in (b'"\\ud83d"', b'{"\\ude00":1}'):
        error = refused(text)
        assert error.code == INVALID_REQUEST
        assert "lone surrogate" in str(error)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b'"cut \\ud83d"', "cut \ufffd"),
        (b'["\\ude00 cut", 1, null, "whole \\ud83d\\ude00"]', ["\ufffd cut", 1, None, "whole 😀"]),
        (b'{"\\ud83d":{"a":"\\ud83dx"}}', {"\ufffd": {"a": "\ufffdx"}}),
    ],
)
def test_half_a_character_is_replaced_in_what_a_child_wrote(text: bytes, value: Json) -> None:
    assert decode_strict(text, repeated_keys=True) == value
    assert encode(value)


def test_what_has_no_json_form_is_not_written() -> None:
    deep: Json = []
    for _ in range(100_000):
        deep = [deep]
    for value in ("\ud83d", deep):
        with pytest.raises(WireError) as caught:
            encode(value)
        assert caught.value.code == INVALID_REQUEST


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(values)
def test_any_json_comes_back_as_it_was_written(value: Json) -> None:
    for line in (
        json.dumps(value).encode(),
        json.dumps(value, ensure_ascii=False).encode(),
        json.dumps(value, ensure_ascii=False, indent="\t").encode(),
        encode(value),
    ):
        assert json.loads(encode(decode_strict(line))) == value


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=6), st.data())
def test_a_key_is_repeated_or_not_however_much_space_there_is(
    keys: list[str], data: st.DataObject
) -> None:
    space = st.text("\t\r\n ", max_size=3)
    members = [
        f"{data.draw(space)}{json.dumps(key, ensure_ascii=False)}{data.draw(space)}:"
        f"{data.draw(space)}1.0{data.draw(space)}"
        for key in keys
    ]
    line = ("{" + ",".join(members) + data.draw(space) + "}").encode()
    if len(set(keys)) == len(keys):
        assert decode_strict(line) == dict.fromkeys(keys, 1.0)
    else:
        assert refused(line).code == INVALID_REQUEST


@given(st.binary(max_size=60))
def test_any_bytes_are_json_or_refused(line: bytes) -> None:
    try:
        value = decode_strict(line)
    except WireError:
        return
    assert json.loads(line) == value


@pytest.mark.parametrize("padding", [0, 100_000])
@pytest.mark.parametrize("bracket", ["[]", "{}"])
@pytest.mark.parametrize("repeated_keys", [True, False])
def test_depth_is_bounded_in_short_and_long_texts(
    padding: int, bracket: str, *, repeated_keys: bool
) -> None:
    opening = {"[]": "[", "{}": '{"a":'}[bracket]

    def nested(depth: int) -> bytes:
        inner = opening * (depth - 1) + '"' + "x" * padding + '"' + bracket[1] * (depth - 1)
        return f"[{inner}]".encode()

    assert decode_strict(nested(MAX_DEPTH), repeated_keys=repeated_keys)
    with pytest.raises(WireError, match="Nested deeper"):
        decode_strict(nested(MAX_DEPTH + 1), repeated_keys=repeated_keys)


@pytest.mark.parametrize("padding", ["", " "])
def test_siblings_do_not_count_as_depth(padding: str) -> None:
    deepest = "[" * (MAX_DEPTH - 1) + "1" + "]" * (MAX_DEPTH - 1)
    assert decode_strict(f"[[],{padding}{deepest}]".encode())
    with pytest.raises(WireError, match="Nested deeper"):
        decode_strict(f"[[],{padding}[{deepest}]]".encode())


def test_many_brackets_are_not_deep() -> None:
    wide: list[JsonObject] = [{"a": [1]} for _ in range(10_000)]
    assert decode_strict(encode(wide)) == wide


@pytest.mark.parametrize(
    ("value", "id_"),
    [(1, 1), ("1", "1"), ("", ""), (0, 0), (True, None), (1.0, None), (None, None), ([1], None)],
)
def test_a_requests_id_is_a_text_or_a_whole_number(value: Json, id_: RequestId | None) -> None:
    assert request_id(value) == id_


@pytest.mark.parametrize("repeated_keys", [False, True])
@pytest.mark.parametrize(
    ("item", "count"),
    [(b"[]", MAX_PARTS), (b"{}", MAX_PARTS), (b'{"a": 1}', MAX_PARTS // 2), (b"1", 10 * MAX_PARTS)],
)
def test_json_that_takes_very_long_to_read_is_an_error(
    item: bytes, count: int, repeated_keys: bool
) -> None:
    error = refused(b"[" + b",".join([item] * (count + 1)) + b"]", repeated_keys=repeated_keys)
    assert error.code == INVALID_REQUEST
    assert str(error).startswith("Too many values: over 250,000 lists, objects and keys")


def test_what_stands_in_a_text_does_not_count_as_values() -> None:
    text = json.dumps([{"a": [1]}] * MAX_PARTS)
    assert decode_strict(json.dumps({"text": text + chr(92)}).encode()) == {"text": text + chr(92)}


def test_a_list_of_many_short_texts_is_refused_without_much_more_memory() -> None:
    line = b'["[",' + b",".join([b'""'] * (10 * MAX_PARTS + 1)) + b"]"
    assert len(line) > 7_000_000
    tracemalloc.start()
    try:
        error = refused(line)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert str(error).startswith("Too many values")
    assert most < 3 * len(line)


@pytest.mark.parametrize("begins", range(7 * 5))
def test_what_counts_does_not_depend_on_where_a_long_text_is_cut(begins: int) -> None:
    """It is counted in portions, whose ends fall on each sign of a text of 7 and of a list of 5.

    The sixteenth portion of 64 KiB ends among the lists.
    """
    line = b"[" + b" " * begins + b",".join([b'"[[[["'] * 149_500 + [b"[[]]"] * 1000) + b"]"
    assert decode_strict(line)


@given(st.integers(0, 300), st.integers(MAX_DIGITS - 70, MAX_DIGITS + 70), st.sampled_from("05x"))
def test_a_row_of_many_digits_is_found_wherever_it_is(before: int, digits: int, sign: str) -> None:
    line = f"{sign * before},{'7' * digits}.{sign * 300}".encode()
    assert has_long_number(line) is (digits >= MAX_DIGITS)


@pytest.mark.parametrize("padding", [0, 100_000])
@pytest.mark.parametrize("digits", [MAX_DIGITS - 1, MAX_DIGITS, MAX_DIGITS + 1, 4300])
def test_a_number_of_many_digits_is_written_as_it_was_read(digits: int, padding: int) -> None:
    line = b'["%b",%b,-%b]' % (b"x" * padding, b"7" * digits, b"7" * (digits - 1))
    value = decode_strict(line)
    assert encode(value) == line
    assert isinstance(value, list)
    assert isinstance(value[1], Decimal) == (padding > 0 and digits > MAX_DIGITS)


def test_a_text_with_lone_halves_has_few_of_them() -> None:
    limit_halves(rb"\ud83d" * MAX_HALVES)
    for half in (rb"\ud83d", rb"\uDE00"):
        with pytest.raises(WireError, match="halves of characters"):
            limit_halves(half * (MAX_HALVES + 1))


@pytest.mark.parametrize("repeated_keys", [False, True])
@pytest.mark.parametrize("number", ["-0", "1E5"])
def test_only_so_many_numbers_keep_their_spelling(number: str, repeated_keys: bool) -> None:
    most = ("[" + ",".join([number] * MAX_SPELLED) + "]").encode()
    assert encode(decode_strict(most, repeated_keys=repeated_keys)) == most
    error = refused(b"[1.10," + most[1:], repeated_keys=repeated_keys)
    assert error.code == INVALID_REQUEST
    assert str(error) == "Over 50,000 numbers are written in an unusual way"


def test_the_garbage_collector_is_on_after_long_lines_that_are_read_or_refused() -> None:
    items = b"1," * 100_000
    assert decode_strict(b"[" + items + b"1]") == [1] * 100_001
    assert refused(b"[" + items).code == PARSE_ERROR
    assert gc.isenabled()


ODD = "/caf\udce9"
"""A path on the disk that is no text."""


def test_missing_params_are_not_written() -> None:
    assert (
        to_bytes(Request(1, "roots/list", {})) == b'{"jsonrpc":"2.0","id":1,"method":"roots/list"}'
    )
    assert to_bytes(Notification("n", {})) == b'{"jsonrpc":"2.0","method":"n"}'
    line = b'{"jsonrpc":"2.0","method":"n","params":{}}'
    assert to_bytes(parse_child(line)) == line, "as the child wrote it"
    assert (
        to_bytes(Notification("n", {"a": 1})) == b'{"jsonrpc":"2.0","method":"n","params":{"a":1}}'
    )
    assert to_bytes(Response(1, {})) == b'{"jsonrpc":"2.0","id":1,"result":{}}'


def test_a_message_is_always_one_line() -> None:
    written = to_bytes(Response("a\nb", {"text": "x\r\ny\u2028"}))
    assert b"\n" not in written
    assert b"\r" not in written


def test_an_answer_can_always_be_written() -> None:
    told = Response("x", {"path": ODD, "deeper": [{ODD: "\ud83d"}]})
    written = '{"path":"/caf\ufffd","deeper":[{"/caf\ufffd":"\ufffd"}]}'.encode()
    assert to_bytes(told) == b'{"jsonrpc":"2.0","id":"x","result":%b}' % written
    assert to_line(told) == to_bytes(told) + b"\n"
    failed = Failure(None, {"code": 1, "message": ODD})
    assert json.loads(to_line(failed))["error"] == {"code": 1, "message": "/caf\ufffd"}


def test_surrogates_in_requests_and_notifications_are_not_replaced() -> None:
    for message in (Request(1, "m", {"path": ODD}), Notification("n", {"path": ODD})):
        for write in (to_bytes, to_line):
            with pytest.raises(WireError):
                write(message)


def nested(depth: int) -> Json:
    deep: Json = ODD
    for _ in range(depth):
        deep = [deep]
    return deep


@pytest.mark.parametrize("write", [to_bytes, to_line])
def test_an_answer_that_is_nested_too_deeply_is_refused(
    write: Callable[[Message], bytes],
) -> None:
    with pytest.raises(WireError):
        write(Response(1, {"deep": nested(100_000)}))


@pytest.mark.parametrize("write", [to_bytes, to_line])
def test_an_answer_that_only_some_interpreters_can_write_is_whole_or_refused(
    write: Callable[[Message], bytes],
) -> None:
    """The limit of CPython 3.11 is below 700, that of 3.13 is not."""
    try:
        line = write(Response(1, {"deep": nested(700)}))
    except WireError:
        return
    assert line.count(b"[") == line.count(b"]") == 700


CUT = rb'{"a":"\ud83d","b":1}'


def test_a_half_character_is_noticed_in_json_text() -> None:
    assert has_surrogates(CUT)
    assert has_surrogates(rb'"\uDE00"')
    assert not has_surrogates(rb'{"a":"\u00e9","d800":1}')


def test_masked_text_can_be_decoded_and_has_everything_in_its_place() -> None:
    assert len(masked(CUT)) == len(CUT)
    assert msgspec.json.decode(masked(CUT)) == {"a": "\ue83d", "b": 1}
    assert msgspec.json.decode(masked(CUT, "f")) == {"a": "\uf83d", "b": 1}
    assert msgspec.json.decode(masked(rb'["\uD800","\udFFF"]')) == ["\ue800", "\uefff"]


def test_text_without_half_characters_stays_as_it_is_when_masked() -> None:
    text = '{"a":"\u00e9\\u0041"}'.encode()
    assert masked(text) == text


def test_a_lone_half_is_replaced_and_a_pair_is_put_together_at_any_depth() -> None:
    value = json.loads(r'{"\ud83d":["x\ude00",{"k":"\ud83d\ude00"},1]}')
    assert mended(value) == {"\ufffd": ["x\ufffd", {"k": "\U0001f600"}, 1]}
