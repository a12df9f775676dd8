"""The parking itself; whole rounds are tested in tests/calls/test_modern_calls.py."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import pytest
from hub.calls.parking import Parking
from hub.calls.rounds.parked_call import ParkedCall

from hub.calls import parking as parking_module
from hub.calls.caller import ClientCaller
from hub.calls.rounds import parked_call as parked_module
from hub.jsonrpc.peer import RpcError
from hub.protocol.constants import INTERNAL_ERROR, INVALID_PARAMS
from hub.protocol.request_state import CallState, RetryInput
from hub.sessions.client import Client
from hub.values import JsonObject
from tests.kit.rigs import FakeClient, Rig, remote, rig

FILES = remote("files")
FORMS: JsonObject = {"elicitation": {}}


def modern(at: Rig, principal: str = "alice") -> FakeClient:
    client = at.client()
    client.session.principal = principal
    client.session.greeted(Client("modern", "2026-07-28", FORMS, {}))
    return client


def parked(
    parking: Parking, client: FakeClient, scope: anyio.CancelScope | None = None
) -> ParkedCall:
    caller = ClientCaller(client.session, client.outlet, None)
    return ParkedCall(caller, parking.park, scope or anyio.CancelScope())


@asynccontextmanager
async def parkings() -> AsyncGenerator[tuple[Rig, Parking]]:
    async with rig({}, {}) as at:
        yield at, Parking(at.relay, at.services.tasks)


async def test_a_call_that_was_left_for_long_gives_way_to_one_of_the_same_principal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(parking_module, "MAX_PARKED_OF_ONE", 2)
    monkeypatch.setattr(parked_module, "PATIENCE", 0)
    async with parkings() as (at, parking):
        scopes = [anyio.CancelScope() for _ in range(4)]
        there, left, third, fourth = (parked(parking, modern(at), scope) for scope in scopes)
        parking.park(there)
        left.end({})
        assert await left.turn(left.first) == {}
        assert left.is_abandoned
        parking.park(left)
        parking.park(third)
        with pytest.raises(RpcError, match="too many calls wait"):
            parking.park(fourth)
        assert [scope.cancel_called for scope in scopes] == [False, True, False, False]


async def test_abandoned_calls_of_who_has_the_most_make_room_for_other_principals(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(parking_module, "MAX_PARKED", 3)
    monkeypatch.setattr(parked_module, "PATIENCE", 0)
    async with parkings() as (at, parking):
        names = ("bob", "alice", "alice", "carol")
        scopes = [anyio.CancelScope() for _ in names]
        calls = [
            parked(parking, modern(at, name), scope)
            for name, scope in zip(names, scopes, strict=True)
        ]
        for call in calls[:3]:
            call.end({})
            await call.turn(call.first)
            parking.park(call)
        parking.park(calls[3])
        assert [scope.cancel_called for scope in scopes] == [False, True, False, False]


async def test_a_call_without_questions_is_none_that_is_parked() -> None:
    async with parkings() as (at, parking):
        call = parked(parking, modern(at))
        assert call.is_present
        call.end({"n": 1})
        assert await call.turn(call.first) == {"n": 1}
        assert not call.is_present
        retry = RetryInput(CallState(parked=call.key), is_retry=True)
        client = modern(at)
        with pytest.raises(RpcError) as caught:
            await parking.resume(client.session, client.asked("x"), retry)
        assert caught.value.code == INVALID_PARAMS


async def test_no_principal_and_not_all_together_park_more_calls_than_they_may(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(parking_module, "MAX_PARKED", 3)
    monkeypatch.setattr(parking_module, "MAX_PARKED_OF_ONE", 2)
    async with parkings() as (at, parking):
        first = parked(parking, modern(at))
        for call in (first, first, parked(parking, modern(at))):
            parking.park(call)
        with pytest.raises(RpcError) as caught:
            parking.park(parked(parking, modern(at)))
        assert caught.value.code == INTERNAL_ERROR
        parking.park(parked(parking, modern(at, "bob")))
        with pytest.raises(RpcError):
            parking.park(parked(parking, modern(at, "carol")))
