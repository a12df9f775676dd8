import json

import pytest
from msgspec import Raw

from hub.runtime.carried import keys_of, with_fields
from hub.runtime.strict_json import WireError

NUMBERS = b'{"a":1e400,"b":1.10,"c":1267650600228229401496703205376,"d":-0.0}'


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        (b"{}", set[str]()),
        (b' { "a" : {"b": 1}, "c": [1e400, {"d": 2}] } ', {"a", "c"}),
        (b'{"a":1,"a":2}', {"a"}),
        (b'{"resultType":"x","t":"\\ud83d"}', {"resultType", "t"}),
        (b'{"\\u005fmeta":{}}', {"_meta"}),
    ],
)
def test_the_keys_of_a_carried_object_are_told_without_reading_it(
    text: bytes, keys: set[str]
) -> None:
    assert keys_of(Raw(text)) == keys


@pytest.mark.parametrize("text", [b"5", b"[]", b"null", b'"x"', b"{"])
def test_what_is_no_object_has_no_keys(text: bytes) -> None:
    with pytest.raises(WireError):
        keys_of(Raw(text))


@pytest.mark.parametrize("own", [b"{}", b" { }", b'{"b":1.10}', NUMBERS, b'\n{ "b":"\\ud83d" }'])
def test_fields_are_put_before_the_bytes_of_a_carried_object(own: bytes) -> None:
    made = bytes(with_fields(Raw(own), {"z": {"y": 1}}))
    assert made.endswith(own.lstrip()[1:].lstrip())
    assert json.loads(made) == {"z": {"y": 1}, **json.loads(own)}
