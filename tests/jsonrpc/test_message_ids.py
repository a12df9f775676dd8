from __future__ import annotations

import pytest

from hub.jsonrpc.parsing import answer_first, answered_by, asked_by, id_first


@pytest.mark.parametrize(
    ("text", "id_", "answers"),
    [
        (b'{"jsonrpc":"2.0","id":7,"result":{', 7, 7),
        (b' { "jsonrpc" : "2.0" , "id" : 7 , "error" : ', 7, 7),
        (b'{"id":7,"method":"m', 7, None),
        (b'{"jsonrpc":"2.0","id":7}', None, None),
        (b'{"jsonrpc":"2.0","id":"7","result":{', None, None),
        (b'{"jsonrpc":"2.0","id":1234567890123456,"result":{', None, None),
        (b'{"result":{"id":7,"result":1', None, None),
        (b"hello", None, None),
    ],
)
def test_a_beginning_tells_the_id_if_nothing_but_the_version_is_before_it(
    text: bytes, id_: int | None, answers: int | None
) -> None:
    assert (id_first(text), answer_first(text)) == (id_, answers)


@pytest.mark.parametrize(
    ("ends", "answered", "asked"),
    [
        (b'{"jsonrpc":"2.0","id":7,"result":{"a":"xxxx"}}', 7, None),
        (b'{"jsonrpc":"2.0","result":{"a":"xxxx"},"id":7}', 7, None),
        (b'{"result":{"a":"xxxx"},"id":7,"jsonrpc":"2.0"}', 7, None),
        (b'{"jsonrpc":"2.0","id":7,"method":"m","params":{"a":"xxxx"}}', None, 7),
        (b'{"method":"m","params":{"a":"xxxx"},"jsonrpc":"2.0","id":7}', None, 7),
        (b'{"method":"m","params":{"a":"xxxx"},"id":7,"jsonrpc":"2.0"}', None, 7),
        (b'{"jsonrpc":"2.0","method":"m","params":{"a":"xxxx"}}', None, None),
        (b'"xxxx', None, None),
    ],
)
def test_the_id_is_found_at_either_end_of_a_message(
    ends: bytes, answered: int | None, asked: int | None
) -> None:
    assert (answered_by(ends), asked_by(ends)) == (answered, asked)
