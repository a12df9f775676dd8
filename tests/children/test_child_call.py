from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio
import pytest
from msgspec.structs import replace

from hub.children.callbacks import ChildCallbacks
from hub.children.child_call import MAX_INPUT_ROUNDS, MAX_INPUTS, MAX_STATE, in_rounds
from hub.errors import ChildError
from hub.jsonrpc.errors import RpcError
from hub.jsonrpc.messages import Payload
from hub.jsonrpc.requests import RequestOwner
from hub.paths.resolve import Flavour
from hub.protocol.constants import INTERNAL_ERROR, INVALID_PARAMS
from hub.protocol.input_requests import (
    ELICITATION,
    ROOTS_KEY,
    SAMPLING,
    CallState,
    ChildInputRound,
    RetryInput,
)
from hub.roots.roots import Root, RootSet
from hub.specs import ServerSpec
from hub.values import Json, JsonObject, ServerName
from tests.kit.fakes import RecordingAsker
from tests.kit.rigs import remote

FILES = remote("files")
ROOT = Root("file:///a", "/a", "A", is_file=False, parts=("a",), device=1, inode=1)
SHARED: JsonObject = {"roots": [{"uri": "file:///a", "name": "A"}]}
ANSWER: JsonObject = {"resultType": "complete", "content": []}


def answers(spec: ServerSpec = FILES) -> ChildCallbacks:
    return ChildCallbacks(spec, RootSet((ROOT,)), Flavour.POSIX)


def wanting(requests: Json = None, state: Json = None) -> JsonObject:
    asked: JsonObject = {} if requests is None else {"inputRequests": requests}
    held: JsonObject = {} if state is None else {"requestState": state}
    return {"resultType": "input_required", **asked, **held}


def child(
    *results: JsonObject,
) -> tuple[list[JsonObject], Callable[[JsonObject], Awaitable[Payload]]]:
    """Return what a child was sent beside the call, and how it answers in turn."""
    sent: list[JsonObject] = []

    async def send(more: JsonObject) -> Payload:
        sent.append(more)
        return results[min(len(sent), len(results)) - 1]

    return sent, send


async def rounds(
    send: Callable[[JsonObject], Awaitable[Payload]], made: ChildCallbacks, caller: RecordingAsker
) -> Payload:
    """Make a call, and return the result after all rounds."""
    return await in_rounds(send, made, caller, await send(made.resumed(caller)))


async def test_a_child_that_answers_at_once_is_sent_nothing_more() -> None:
    (sent, send), caller = child(ANSWER), RecordingAsker()
    assert await rounds(send, answers(), caller) == ANSWER
    assert sent == [{}]
    assert caller.is_done


async def test_roots_are_answered_by_the_hub_and_all_else_by_the_client() -> None:
    requests: JsonObject = {
        "r": {"method": "roots/list"},
        "s": {"method": SAMPLING, "params": {"n": 1}},
        "e": {"method": ELICITATION, "params": {"n": 2}},
    }
    (sent, send), caller = child(wanting(requests, "state"), ANSWER), RecordingAsker()
    await rounds(send, answers(), caller)
    said: JsonObject = {"answered": "caller"}
    assert sent[1] == {
        "inputResponses": {"r": SHARED, "s": said, "e": said},
        "requestState": "state",
    }
    assert caller.asked == [(SAMPLING, {"n": 1}), (ELICITATION, {"n": 2})]
    assert caller.rounds == [
        ChildInputRound(ServerName("files"), ("s", "e"), {"r": "roots/list"}, "state")
    ]


async def test_who_asks_for_roots_alone_does_not_trouble_the_client() -> None:
    (sent, send), caller = (
        child(wanting({"r": {"method": "roots/list"}}), wanting(None, "s"), ANSWER),
        RecordingAsker(),
    )
    await rounds(send, answers(), caller)
    assert sent == [{}, {"inputResponses": {"r": SHARED}}, {"requestState": "s"}]
    assert [round_.keys for round_ in caller.rounds] == [()]


async def test_no_round_has_the_state_of_the_one_before() -> None:
    asks: JsonObject = {"s": {"method": SAMPLING, "params": {}}}
    (sent, send), caller = child(wanting(asks, "one"), wanting(asks), ANSWER), RecordingAsker()
    await rounds(send, answers(), caller)
    assert [more.get("requestState") for more in sent] == [None, "one", None]


@pytest.mark.parametrize("requests", [None, {}, [], "x"])
async def test_who_asks_for_nothing_at_all_gets_an_error(requests: Json) -> None:
    _, send = child(wanting(requests))
    with pytest.raises(RpcError) as caught:
        await rounds(send, answers(), RecordingAsker())
    assert caught.value.code == INTERNAL_ERROR


async def test_what_nobody_answers_a_child_is_no_unknown_method_of_its_client() -> None:
    _, send = child(wanting({"s": {"method": "roots/list"}}))
    with pytest.raises(RpcError, match="'files' asks for roots/list, which nobody") as caught:
        await rounds(send, answers(replace(FILES, answer_roots=False)), RecordingAsker())
    assert caught.value.code == INTERNAL_ERROR


async def test_who_asks_without_end_is_given_up() -> None:
    sent, send = child(wanting({"s": {"method": SAMPLING}}))
    with pytest.raises(ChildError, match="asked for input 8 times"):
        await rounds(send, answers(), RecordingAsker())
    assert len(sent) == MAX_INPUT_ROUNDS
    sent, send = child(wanting(None, "wait"))
    with pytest.raises(ChildError, match="asked for input"):
        await rounds(send, answers(replace(FILES, timeout=-1.0)), RecordingAsker())
    assert len(sent) == MAX_INPUT_ROUNDS


async def test_who_asks_for_too_much_at_once_is_given_up() -> None:
    many: JsonObject = {str(n): {"method": "ping"} for n in range(MAX_INPUTS + 1)}
    sent, send = child(wanting(many))
    with pytest.raises(ChildError, match="asks for 101 inputs at once, more than 100"):
        await rounds(send, answers(), RecordingAsker())
    del many["0"]
    assert await rounds(child(wanting(many), ANSWER)[1], answers(), RecordingAsker()) == ANSWER
    states: tuple[Json, ...] = ("s" * (MAX_STATE + 1), {"a": ["s" * MAX_STATE]})
    for state in states:
        sent, send = child(wanting(None, state))
        with pytest.raises(ChildError, match=r"a requestState of 10485\d\d characters, more than"):
            await rounds(send, answers(), RecordingAsker())
        assert len(sent) == 1


async def test_a_client_that_never_answers_is_waited_for_as_long_as_a_call_may_take() -> None:
    class Mute(RecordingAsker):
        async def ask(
            self, method: str, params: JsonObject, request_owner: RequestOwner | None = None
        ) -> Payload:
            await anyio.sleep_forever()
            raise AssertionError

    sent, send = child(wanting({"s": {"method": SAMPLING}}))
    with pytest.raises(ChildError, match=r"input that the client did not give within 0\.01 s"):
        await rounds(send, answers(replace(FILES, timeout=0.01)), Mute())
    assert len(sent) == 1


# What a request brings from the round before


def retry(child: ChildInputRound | None, **responses: Json) -> RecordingAsker:
    caller = RecordingAsker()
    caller.retry = RetryInput(CallState(child=child), dict(responses), is_retry=True)
    return caller


async def test_a_retry_brings_what_was_asked_and_the_childs_own_state() -> None:
    sent, send = child(ANSWER)
    round_ = ChildInputRound(ServerName("files"), ("a", ROOTS_KEY), {"r": "roots/list"}, "own")
    responses: JsonObject = {
        "a": {"n": 1},
        "b": {"n": 2},
        ROOTS_KEY: {"roots": []},
        f"roots-hub/child/{ROOTS_KEY}": {},
    }
    caller = retry(round_, **responses)
    await rounds(send, answers(), caller)
    assert sent == [
        {
            "inputResponses": {"r": SHARED, "a": {"n": 1}, ROOTS_KEY: {}},
            "requestState": "own",
        }
    ]


async def test_a_retry_that_answers_nothing_goes_to_the_child_all_the_same() -> None:
    sent, send = child(ANSWER)
    await rounds(send, answers(), retry(ChildInputRound(ServerName("files"), ("a",), {}, "s")))
    assert sent == [{"requestState": "s"}]


async def test_a_state_of_another_child_reaches_nobody() -> None:
    sent, send = child(ANSWER)
    with pytest.raises(RpcError) as caught:
        await rounds(send, answers(), retry(ChildInputRound(ServerName("git"), ("a",), {}, "s")))
    assert caught.value.code == INVALID_PARAMS
    assert sent == []


async def test_responses_to_the_hub_are_none_to_a_child() -> None:
    sent, send = child(ANSWER)
    await rounds(send, answers(), retry(None, a={"n": 1}))
    caller = RecordingAsker()
    caller.retry = RetryInput(responses={ROOTS_KEY: {"roots": []}})
    await rounds(send, answers(), caller)
    assert sent == [{}, {}]


async def test_responses_that_nobody_asked_for_reach_the_child_that_is_called() -> None:
    sent, send = child(ANSWER)
    caller = RecordingAsker()
    caller.retry = RetryInput(responses={"a": {"n": 1}, ROOTS_KEY: {"roots": []}})
    await rounds(send, answers(), caller)
    assert sent == [{"inputResponses": {"a": {"n": 1}}}]
