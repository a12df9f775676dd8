from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.calls.rounds.sealed_state import StateSealer
from hub.jsonrpc.errors import RpcError
from hub.protocol.constants import INTERNAL_ERROR, INVALID_PARAMS
from hub.protocol.input_requests import CallState
from hub.values import Json
from tests.kit.fakes import FakeClock
from tests.protocol.test_request_state import CARRIED

SECRET = CallState(parked="the-secret")


def refusal(seals: StateSealer, state: Json, identity: str = "call") -> str:
    """Return why a state is not opened."""
    with pytest.raises(RpcError) as caught:
        seals.open(state, identity)
    assert caught.value.code == INVALID_PARAMS
    said = str(caught.value)
    assert said.startswith("requestState is not valid: ")
    return said


def spent(seals: StateSealer, state: Json, principal: str = "local") -> CallState:
    """Open a state and use it up; return what it carries."""
    opened = seals.open(state, "call")
    seals.spend(opened, principal)
    return opened.call_state


@given(call_state=CARRIED, identity=st.text(alphabet="abc"))
def test_a_state_gives_back_what_it_carries(call_state: CallState, identity: str) -> None:
    seals = StateSealer(FakeClock())
    state = seals.seal(call_state, identity, lasts=1)
    assert seals.open(state, identity).call_state == call_state


@given(at=st.integers(min_value=0), other=st.characters(codec="ascii"))
def test_a_state_that_was_changed_anywhere_is_refused(at: int, other: str) -> None:
    seals = StateSealer(FakeClock())
    state = seals.seal(SECRET, "call", lasts=1)
    at %= len(state)
    forged = state[:at] + other + state[at + 1 :]
    if forged != state:
        refusal(seals, forged)
    assert spent(seals, state) == SECRET


@given(state=st.text() | st.none() | st.integers() | st.lists(st.text()))
def test_anything_else_is_no_state(state: Json) -> None:
    refusal(StateSealer(FakeClock()), state)


def test_a_state_is_for_its_call_and_its_hub_alone() -> None:
    seals = StateSealer(FakeClock())
    state = seals.seal(SECRET, "call", lasts=1)
    assert "not made for this call" in refusal(seals, state, "another")
    assert "not by this hub" in refusal(StateSealer(FakeClock()), state)


def test_a_state_cannot_be_read_and_is_never_the_same() -> None:
    seals = StateSealer(FakeClock())
    states = {seals.seal(SECRET, "call", lasts=1) for _ in range(9)}
    assert len(states) == 9
    assert not any("secret" in state for state in states)


def test_a_state_expires() -> None:
    clock = FakeClock()
    seals = StateSealer(clock)
    state = seals.seal(SECRET, "call", lasts=10)
    clock.advance(10)
    assert seals.open(state, "call").call_state == SECRET
    clock.advance(0.1)
    assert "it has expired" in refusal(seals, state)


def test_a_state_is_opened_often_and_spent_once() -> None:
    seals = StateSealer(FakeClock())
    state = seals.seal(SECRET, "call", lasts=10)
    once, twice = seals.open(state, "call"), seals.open(state, "call")
    assert once.call_state == twice.call_state == SECRET
    seals.spend(once, "local")
    said = refusal(seals, state)
    assert "it was used before" in said
    with pytest.raises(RpcError) as caught:
        seals.spend(twice, "local")
    assert (caught.value.code, str(caught.value)) == (INVALID_PARAMS, said)


def test_what_was_spent_is_forgotten_when_it_has_expired_and_never_before() -> None:
    clock = FakeClock()
    seals = StateSealer(clock, max_spent=2)
    states = [seals.seal(SECRET, "call", lasts=10) for _ in range(3)]
    for state in states[:2]:
        spent(seals, state)
    with pytest.raises(RpcError) as caught:
        spent(seals, states[2])
    assert caught.value.code == INTERNAL_ERROR
    clock.advance(11)
    later = seals.seal(SECRET, "call", lasts=10)
    assert spent(seals, later) == SECRET
    assert "it has expired" in refusal(seals, states[0])


def test_one_principal_leaves_room_for_the_others() -> None:
    seals = StateSealer(FakeClock(), max_spent=4, max_spent_of_one=3)

    def spends(principal: str) -> bool:
        try:
            spent(seals, seals.seal(SECRET, "call", lasts=10), principal)
        except RpcError:
            return False
        return True

    assert [spends("one") for _ in range(4)] == [True, True, True, False]
    assert [spends("two") for _ in range(3)] == [True, True, False]
    assert [spends("three") for _ in range(2)] == [True, False]
    state = seals.seal(SECRET, "call", lasts=10)
    spent(seals, state, "four")
    assert "it was used before" in refusal(seals, state)
