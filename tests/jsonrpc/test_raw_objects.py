import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from hub.jsonrpc.exact_json import WireError
from hub.jsonrpc.raw_objects import parted, with_fields

NUMBERS = b'{"a":1e400,"b":1.10,"c":1267650600228229401496703205376,"d":-0.0}'


@pytest.mark.parametrize("text", [b"5", b"[]", b"null", b'"x"', b"{"])
def test_text_that_is_not_an_object_is_an_error(text: bytes) -> None:
    with pytest.raises(WireError):
        parted(Raw(text), set())


@pytest.mark.parametrize("own", [b"{}", b" { }", b'{"b":1.10}', NUMBERS, b'\n{ "b":"\\ud83d" }'])
def test_fields_are_put_before_the_bytes_of_a_carried_object(own: bytes) -> None:
    made = bytes(with_fields(Raw(own), {"z": {"y": 1}}))
    assert made.endswith(own.lstrip()[1:].lstrip())
    assert json.loads(made) == {"z": {"y": 1}, **json.loads(own)}


@pytest.mark.parametrize(
    ("text", "taken", "rest"),
    [
        (b"{}", {}, b"{}"),
        (b'{"b":1, "b":2 }', {}, b'{"b":1, "b":2 }'),
        (b' { "a" : 1 } ', {"a": b"1"}, b"{}"),
        (b'{"a":1.10,"b":1e400,"c":3}', {"a": b"1.10", "c": b"3"}, b'{"b":1e400}'),
        (b'{"b" : {"a":"\\" ,"} , "a":[ 1 ] }', {"a": b"[ 1 ]"}, b'{"b" : {"a":"\\" ,"}}'),
        (b'{"\\ud83d":"\\ud83d","a":"\\ude00","d":5}', {"a": b'"\\ude00"'}, None),
        (b'{"\\u0061":1,"b":"a"}', {"a": b"1"}, b'{"b":"a"}'),
    ],
)
def test_fields_are_parted_from_the_bytes_of_the_others(
    text: bytes, taken: dict[str, bytes], rest: bytes | None
) -> None:
    found, others = parted(Raw(text), {"a", "c"})
    assert {key: bytes(value) for key, value in found.items()} == taken
    assert bytes(others) == (rest or b'{"\\ud83d":"\\ud83d","d":5}')


def test_keys_with_different_half_characters_are_different_keys() -> None:
    text = rb'{"\ud83d":1,"a":2,"\ud83e":3,"\udead":4,"A":5,"\uD83C":6}'
    taken, rest = parted(Raw(text), {"a", "A"})
    assert {key: bytes(value) for key, value in taken.items()} == {"a": b"2", "A": b"5"}
    assert bytes(rest) == rb'{"\ud83d":1,"\ud83e":3,"\udead":4,"\uD83C":6}'
    with pytest.raises(WireError):
        parted(Raw(rb'{"\ud83d":1,"a":2,"\uD83D":3}'), {"a"})


@pytest.mark.parametrize(
    "text", [b'{"a":1,"a":2}', b'{"a":1,"b":2,"a":12345}', b'{"b":[1,"a"],"b":1,"a":1}', b"[]"]
)
def test_an_object_with_a_repeated_key_is_an_error(text: bytes) -> None:
    with pytest.raises(WireError):
        parted(Raw(text), {"a"})


keys = st.text(st.characters(codec="utf-8"), max_size=3)
objects = st.dictionaries(keys, st.recursive(keys | st.integers(), st.lists), max_size=6)


@pytest.mark.long
@given(objects, st.sets(keys, max_size=3), st.booleans())
def test_parted_fields_and_the_rest_are_the_whole(
    whole: dict[str, object], some: set[str], ascii_only: bool
) -> None:
    taken, rest = parted(Raw(json.dumps(whole, ensure_ascii=ascii_only).encode()), some)
    assert {key: json.loads(bytes(value)) for key, value in taken.items()} == {
        key: value for key, value in whole.items() if key in some
    }
    assert json.loads(bytes(rest)) == {k: v for k, v in whole.items() if k not in some}
