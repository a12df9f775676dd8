from __future__ import annotations

from typing import Any

import pytest

from hub.calls.caller import ask_by_result, ask_within, send_to_urls
from hub.children.clients import InputNeededError
from hub.jsonrpc.errors import RpcError
from hub.jsonrpc.messages import Notification
from hub.protocol.constants import MISSING_CLIENT_CAPABILITY
from hub.protocol.input_requests import (
    ELICITATION,
    ELICITED,
    ROOTS_KEY,
    SAMPLING,
    URL_NEEDED,
    CallState,
)
from hub.sessions.client import Client
from hub.values import Json, JsonObject
from tests.kit.fakes import RecordingAsker
from tests.kit.rigs import remote, rig

FILES = remote("files", timeout=7.0)
URL: JsonObject = {"mode": "url", "message": "Go", "url": "https://example.com"}
CARRIED = CallState(consented="yes")


def client(era: Any = "modern", **capabilities: JsonObject) -> Client:
    return Client(era, "x", dict(capabilities), {})


def request(method: str, params: JsonObject) -> JsonObject:
    return {"method": method, "params": params}


async def test_within_a_call_only_a_url_gets_an_id_and_only_if_the_user_goes_there() -> None:
    caller = RecordingAsker()
    for action, known in (("accept", True), ("decline", False), ("cancel", False)):
        caller.answer = {"action": action}
        answer, elicitation = await ask_within(caller.ask, request(ELICITATION, URL))
        assert answer == caller.answer
        assert (elicitation is not None) is known
        method, params = caller.asked[-1]
        assert (method, {**params, "elicitationId": None}) == (
            ELICITATION,
            {**URL, "elicitationId": None},
        )
        assert elicitation in (None, params["elicitationId"])
    ids = {str(params["elicitationId"]) for _, params in caller.asked}
    assert len(ids) == 3
    for method in (SAMPLING, ELICITATION):
        caller.answer = {"action": "accept"}
        assert await ask_within(caller.ask, request(method, {"a": 1})) == (caller.answer, None)
        assert caller.asked[-1] == (method, {"a": 1})


def test_by_the_result_requests_go_on_as_they_are_under_keys_of_their_own() -> None:
    requests = {"a": request(SAMPLING, {"x": 1}), ROOTS_KEY: request(ELICITATION, {})}
    needed = ask_by_result(client(sampling={}, elicitation={}), FILES, requests, CARRIED)
    assert needed.requests == {
        "a": requests["a"],
        f"roots-hub/child/{ROOTS_KEY}": requests[ROOTS_KEY],
    }
    assert (needed.state, needed.lasts) == (CARRIED, 7.0)


def test_by_the_result_nothing_is_asked_if_the_client_does_not_take_all_of_it() -> None:
    requests = {"a": request(SAMPLING, {}), "b": request(ELICITATION, URL)}
    with pytest.raises(
        RpcError, match="elicitation/create in URL mode, which the client"
    ) as caught:
        ask_by_result(client(sampling={}, elicitation={}), FILES, requests, CARRIED)
    assert caught.value.code == MISSING_CLIENT_CAPABILITY
    error: Any = caught.value.error
    assert error["data"] == {"requiredCapabilities": {"elicitation": {"url": {}}}}


def needing(*elicitations: Json) -> RpcError:
    error: JsonObject = {
        "code": URL_NEEDED,
        "message": "first",
        "data": {"elicitations": list(elicitations)},
    }
    return RpcError.received(error)


ONE: JsonObject = {"url": "https://example.com/1", "elicitationId": "e1", "message": "m"}


async def test_an_error_that_names_urls_asks_a_modern_client_that_takes_them() -> None:
    async with rig({}, {}) as at:
        notifier = at.client().session.notifier
        able = client(elicitation={"url": {}})
        with pytest.raises(InputNeededError) as caught:
            send_to_urls(able, notifier, FILES, needing(ONE), CARRIED)
        asked: JsonObject = {"mode": "url", "url": ONE["url"], "message": "m"}
        assert caught.value.requests == {"url/1": request(ELICITATION, asked)}
        assert caught.value.state == CARRIED
        with pytest.raises(RpcError, match="in URL mode, which the client does not declare"):
            send_to_urls(client(elicitation={}), notifier, FILES, needing(ONE), CARRIED)
        for who, error in ((able, RpcError(-1, "other")), (None, needing(ONE))):
            send_to_urls(who, notifier, FILES, error, CARRIED)


async def test_a_client_of_the_handshake_era_hears_of_the_end_of_what_an_error_named() -> None:
    async with rig({}, {}) as at:
        told = at.client()
        notifier = told.session.notifier
        send_to_urls(client("legacy"), notifier, FILES, needing(ONE), CARRIED)
        for name in ("e1", "another"):
            notifier.tell(FILES, Notification(ELICITED, {"elicitationId": name}))
        await notifier.send_queue.flush()
        assert [line["params"] for line in told.outlet.lines] == [{"elicitationId": "e1"}]
