"""A modern child's questions to a modern client: relayed by the results, kept open by nobody."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hub.jsonrpc.messages import Failure, Request
from hub.protocol.constants import (
    CLIENT_CAPABILITIES_META,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    MISSING_CLIENT_CAPABILITY,
    SERVER_INFO_META,
)
from hub.protocol.input_requests import CONSENT_KEY, ROOTS_KEY
from hub.roots.effective import OperatorRoots
from hub.values import Json, JsonObject
from tests.kit.callers import (
    ACCEPTED,
    ELICITATION,
    EVERYTHING,
    FORM,
    SAMPLING,
    URL,
    CachedRouteCaller,
    ScriptedCaller,
    question,
    silent,
)
from tests.kit.fakes import ECHO, READ, Answer, FakeChild, failure
from tests.kit.hubs import text_of
from tests.kit.scripted import scripted
from tests.kit.trees import plant

pytestmark = pytest.mark.usefixtures("both_ways")

ROOTS: JsonObject = {"method": "roots/list"}


def asking(*rounds: JsonObject, tools: tuple[JsonObject, ...] = (ECHO, READ)) -> FakeChild:
    """Return a modern child that asks for these, round by round, and then answers.

    What it sends as its state is the number of the round, and it wants that back.
    """

    def call(request: Request) -> Answer:
        state = request.params.get("requestState")
        number = int(str(state).removeprefix("round ")) if state is not None else 0
        if number == len(rounds):
            return {"resultType": "complete", "content": [], "got": request.params}
        return {
            "resultType": "input_required",
            "inputRequests": rounds[number],
            "requestState": f"round {number + 1}",
            "_meta": {SERVER_INFO_META: {"name": "child"}, "own": 1},
        }

    return FakeChild(*tools, era="modern", answers={"tools/call": call})


def form(**more: Json) -> JsonObject:
    return {"method": ELICITATION, "params": {**FORM, **more}}


def forms(count: int) -> list[JsonObject]:
    """Return so many rounds that ask for one form each."""
    return [{f"q{number}": form()} for number in range(count)]


def sent(child: FakeChild) -> list[JsonObject]:
    """Return what the child was sent beside the call itself, each time."""
    fields = ("inputResponses", "requestState")
    calls: list[Any] = [
        line["params"] for link in child.links for line in link.requests("tools/call")
    ]
    return [{name: call[name] for name in fields if name in call} for call in calls]


async def test_what_a_child_asks_goes_on_as_it_is_and_the_retry_brings_it_its_answers() -> None:
    asked: JsonObject = {"user": form(extra=1), "model": {"method": SAMPLING, "params": {"n": 1}}}
    child = asking(asked)
    async with scripted(child) as hub:
        caller = ScriptedCaller(hub)
        first = await caller.round()
        assert first["resultType"] == "input_required"
        assert first["inputRequests"] == asked
        assert not {"ttlMs", "cacheScope"} & set(first)
        assert first["_meta"][SERVER_INFO_META] == hub.services.info
        answers: JsonObject = {"user": ACCEPTED, "model": {"role": "assistant"}}
        last = await caller.round({**answers, "unasked": {}}, first["requestState"])
        assert last["resultType"] == "complete"
        assert sent(child) == [{}, {"inputResponses": answers, "requestState": "round 1"}]
        assert last["got"]["arguments"] == caller.arguments
        declared = last["got"]["_meta"][CLIENT_CAPABILITIES_META]
        assert declared["elicitation"] == {"form": {}, "url": {}}


async def test_the_childs_state_cannot_be_read() -> None:
    child = asking({"user": form()})
    async with scripted(child) as hub:
        state = str((await ScriptedCaller(hub).round())["requestState"])
        raw = base64.urlsafe_b64decode(state + "==")
        assert b"round" not in raw
        assert "round" not in state


async def test_a_child_may_ask_again_and_again() -> None:
    child = asking(*forms(12))
    async with scripted(child) as hub:
        caller = ScriptedCaller(hub)
        result = await caller.round()
        for number in range(12):
            key, _ = question(result)
            assert key == f"q{number}"
            result = await caller.round({key: {"n": number}}, result["requestState"])
        assert result["resultType"] == "complete"
        assert sent(child)[1:] == [
            {"inputResponses": {f"q{n}": {"n": n}}, "requestState": f"round {n + 1}"}
            for n in range(12)
        ]


async def test_keys_that_look_like_the_hubs_own_reach_the_child_as_its_own(tmp_path: Path) -> None:
    child = asking({ROOTS_KEY: form(), CONSENT_KEY: form(), "roots-hub/child/x": form()})
    async with scripted(child) as hub:
        caller = ScriptedCaller(hub, roots=(tmp_path,))
        first = await caller.round()
        keys = [key for key in first["inputRequests"] if key != ROOTS_KEY]
        assert first["inputRequests"][ROOTS_KEY] == ROOTS
        assert len(keys) == 3
        answers: JsonObject = {key: {"n": number} for number, key in enumerate(keys)}
        await caller.round(answers, first["requestState"])
        (said,) = [more["inputResponses"] for more in sent(child)[1:]]
        assert said == {ROOTS_KEY: {"n": 0}, CONSENT_KEY: {"n": 1}, "roots-hub/child/x": {"n": 2}}


async def test_roots_are_answered_by_the_hub_and_never_asked_for_by_a_child(tmp_path: Path) -> None:
    child = asking({"r": ROOTS}, {"r": ROOTS, "user": form()})
    async with scripted(child) as hub:
        caller = ScriptedCaller(hub, roots=(tmp_path,))
        first = await caller.round()
        assert question(first) == ("user", form())
        assert set(first["inputRequests"]) == {ROOTS_KEY, "user"}
        assert (await caller.round({"user": ACCEPTED}, first["requestState"]))["resultType"] == (
            "complete"
        )
        shared: JsonObject = {"roots": [{"uri": tmp_path.as_uri()}]}
        assert sent(child) == [
            {},
            {"inputResponses": {"r": shared}, "requestState": "round 1"},
            {"inputResponses": {"r": shared, "user": ACCEPTED}, "requestState": "round 2"},
        ]


async def test_roots_that_the_client_was_not_asked_for_are_asked_for_along(tmp_path: Path) -> None:
    child = asking({"r": ROOTS, "user": form(), "model": {"method": SAMPLING, "params": {}}})
    async with scripted(child) as hub:
        caller = ScriptedCaller(hub, roots=(tmp_path,))
        params = caller.params()
        del params["inputResponses"]
        first: Any = await caller.client.request("tools/call", params)
        assert set(first["inputRequests"]) == {ROOTS_KEY, "user", "model"}
        answers: JsonObject = {"user": ACCEPTED, "model": {"role": "assistant"}}
        last = await caller.round(answers, first["requestState"])
        assert last["resultType"] == "complete"
        shared: JsonObject = {"roots": [{"uri": tmp_path.as_uri()}]}
        assert sent(child) == [
            {},
            {"inputResponses": {"r": shared, **answers}, "requestState": "round 1"},
        ]
        assert len(child.links) == 2, "a process knows one set of roots"


@pytest.mark.parametrize("code", [INVALID_PARAMS, INTERNAL_ERROR])
async def test_a_process_with_other_roots_that_does_not_know_the_state_is_called_anew(
    tmp_path: Path, code: int
) -> None:
    wanted: JsonObject = {"r": ROOTS, "user": form()}
    child = asking(wanted)
    known = child.answers["tools/call"]

    def forgetful(request: Request) -> Answer:
        if "requestState" in request.params and len(sent(child)) == 2:
            return failure(code, "what state?")
        assert callable(known)
        return known(request)

    child.answers["tools/call"] = forgetful
    async with scripted(child) as hub:
        caller = ScriptedCaller(hub, roots=(tmp_path,))
        params = caller.params()
        del params["inputResponses"]
        first: Any = await caller.client.request("tools/call", params)
        if code == INTERNAL_ERROR:
            error = await caller.refusal({"user": ACCEPTED}, first["requestState"])
            assert error["code"] == code
            return
        second = await caller.round({"user": ACCEPTED}, first["requestState"])
        assert set(second["inputRequests"]) == {ROOTS_KEY, "user"}
        last = await caller.round({"user": ACCEPTED}, second["requestState"])
        assert last["resultType"] == "complete"


async def test_a_retry_is_judged_by_its_own_roots(tmp_path: Path) -> None:
    top = plant(tmp_path, "a/x", "b/x")
    child = asking({"user": form()})
    async with scripted(child) as hub:
        path: JsonObject = {"path": f"{top}/a/x"}
        caller = ScriptedCaller(hub, roots=(top / "a",), name="read", arguments=path)
        first = await caller.round()
        moved = ScriptedCaller(hub, roots=(top / "b",), name="read", arguments=path)
        refused = await moved.round({"user": ACCEPTED}, first["requestState"])
        assert text_of(refused).startswith("Access denied: ")
        assert sent(child) == [{}]


async def test_a_child_that_only_wants_to_be_called_again_is_by_its_client() -> None:
    child = asking({})
    async with scripted(child) as hub:
        caller = ScriptedCaller(hub, {})
        first = await caller.round()
        assert "inputRequests" not in first
        last = await caller.round(None, first["requestState"])
        assert last["resultType"] == "complete"
        assert sent(child) == [{}, {"requestState": "round 1"}]


@pytest.mark.parametrize(
    ("capabilities", "wanted", "needed"),
    [
        ({"sampling": {}}, form(), {"elicitation": {"form": {}}}),
        ({"elicitation": {}}, {"method": ELICITATION, "params": URL}, {"elicitation": {"url": {}}}),
        ({}, {"method": SAMPLING, "params": {}}, {"sampling": {}}),
    ],
)
async def test_what_the_client_does_not_declare_it_is_not_asked(
    capabilities: JsonObject, wanted: JsonObject, needed: JsonObject
) -> None:
    child = asking({"a": wanted})
    async with scripted(child) as hub:
        error = await ScriptedCaller(hub, capabilities).refusal()
        assert error["code"] == MISSING_CLIENT_CAPABILITY
        assert error["data"] == {"requiredCapabilities": needed}
        assert "server 'files' asks for" in str(error["message"])


async def test_a_modern_server_is_told_with_each_call_whom_it_can_ask_for_what() -> None:
    child = FakeChild(ECHO, era="modern")
    declared: list[JsonObject] = [{}, {"sampling": {"tools": {}}}, {"elicitation": {"url": {}}}]
    apps: JsonObject = {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]}}
    async with scripted(
        child, config={"servers": {"files": {"command": "x", "era": "modern", "share": "roots"}}}
    ) as hub:
        for capabilities in declared:
            extensions: JsonObject = {"x": {}, **apps}
            await ScriptedCaller(hub, {**capabilities, "extensions": extensions}).round()
        client = await hub.greeted(declared[1])
        await client.call("echo")
        (link,) = child.links
        told: list[Any] = [
            line["params"]["_meta"][CLIENT_CAPABILITIES_META]
            for line in link.requests("tools/call")
        ]
        for one in told:
            one.pop("roots", None)
        assert told == [*({**one, "extensions": apps} for one in declared), declared[1]]


async def test_no_state_goes_to_the_child_twice_or_with_another_call() -> None:
    child = asking({"user": form()})
    async with scripted(child) as hub:
        caller = ScriptedCaller(hub)
        state = (await caller.round())["requestState"]
        for who, retry in (
            (ScriptedCaller(hub, arguments={"text": "ho"}), state),
            (ScriptedCaller(hub, name="read"), state),
            (caller, "round 1"),
            (caller, f"{state}A"),
        ):
            error = await who.refusal({"user": ACCEPTED}, retry)
            assert error["code"] == INVALID_PARAMS
        assert (await caller.round({"user": ACCEPTED}, state))["resultType"] == "complete"
        assert (await caller.refusal({"user": ACCEPTED}, state))["code"] == INVALID_PARAMS
        assert len(sent(child)) == 2


async def test_what_a_client_answers_unasked_reaches_the_child_that_it_calls() -> None:
    child = asking()
    async with scripted(child) as hub:
        await ScriptedCaller(hub).round({"user": ACCEPTED, ROOTS_KEY: {"roots": []}})
        assert sent(child) == [{"inputResponses": {"user": ACCEPTED}}]


async def test_responses_and_states_reach_no_child_of_the_handshake_era() -> None:
    child = FakeChild(ECHO)
    async with scripted(child) as hub:
        await ScriptedCaller(hub).round({"user": ACCEPTED})
        assert sent(child) == [{}]


async def test_a_request_that_takes_no_questions_gets_an_error_instead() -> None:
    asks: JsonObject = {"resultType": "input_required", "inputRequests": {"a": form()}}
    child = FakeChild(
        ECHO,
        era="modern",
        capabilities={"tools": {}, "prompts": {}, "completions": {}},
        answers={
            "prompts/list": {"prompts": [{"name": "p"}]},
            "prompts/get": asks,
            "completion/complete": asks,
        },
    )
    async with scripted(child) as hub:
        caller = ScriptedCaller(hub)
        meta = caller.params()["_meta"]
        ref: JsonObject = {"type": "ref/prompt", "name": "p"}
        argument: JsonObject = {"name": "a", "value": ""}
        params: JsonObject = {"ref": ref, "argument": argument, "_meta": meta}
        id_ = await caller.client.begin("completion/complete", params)
        assert "error" in await caller.client.end(id_)
        id_ = await caller.client.begin("prompts/get", {"name": "p", "_meta": meta})
        assert (await caller.end(id_))["inputRequests"] == {"a": form()}


# Consent comes first

ASK: dict[str, Any] = {"guard": {"on_refused": "ask"}}
ONCE: JsonObject = {"action": "accept", "content": {"decision": "allow once"}}


@pytest.mark.parametrize("rounds", [1, 2])
async def test_a_call_that_needs_consent_and_then_input_gets_both(
    tmp_path: Path, rounds: int
) -> None:
    top = plant(tmp_path, "a/x", "b/x")
    child = asking(*forms(rounds))
    async with scripted(child, config=ASK) as hub:
        path: JsonObject = {"path": f"{top}/b/x"}
        caller = ScriptedCaller(hub, roots=(top / "a",), name="read", arguments=path)
        result = await caller.round()
        assert set(result["inputRequests"]) == {ROOTS_KEY, CONSENT_KEY}
        assert child.links == [] or sent(child) == []
        result = await caller.round({CONSENT_KEY: ONCE}, result["requestState"])
        for number in range(rounds):
            assert set(result["inputRequests"]) == {ROOTS_KEY, f"q{number}"}
            result = await caller.round({f"q{number}": ACCEPTED}, result["requestState"])
        assert result["resultType"] == "complete"
        assert len(sent(child)) == rounds + 1
        assert CONSENT_KEY not in str(sent(child))
        again = await caller.round()
        assert set(again["inputRequests"]) == {ROOTS_KEY, CONSENT_KEY}, "it was for that call"


async def test_what_was_consented_to_holds_only_inside_the_ceiling_of_then(tmp_path: Path) -> None:
    top = plant(tmp_path, "a/x", "b/x", "c/x")
    child = asking({"user": form()})
    async with scripted(child, config=ASK) as hub:
        path: JsonObject = {"path": f"{top}/b/x"}
        caller = ScriptedCaller(hub, roots=(top / "a",), name="read", arguments=path)
        result = await caller.round()
        result = await caller.round({CONSENT_KEY: ONCE}, result["requestState"])
        (top / "b" / "x").unlink()
        (top / "b" / "x").symlink_to(top / "c" / "x")
        result = await caller.round({"user": ACCEPTED}, result["requestState"])
        assert set(result["inputRequests"]) == {ROOTS_KEY, CONSENT_KEY}, "it leads elsewhere now"
        assert len(sent(child)) == 1


# A server of the handshake era that sends its client to a URL by an error

ELSEWHERE: JsonObject = {
    "code": -32042,
    "message": "log in first",
    "data": {"elicitations": [{**URL, "elicitationId": "e1"}]},
}


@pytest.mark.parametrize("kind", [ScriptedCaller, CachedRouteCaller])
async def test_an_error_that_names_a_url_becomes_a_question_and_the_retry_a_new_call(
    kind: type[ScriptedCaller],
) -> None:
    child = silent()
    async with scripted(child) as hub:
        caller = kind(hub)
        await caller.begin()
        await (await child.connected()).request("tools/call")
        child.answers["tools/call"] = Failure(None, ELSEWHERE)
        child.link.seen.clear()
        first = await caller.round()
        key, request = question(first)
        assert request == {"method": ELICITATION, "params": URL}
        child.answers["tools/call"] = {"content": [], "n": 1}
        last = await caller.round({key: {"action": "accept"}}, first["requestState"])
        assert last["n"] == 1
        assert sent(child) == [{}, {}]
        child.answers["tools/call"] = Failure(None, ELSEWHERE)
        refused = await ScriptedCaller(hub, {"elicitation": {}}).refusal()
        assert refused["code"] == MISSING_CLIENT_CAPABILITY


async def test_clients_that_can_be_asked_other_things_share_a_modern_child() -> None:
    child = asking()
    config = {"servers": {"files": {"command": "x", "era": "modern", "share": "roots"}}}
    async with scripted(child, config=config) as hub:
        can: list[JsonObject] = [{}, {"sampling": {}}, {"elicitation": {"url": {}}}]
        for capabilities in can:
            last = await ScriptedCaller(hub, capabilities).round()
            told = last["got"]["_meta"][CLIENT_CAPABILITIES_META]
            assert {name: told[name] for name in told if name != "roots"} == capabilities
        assert len(child.links) == 1


async def test_a_call_that_a_child_wants_without_its_state_is_judged_again_where_that_is_due() -> (
    None
):
    changes: list[Callable[[], None]] = []

    def call(request: Request) -> Answer:
        params = request.params
        if "requestState" in params:
            if changes:
                changes.pop()()
            return failure(INVALID_PARAMS, "an unknown state")
        if len(sent(child)) == 1:
            asked: JsonObject = {"resultType": "input_required", "inputRequests": {"r": ROOTS}}
            return {**asked, "requestState": "of another process"}
        return {"resultType": "complete", "content": []}

    child = FakeChild(ECHO, era="modern", answers={"tools/call": call})
    async with scripted(child) as hub:
        operator = hub.services.operator
        changes.append(lambda: operator.take(OperatorRoots()))
        caller = ScriptedCaller(hub, {**EVERYTHING, "roots": {}})
        first = await caller.round()
        assert first["inputRequests"] == {ROOTS_KEY: ROOTS}
        last = await caller.round({ROOTS_KEY: {"roots": []}}, first["requestState"])
        assert last["resultType"] == "complete"
        states = ["requestState" in one for one in sent(child)]
        assert states == [False, True, True, False], "the third is the call that was judged again"
