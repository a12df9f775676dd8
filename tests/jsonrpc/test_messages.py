from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from hub.jsonrpc.exact_json import (
    MAX_DEPTH,
    MAX_HALVES,
    MAX_PARTS,
    UnreadableAnswerError,
    WireError,
    encode,
)
from hub.jsonrpc.messages import (
    Failure,
    Message,
    Notification,
    Payload,
    Request,
    Response,
    as_object,
    failure_of,
    size_of,
    size_of_answer,
    to_bytes,
)
from hub.jsonrpc.parsing import (
    answer_first,
    answered_by,
    asked_by,
    id_first,
    message_of,
    parse_child,
    parse_client,
)
from hub.jsonrpc.pipes import to_line
from hub.protocol.constants import INVALID_PARAMS, INVALID_REQUEST, PARSE_ERROR
from hub.values import Json

NUMBERS = b'{"a":1e400,"b":1.10,"c":1267650600228229401496703205376,"d":-0.0}'


def refused(line: bytes) -> WireError:
    with pytest.raises(WireError) as caught:
        parse_client(line)
    return caught.value


def refused_of_child(line: bytes) -> WireError:
    with pytest.raises(WireError) as caught:
        parse_child(line)
    return caught.value


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"jsonrpc":"2.0","id":1,"method":"ping"}', Request(1, "ping", {})),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":null}', Request(1, "ping", {})),
        (b'{"jsonrpc":"2.0","id":"a","method":"m","params":{"x":1}}', Request("a", "m", {"x": 1})),
        (b'{"method":"m","params":{"x":1},"jsonrpc":"2.0","id":1}', Request(1, "m", {"x": 1})),
        (b'{"method":"m","params":{},"jsonrpc":"2.0","id":1,"x":2}', Request(1, "m", {})),
        (b'{"method":"m","jsonrpc":"2.0"}', Notification("m", {})),
        (b'{"jsonrpc":"2.0","method":"m","params":{"x":1}}', Notification("m", {"x": 1})),
        (b'{"jsonrpc":"2.0","id":1,"result":{"x":1}}', Response(1, {"x": 1})),
        (b'{"jsonrpc":"2.0","id":1,"error":{"code":-1}}', Failure(1, {"code": -1})),
        (b'{"jsonrpc":"2.0","id":null,"error":{"code":-1}}', Failure(None, {"code": -1})),
        (b' {"jsonrpc" : "2.0", "method": "m", "more": 1}\r', Notification("m", {})),
        (
            b'{"jsonrpc":"2.0","id":1267650600228229401496703205376,"method":"m"}',
            Request(2**100, "m", {}),
        ),
    ],
)
def test_a_clients_message_is_what_it_says(line: bytes, message: Message) -> None:
    assert parse_client(line) == message


@pytest.mark.parametrize(
    ("line", "code", "id_"),
    [
        (b"{", PARSE_ERROR, None),
        (b'{"jsonrpc":"2.0","id":7,"method":"m","params":{"a":NaN}}', PARSE_ERROR, 7),
        (b'{"jsonrpc":"2.0","method":"m","params":{"a":NaN},"id":7}', PARSE_ERROR, None),
        (b' { "jsonrpc" : "2.0" , "id" : 7 , nonsense', PARSE_ERROR, 7),
        (b'{"id":7,"jsonrpc":"2.0","method":"m","params":{"a":NaN}}', PARSE_ERROR, 7),
        (
            b'{"jsonrpc":"2.0","id":7,"method":"m","params":{"a":1e%b}}' % (b"9" * 22),
            PARSE_ERROR,
            7,
        ),
        (
            b'{"jsonrpc":"2.0","id":7,"method":"m","params":{"a":"\\ud83d"}}',
            INVALID_REQUEST,
            7,
        ),
        (b'{"jsonrpc":"2.0","id":"\\ud83d","method":"m","params":{}}', INVALID_REQUEST, None),
        (b'{"jsonrpc":"2.0","id":"x","method":"\\ud83d","params":{}}', INVALID_REQUEST, "x"),
        (b'{"jsonrpc":"2.0","id":7,"method":"m","params":{"a":"\xff"}}', PARSE_ERROR, 7),
        (b'{"jsonrpc":"2.0","id":7,"method":"m","params":{"a":1,"a":2}}', INVALID_REQUEST, 7),
        (b'{"jsonrpc":"2.0","id":"x","method":"m","method":"m"}', INVALID_REQUEST, "x"),
        (b'{"jsonrpc":"2.0","id":7,"method":"m","params":{},"id":7}', INVALID_REQUEST, 7),
        (b'{"method":"m","params":{"a":1,"a":2},"jsonrpc":"2.0","id":7}', INVALID_REQUEST, 7),
        (b'{"method":"m","params":{},"jsonrpc":"1.0","id":7}', INVALID_REQUEST, 7),
        (
            b'{"method":"m","params":{"a":%b%b},"jsonrpc":"2.0","id":7}' % (b"[" * 200, b"]" * 200),
            INVALID_REQUEST,
            7,
        ),
        (
            b'{"jsonrpc":"2.0","id":7,"method":"m","params":%b%b}' % (b"[" * 200, b"]" * 200),
            INVALID_REQUEST,
            7,
        ),
        (b'[{"jsonrpc":"2.0","id":7,"method":"m"}]', INVALID_REQUEST, None),
        (b"7", INVALID_REQUEST, None),
        (b'{"id":7,"method":"m"}', INVALID_REQUEST, 7),
        (b'{"jsonrpc":"1.0","id":7,"method":"m"}', INVALID_REQUEST, 7),
        (b'{"jsonrpc":"2.0","id":true,"method":"m"}', INVALID_REQUEST, None),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"m"}', INVALID_REQUEST, None),
        (b'{"jsonrpc":"2.0","id":null,"method":"m"}', INVALID_REQUEST, None),
        (b'{"jsonrpc":"2.0","id":7,"method":5}', INVALID_REQUEST, 7),
        (b'{"jsonrpc":"2.0","id":7,"method":"m","params":[1]}', INVALID_PARAMS, 7),
        (b'{"jsonrpc":"2.0","id":7}', INVALID_REQUEST, 7),
        (b'{"jsonrpc":"2.0","result":{}}', INVALID_REQUEST, None),
    ],
)
def test_a_message_that_is_not_taken_is_answered_under_its_own_id(
    line: bytes, code: int, id_: int | str | None
) -> None:
    error = refused(line)
    assert (error.code, error.id) == (code, id_)
    answer = json.loads(to_bytes(failure_of(error)))
    assert answer == {
        "jsonrpc": "2.0",
        "id": id_,
        "error": {"code": code, "message": str(error)},
    }


@pytest.mark.parametrize(
    ("line", "what"),
    [
        (b'{"jsonrpc":"2.0","id":7,"result":5}', "result"),
        (b'{"jsonrpc":"2.0","id":7,"result":null}', "result"),
        (b'{"jsonrpc":"2.0","id":7,"error":"no"}', "error"),
        (b'{"jsonrpc":"2.0","id":7,"result":{},"error":"no"}', "error"),
    ],
)
def test_an_invalid_response_of_a_client_completes_its_request(line: bytes, what: str) -> None:
    text = f"The {what} of the response is not an object"
    assert parse_client(line) == Failure(7, {"code": INVALID_REQUEST, "message": text})


SPELLINGS = (
    b'{"jsonrpc":"2.0","id":%b,"method":"m","params":%b}',
    b'{"method":"m","params":%b,"jsonrpc":"2.0","id":%b}',
)


def spelled(id_: bytes, params: bytes) -> list[bytes]:
    """Return a request in both key orders that are parsed quickly, and in one that is not."""
    leading, trailing = SPELLINGS
    return [
        leading % (id_, params),
        trailing % (params, id_),
        b'{ "id":%b,"jsonrpc":"2.0","params":%b,"method":"m"}' % (id_, params),
    ]


@pytest.mark.parametrize("levels", [MAX_DEPTH - 3, MAX_DEPTH - 2, MAX_DEPTH - 1, MAX_DEPTH])
def test_a_request_is_bounded_in_depth_however_it_is_spelled(levels: int) -> None:
    value = b"[" * levels + b"]" * levels
    for line in spelled(b"1", b'{"a":%b}' % value):
        if levels + 2 <= MAX_DEPTH:
            assert isinstance(parse_client(line), Request)
        else:
            assert refused(line).code == INVALID_REQUEST


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=10,
)


@given(st.integers() | st.text(max_size=5), st.dictionaries(st.text(max_size=3), JSON))
def test_a_request_is_the_same_however_it_is_spelled(
    id_: int | str, params: dict[str, Any]
) -> None:
    try:
        lines = spelled(encode(id_), encode(params))
    except WireError:  # half a character
        return
    first, *others = (parse_client(line) for line in lines)
    assert isinstance(first, Request)
    assert all(to_bytes(other) == to_bytes(first) for other in others)


@pytest.mark.parametrize("name", ["jsonrpc", "id", "method", "params"])
@pytest.mark.parametrize("order", [(0, 1, 2, 3), (2, 3, 0, 1)])
@pytest.mark.parametrize("space", [" ", "\\t"])
def test_a_name_with_space_in_it_is_another_name(
    name: str, order: tuple[int, ...], space: str
) -> None:
    members = ['"jsonrpc":"2.0"', '"id":1', '"method":"m"', '"params":{"x":1}']
    line = ("{" + ", ".join(members[at] for at in order) + "}").encode()
    assert parse_client(line) == Request(1, "m", {"x": 1})
    other = line.replace(f'"{name}"'.encode(), f'"{name[0]}{space}{name[1:]}"'.encode())
    match name:
        case "id":
            assert parse_client(other) == Notification("m", {"x": 1})
        case "params":
            assert parse_client(other) == Request(1, "m", {})
        case _:
            assert refused(other).code == INVALID_REQUEST


def test_numbers_of_a_client_go_on_as_they_were_written() -> None:
    line = b'{"jsonrpc":"2.0","id":1,"method":"m","params":%b}' % NUMBERS
    assert to_bytes(parse_client(line)) == line


def test_a_childs_answer_is_carried_byte_for_byte() -> None:
    result = b'{"n":%b,"n":1, "u":"\\u0041\\/","unknown":{"z":[]}}' % NUMBERS
    message = parse_child(b'{"jsonrpc":"2.0","more":1,"result":%b,"id":3}' % result)
    assert to_bytes(message) == b'{"jsonrpc":"2.0","id":3,"result":%b}' % result


@pytest.mark.parametrize("surrogate", [b"", b"\\ud83d"])
def test_no_line_end_of_a_childs_message_is_carried(surrogate: bytes) -> None:
    injected = b'\n{"jsonrpc":"2.0","id":4,"result":{}}\r'
    for start in (b'"id":3,"result"', b'"id":3,"error"', b'"method":"m","params"'):
        said = b'{"jsonrpc":"2.0",%b:{"a":"%b\\n","b":%b}}' % (start, surrogate, injected)
        shown = said.replace(b"\n", b" ").replace(b"\r", b" ")
        assert to_line(parse_child(said)) == shown + b"\n"


@pytest.mark.parametrize(
    "result",
    [
        b'{"text":"cut \\ud83d"}',
        b'{"text":"\\ude00","other":"\\uD83d\\uDE00","plain":"\\u0041 \\\\ud83d"}',
        b'{"\\ud83d":{"a":1e400}}',
    ],
)
def test_a_lone_surrogate_in_a_childs_answer_is_carried(result: bytes) -> None:
    for field in (b"result", b"error"):
        line = b'{"jsonrpc":"2.0","id":3,"%b":%b}' % (field, result)
        assert to_bytes(parse_child(line)) == line
    line = b'{"jsonrpc":"2.0","method":"notifications/message","params":%b}' % result
    assert to_bytes(parse_child(line)) == line


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b'{"jsonrpc":"2.0","id":3,"result":{"x":NaN}}', PARSE_ERROR),
        (b'{"jsonrpc":"2.0","id":3,"result":{"x":"\\ud83d","y":NaN}}', PARSE_ERROR),
        (b'{"jsonrpc":"2.0","id":3,"result":{"x":"\xff"}}', PARSE_ERROR),
        (b'{"jsonrpc":"2.0","result":{"x":"\xff"},"id":3}', PARSE_ERROR),
        (b'{"jsonrpc":"2.0","id":3,"result": null}', INVALID_REQUEST),
        (b'{"jsonrpc":"2.0","id":3,"result":[{}]}', INVALID_REQUEST),
        (b'{"jsonrpc":"2.0","id":3,"result":"{}"}', INVALID_REQUEST),
        (b'{"jsonrpc":"2.0","id":3,"error":"boom"}', INVALID_REQUEST),
    ],
)
def test_an_unreadable_response_of_a_child_keeps_its_id(line: bytes, code: int) -> None:
    error = refused_of_child(line)
    assert (error.code, error.id) == (code, 3)


def test_an_error_of_a_child_that_is_no_object_is_shown() -> None:
    error = refused_of_child(b'{"jsonrpc":"2.0","id":3,"error":"no such disk"}')
    assert str(error) == 'its error is no object: "no such disk"'


def test_a_byte_order_mark_before_a_childs_message_is_dropped() -> None:
    line = b'{"jsonrpc":"2.0","id":3,"result":{}}'
    assert parse_child(b"\xef\xbb\xbf" + line) == parse_child(line)


def test_what_a_child_writes_in_other_scripts_is_carried() -> None:
    line = '{"jsonrpc":"2.0","id":3,"result":{"text":"dürüm 🥙"}}'.encode()
    assert to_bytes(parse_child(line)) == line


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            b'{"jsonrpc":"2.0","id":3,"result":null,"error":{"code":-1}}',
            Failure(3, Raw(b'{"code":-1}')),
        ),
        (b'{"jsonrpc":"2.0","id":3,"result":{},"error":null}', Response(3, Raw(b"{}"))),
    ],
)
def test_an_answer_of_a_child_is_an_error_if_it_has_one(line: bytes, message: Message) -> None:
    assert parse_child(line) == message


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"jsonrpc":"2.0","id":1,"method":"ping"}', Request(1, "ping", {})),
        (b'{"jsonrpc":"2.0","id":"a","method":"m","params":{"x":1}}', Request("a", "m", {"x": 1})),
        (b'{"jsonrpc":"2.0","method":"m"}', Notification("m", {})),
        (b'{"jsonrpc":"2.0","method":"m","params":null}', Notification("m", {})),
        (b'{"jsonrpc":"2.0","id":1,"method":"m","params":null}', Request(1, "m", {})),
    ],
)
def test_a_childs_request_is_read(line: bytes, message: Message) -> None:
    assert parse_child(line) == message


@pytest.mark.parametrize(
    "line",
    [
        b"Listening on port 3000",
        b"",
        b"[1]",
        b'"\\ud83d',
        b'{"id":1.5,"result":{}}',
        b'{"id":1,"method":"m","params":[]}',
        b'{"method":"m","params":"x"}',
        b'{"jsonrpc":"2.0","id":1}',
        b'{"jsonrpc":"2.0","result":{}}',
        b'{"jsonrpc":"2.0","id":null,"error":"boom"}',
        b'{"level":"info","msg":"started"}',
        b'{"jsonrpc":"2.0","id":1,"result":%b%b}' % (b"[" * 10**5, b"]" * 10**5),
    ],
)
def test_text_of_a_child_that_is_not_a_message_is_refused(line: bytes) -> None:
    assert refused_of_child(line).code in {PARSE_ERROR, INVALID_REQUEST, INVALID_PARAMS}


def test_a_carried_payload_can_be_read() -> None:
    own: dict[str, Any] = {"x": 1}
    assert as_object(own) is own
    assert as_object(Raw(b'{"a":1,"a":2,"b":1e400}'))["a"] == 2
    for other in (b"[]", b"null", b"5"):
        with pytest.raises(WireError):
            as_object(Raw(other))


def test_an_object_without_a_kind_is_no_message() -> None:
    with pytest.raises(WireError):
        message_of({"jsonrpc": "2.0"})


@pytest.mark.parametrize(
    "inner",
    [b",".join([b"[]"] * (MAX_PARTS + 1)), b'"' + rb"\udc00" * (MAX_HALVES + 1) + b'"'],
    ids=["values", "halves"],
)
def test_a_message_with_half_characters_that_takes_very_long_to_read_is_refused(
    inner: bytes,
) -> None:
    """Without half characters the result is passed on unread, whatever its values are."""
    error = refused_of_child(rb'{"id":7,"result":{"a":"\ud800","b":[%b]}}' % inner)
    assert isinstance(error, UnreadableAnswerError)
    assert error.id == 7
    assert str(error).startswith(("Too many values", "Over 100,000 halves"))
    assert not isinstance(
        refused_of_child(rb'{"method":"m","params":{"a":"\ud800","b":[%b]}}' % inner),
        UnreadableAnswerError,
    )


def test_the_result_of_a_message_with_half_characters_is_its_own() -> None:
    """Another object in the message may look the same once its half characters are masked."""
    line = rb'{"foo":{"result":0,"y":{"a":"\udc00"}},"id":1,"result":{"a":"\ud800"}}'
    assert parse_child(line) == Response(1, Raw(rb'{"a":"\ud800"}'))
    nested = rb'{"id":1,"x\"{":[{"a":"\udc00"},"}"], "result" : {"a":"\ud800"} }'
    assert parse_child(nested) == Response(1, Raw(rb'{"a":"\ud800"}'))


@pytest.mark.parametrize(
    ("payload", "least", "most"),
    [
        (Raw(b'{"a":"x"}'), 9, 9),
        ({"a": "x" * 1000}, 1000, 1010),
        ({"a" * 1000: None}, 1000, 1010),
        ([["x" * 500], "x" * 500], 1000, 1010),
        ([1] * 1000, 1000, 5000),
        (10**1000, 1000, 1500),
        (1.5, 1, 10),
    ],
)
def test_the_size_of_a_payload_is_about_its_json_length(
    payload: Payload | Json, least: int, most: int
) -> None:
    assert least <= size_of(payload) <= most


@pytest.mark.parametrize(
    "answer",
    [Response(1, Raw(b"x" * 1000)), Failure(1, {"message": "x" * 1000})],
)
def test_the_size_of_a_response_is_that_of_its_content(answer: Response | Failure) -> None:
    assert 1000 <= size_of_answer(answer) <= 1010


@pytest.mark.parametrize(
    ("text", "id_", "answers"),
    [
        (b'{"jsonrpc":"2.0","id":7,"result":{', 7, 7),
        (b' { "jsonrpc" : "2.0" , "id" : 7 , "error" : ', 7, 7),
        (b'{"id":7,"method":"m', 7, None),
        (b'{"jsonrpc":"2.0","id":7}', None, None),
        (b'{"jsonrpc":"2.0","id":"7","result":{', "7", None),
        (b'{"jsonrpc":"2.0","id":"a-7 b","method":"m', "a-7 b", None),
        (b'{"jsonrpc":"2.0","id":"a\\"b","method":"m', None, None),
        (b'{"jsonrpc":"2.0","id":"%s","method":"m' % (b"x" * 129), None, None),
        (b'{"jsonrpc":"2.0","id":1234567890123456,"result":{', None, None),
        (b'{"result":{"id":7,"result":1', None, None),
        (b"hello", None, None),
    ],
)
def test_a_beginning_tells_the_id_if_nothing_but_the_version_is_before_it(
    text: bytes, id_: int | str | None, answers: int | None
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
        (b'{"jsonrpc":"2.0","id":"a-7","method":"m","params":{"a":"xxxx"}}', None, "a-7"),
        (b'{"method":"m","params":{"a":"xxxx"},"jsonrpc":"2.0","id":"a-7"}', None, "a-7"),
        (b'{"method":"m","params":{"a":"xxxx","id":"a-7"}}', None, None),
        (b'{"method":"m","params":{"a":"x,\\"id\\":\\"a-7\\"}"}}', None, None),
        (b'{"jsonrpc":"2.0","id":"7","result":{"a":"xxxx"}}', None, None),
        (b'{"jsonrpc":"2.0","method":"m","params":{"a":"xxxx"}}', None, None),
        (b'"xxxx', None, None),
    ],
)
def test_the_id_is_found_at_either_end_of_a_message(
    ends: bytes, answered: int | None, asked: int | str | None
) -> None:
    assert (answered_by(ends), asked_by(ends)) == (answered, asked)
