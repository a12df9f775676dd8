from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.jsonrpc.exact_json import decode_strict, encode
from hub.protocol.input_requests import NO_STATE, CallState, ChildInputRound, call_digest, state_in
from hub.values import JsonObject, ServerName, object_or_empty

TEXT = st.none() | st.text()
ROUNDS = st.tuples(
    st.text().map(ServerName),
    st.lists(st.text()).map(tuple),
    st.dictionaries(st.text(), st.text()),
    TEXT,
    st.booleans(),
).map(lambda said: ChildInputRound(*said[:2], {**said[2]}, *said[3:]))
CARRIED = st.builds(CallState, consent=TEXT, consented=TEXT, parked=TEXT, child=st.none() | ROUNDS)


@given(CARRIED)
def test_a_state_survives_encoding(state: CallState) -> None:
    assert state_in(state.fields()) == state


def test_a_childs_state_keeps_the_spelling_of_its_numbers() -> None:
    spelled = b'{"a":[1.10,1E5,-0,123456789012345678901234567890,1e400]}'
    state = CallState(child=ChildInputRound(ServerName("a"), (), {}, decode_strict(spelled)))
    back = state_in(object_or_empty(decode_strict(encode(state.fields()))))
    assert back == state
    assert back.child is not None
    assert encode(back.child.state) == spelled


def test_an_empty_state_has_no_fields() -> None:
    assert state_in({}) == NO_STATE
    assert state_in({"child": ["x"], "parked": 7}) == NO_STATE


CALL: JsonObject = {"name": "read", "arguments": {"a": 1, "b": 2}}


@pytest.mark.parametrize(
    "changes",
    [
        {"principal": "bob"},
        {"method": "prompts/get"},
        {"params": {**CALL, "name": "write"}},
        {"params": {**CALL, "arguments": {"a": 1, "b": 3}}},
        {"params": {"name": "read"}},
    ],
)
def test_another_asker_method_name_or_arguments_make_another_call(changes: JsonObject) -> None:
    asked: JsonObject = {"principal": "alice", "method": "tools/call", "params": CALL, **changes}
    params = asked["params"]
    assert isinstance(params, dict)
    other = call_digest(str(asked["principal"]), str(asked["method"]), params)
    assert other != call_digest("alice", "tools/call", CALL)


def test_a_retry_is_the_same_call() -> None:
    first = call_digest("alice", "tools/call", CALL)
    arguments: JsonObject = {"b": 2, "a": 1}
    retry: JsonObject = {"requestState": "s", "name": "read", "arguments": arguments, "_meta": {}}
    assert call_digest("alice", "tools/call", retry) == first


def test_a_resource_is_known_by_its_uri() -> None:
    one = call_digest("alice", "resources/read", {"uri": "file:///a", "name": "x"})
    assert one == call_digest("alice", "resources/read", {"uri": "file:///a"})
    assert one != call_digest("alice", "resources/read", {"uri": "file:///b"})
