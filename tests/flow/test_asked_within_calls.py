"""A modern child before a client of the handshake era: its questions are asked within the call."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hub.children.child_call import MAX_INPUT_ROUNDS
from hub.protocol.constants import CLIENT_CAPABILITIES_META, METHOD_NOT_FOUND
from hub.protocol.input_requests import ELICITATION, ELICITED, SAMPLING
from hub.values import Json, JsonObject
from tests.flow.test_relayed_rounds import ROOTS, asking, form, forms, sent
from tests.kit.callers import FORM, URL
from tests.kit.fakes import ECHO, SILENT, FakeChild, failure
from tests.kit.hubs import FakeClient, text_of
from tests.kit.loops import all_tasks_blocked
from tests.kit.scripted import ScriptedHub, scripted
from tests.kit.trees import plant

pytestmark = pytest.mark.usefixtures("both_ways")

BOTH: JsonObject = {"sampling": {}, "elicitation": {"form": {}, "url": {}}}
ACCEPTED: JsonObject = {"action": "accept", "content": {"n": 18446744073709551617}}
MODEL: JsonObject = {"method": SAMPLING, "params": {"messages": [], "n": 1}}
OPEN: JsonObject = {"method": ELICITATION, "params": URL}


class AskedClient:
    """A client of the handshake era, and what it is asked."""

    def __init__(self, client: FakeClient) -> None:
        self.client = client
        self._taken = 0

    async def next(self) -> JsonObject:
        """Return the next request of the hub's."""
        requests: Callable[[], list[JsonObject]] = lambda: [  # noqa: E731
            line for line in self.client.received if "method" in line and "id" in line
        ]
        await self.client.until(lambda: len(requests()) > self._taken)
        self._taken += 1
        return requests()[self._taken - 1]

    def told(self, method: str) -> list[Json]:
        return [line["params"] for line in self.client.received if line.get("method") == method]


async def asked(hub: ScriptedHub, capabilities: JsonObject = BOTH) -> AskedClient:
    return AskedClient(await hub.greeted(capabilities))


async def begun(asked: AskedClient) -> int:
    return await asked.client.begin("tools/call", {"name": "echo", "arguments": {"text": "hi"}})


async def test_each_question_is_a_request_within_the_call_and_the_child_gets_its_state_back() -> (
    None
):
    child = asking({"model": MODEL, "form": form(), "url": OPEN})
    async with scripted(child) as hub:
        client = await asked(hub)
        id_ = await begun(client)
        said: dict[str, JsonObject] = {}
        for key, method in (("model", SAMPLING), ("form", ELICITATION), ("url", ELICITATION)):
            request = await client.next()
            assert request["method"] == method
            said[key] = {**ACCEPTED, "to": key}
            await client.client.reply(request, said[key])
        answer: Any = (await client.client.end(id_))["result"]
        assert answer["resultType"] == "complete"
        answers: JsonObject = dict(said)
        assert sent(child) == [{}, {"inputResponses": answers, "requestState": "round 1"}]
        declared = answer["got"]["_meta"][CLIENT_CAPABILITIES_META]
        assert {name: declared[name] for name in BOTH} == BOTH


async def test_questions_are_asked_in_the_words_of_the_handshake_era() -> None:
    child = asking({"model": MODEL}, {"form": form(extra=1)}, {"url": OPEN})
    async with scripted(child) as hub:
        client = await asked(hub)
        id_ = await begun(client)
        asked_for: list[Any] = []
        for _ in range(3):
            request = await client.next()
            asked_for.append(request["params"])
            await client.client.reply(request, {"action": "accept"})
        await client.client.end(id_)
        model, shown, url = asked_for
        assert model == MODEL["params"]
        assert shown == {**FORM, "extra": 1}
        elicitation = url.pop("elicitationId")
        assert url == URL
        assert isinstance(elicitation, str)
        assert client.told(ELICITED) == [{"elicitationId": elicitation}]


@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_of_a_url_that_the_user_did_not_open_no_end_is_told(action: str) -> None:
    child = asking({"url": OPEN})
    async with scripted(child) as hub:
        client = await asked(hub)
        id_ = await begun(client)
        await client.client.reply(await client.next(), {"action": action})
        await client.client.end(id_)
        assert client.told(ELICITED) == []


async def test_roots_are_not_asked_for_again_but_answered_by_the_hub(tmp_path: Path) -> None:
    child = asking({"r": ROOTS}, {"r": ROOTS, "form": form()})
    async with scripted(child, given=[str(tmp_path)]) as hub:
        client = await asked(hub)
        id_ = await begun(client)
        await client.client.reply(await client.next(), ACCEPTED)
        await client.client.end(id_)
        retries: list[Any] = sent(child)[1:]
        shared = [more["inputResponses"]["r"]["roots"] for more in retries]
        uris = [[root["uri"] for root in roots] for roots in shared]
        assert uris == [[tmp_path.as_uri()]] * 2


async def test_a_child_that_asks_too_often_is_given_up() -> None:
    child = asking(*forms(MAX_INPUT_ROUNDS + 1))
    async with scripted(child) as hub:
        client = await asked(hub)
        id_ = await begun(client)
        for _ in range(MAX_INPUT_ROUNDS):
            await client.client.reply(await client.next(), ACCEPTED)
        answer: Any = (await client.client.end(id_))["result"]
        assert answer["isError"] is True
        assert f"asked for input {MAX_INPUT_ROUNDS} times" in text_of(answer)


@pytest.mark.parametrize(
    ("capabilities", "wanted"),
    [
        ({"sampling": {}}, form()),
        ({"elicitation": {}}, MODEL),
        ({"elicitation": {}}, OPEN),
        ({"elicitation": {"url": {}}}, form()),
        ({}, form()),
    ],
)
async def test_a_client_that_does_not_declare_it_is_not_asked(
    capabilities: JsonObject, wanted: JsonObject
) -> None:
    child = asking({"a": wanted})
    async with scripted(child) as hub:
        client = await asked(hub, capabilities)
        answer: Any = await client.client.end(await begun(client))
        assert answer["error"]["code"] == METHOD_NOT_FOUND
        assert sent(child) == [{}]


async def test_an_error_of_the_client_is_the_calls() -> None:
    child = asking({"model": MODEL, "form": form()})
    async with scripted(child) as hub:
        client = await asked(hub)
        id_ = await begun(client)
        request = await client.next()
        error: JsonObject = {"code": -1, "message": "the user said no", "data": {"n": 1}}
        await client.client.reply_with_error(request, error)
        assert (await client.client.end(id_))["error"] == error
        assert sent(child) == [{}]


async def test_a_call_that_is_cancelled_in_between_is_not_made_again() -> None:
    child = asking({"form": form()})
    async with scripted(child) as hub:
        client = await asked(hub)
        id_ = await begun(client)
        request = await client.next()
        await client.client.notify("notifications/cancelled", {"requestId": id_})
        await client.client.until(lambda: bool(client.told("notifications/cancelled")))
        (cancelled,) = client.told("notifications/cancelled")
        assert isinstance(cancelled, dict)
        assert cancelled["requestId"] == request["id"]
        await client.client.reply(request, ACCEPTED)
        await all_tasks_blocked()
        assert sent(child) == [{}]
        assert not client.client.is_answered(id_)


async def test_a_child_that_only_wants_to_be_called_again_is() -> None:
    child = asking({}, {})
    async with scripted(child) as hub:
        client = await asked(hub, {})
        answer: Any = (await client.client.end(await begun(client)))["result"]
        assert answer["resultType"] == "complete"
        assert sent(child) == [{}, {"requestState": "round 1"}, {"requestState": "round 2"}]


# Both of the handshake era: the end of what a URL was opened for


async def test_the_end_of_an_elicitation_is_told_to_the_client_that_was_asked_alone() -> None:
    child = FakeChild(ECHO)
    async with scripted(child) as hub:
        client, other = await asked(hub), await asked(hub)
        await other.client.end(await begun(other))
        child.answers["tools/call"] = SILENT
        id_ = await begun(client)
        link = await child.connected()
        call = await link.request("tools/call", nth=2)
        link.ask("q", ELICITATION, {**URL, "elicitationId": "e1"})
        request = await client.next()
        assert request["params"] == {**URL, "elicitationId": "e1"}
        await client.client.reply(request, {"action": "accept"})
        assert (await link.reply("q"))["result"] == {"action": "accept"}
        for known, elicitation in ((False, "e2"), (True, "e1")):
            link.notify(ELICITED, {"elicitationId": elicitation, "more": known})
        link.answer(call["id"], {"content": []})
        await client.client.end(id_)
        assert client.told(ELICITED) == [{"elicitationId": "e1", "more": True}]
        link.notify(ELICITED, {"elicitationId": "e1", "later": True})
        await client.client.until(lambda: len(client.told(ELICITED)) == 2)
        assert other.told(ELICITED) == []


async def test_the_end_of_what_an_error_named_is_told_to_who_got_the_error() -> None:
    error: JsonObject = {"elicitations": [{**URL, "elicitationId": "e1"}]}
    failed = failure(-32042, "log in first")
    assert isinstance(failed.error, dict)
    failed.error["data"] = error
    child = FakeChild(ECHO, answers={"tools/call": failed})
    async with scripted(child) as hub:
        client, other = await asked(hub), await asked(hub)
        for _ in range(2):
            answer: Any = await client.client.end(await begun(client))
            assert answer["error"] == failed.error
        child.answers["tools/call"] = {"content": []}
        await other.client.end(await begun(other))
        child.link.notify(ELICITED, {"elicitationId": "e1"})
        await client.client.until(lambda: bool(client.told(ELICITED)))
        assert other.told(ELICITED) == []


@pytest.mark.parametrize("withdrawn", ["by the client", "by the operator"])
async def test_a_further_round_is_not_sent_under_roots_that_were_withdrawn_meanwhile(
    tmp_path: Path, withdrawn: str
) -> None:
    top, file = plant(tmp_path, "a/x", "b/x"), tmp_path / "audit.jsonl"
    child, audit = asking({"user": form()}), {"audit": {"file": str(file)}}
    async with scripted(child, config=audit) as hub:
        client = await hub.greeted({"roots": {}, **BOTH}, [{"uri": (top / "a").as_uri()}])
        params: JsonObject = {"name": "read", "arguments": {"path": f"{top}/a/x"}}
        id_ = await client.begin("tools/call", params)
        await client.until(lambda: any(one.get("method") == ELICITATION for one in client.received))
        (question,) = [one for one in client.received if one.get("method") == ELICITATION]
        before = len(sent(child))
        if withdrawn == "by the client":
            client.roots = [{"uri": (top / "b").as_uri()}]
            times = len(client.asked)
            await client.changed()
            await client.until_asked(times + 1)
        else:
            await hub.take(roots={"deny": ["x"]}, **audit)
        await client.reply(question, ACCEPTED)
        refused: Any = (await client.end(id_))["result"]
        assert text_of(refused).startswith("Access denied: ")
        assert len(sent(child)) == before
    verdicts = [json.loads(line)["verdict"] for line in file.read_text().splitlines()]
    assert verdicts[-1:] == ["refused"]
    assert len(verdicts) == 1 + int(client.by_cached_route)


async def test_a_call_whose_roots_changed_between_rounds_is_made_again_where_it_is_admitted(
    tmp_path: Path,
) -> None:
    top = plant(tmp_path, "a/x", "b/x")
    child = asking({"user": form()})
    async with scripted(child) as hub:
        uris: list[Json] = [{"uri": (top / name).as_uri()} for name in "ab"]
        client = await hub.greeted({"roots": {}, **BOTH}, uris[:1])
        params: JsonObject = {"name": "read", "arguments": {"path": f"{top}/a/x"}}

        def questions() -> list[JsonObject]:
            return [one for one in client.received if one.get("method") == ELICITATION]

        id_ = await client.begin("tools/call", params)
        await client.until(lambda: len(questions()) == 1)
        client.roots, times = uris, len(client.asked)
        await client.changed()
        await client.until_asked(times + 1)
        await client.reply(questions()[0], ACCEPTED)
        await client.until(lambda: len(questions()) == 2)
        await client.reply(questions()[1], ACCEPTED)
        result: Any = (await client.end(id_))["result"]
        assert result["got"]["arguments"] == params["arguments"]
        assert sent(child)[-2:] == [
            {},
            {"inputResponses": {"user": ACCEPTED}, "requestState": "round 1"},
        ]
