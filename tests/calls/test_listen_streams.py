"""`subscriptions/listen` of a modern client, before children of both eras."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import anyio
import pytest
from structlog.testing import capture_logs

from hub.calls.subscriptions import SHOWN
from hub.children.callbacks import ChildCallbacks
from hub.children.clients import MAX_LISTENERS
from hub.jsonrpc.messages import Failure, Request
from hub.protocol.constants import (
    CLIENT_CAPABILITIES_META,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    RESOURCE_NOT_FOUND,
)
from hub.protocol.input_requests import URL_NEEDED
from hub.protocol.listen_filter import ACKNOWLEDGED, LISTEN, SUBSCRIPTION_ID_META, UPDATED
from hub.values import Json, JsonObject, ServerName, SessionKey
from tests.kit.fakes import ECHO, READ, SILENT, Answer, FakeChild, RecordingListener, failure
from tests.kit.hubs import FakeClient
from tests.kit.loops import all_tasks_blocked
from tests.kit.scripted import ScriptedHub, refusal, scripted
from tests.kit.trees import plant
from tests.server.test_modern import envelope, with_roots

TOOLS = "notifications/tools/list_changed"
MEMO = "memo://x/y"


def params(roots: Json = None, **fields: Json) -> JsonObject:
    return {"notifications": {**fields}, "_meta": envelope(roots)}


async def listening(
    client: FakeClient, roots: Json = None, **fields: Json
) -> tuple[int, JsonObject]:
    """Open a stream; returns its id and what the hub acknowledged."""
    id_ = await client.begin(LISTEN, params(roots, **fields))
    await client.until(lambda: bool(of_stream(client, id_)))
    first = of_stream(client, id_)[0]
    assert first["method"] == ACKNOWLEDGED
    return id_, first["params"]["notifications"]


def of_stream(client: FakeClient, id_: int) -> list[Any]:
    """Return what came on one stream."""
    found: list[Any] = []
    for line in client.received:
        sent: Any = line.get("params")
        if sent and sent.get("_meta", {}).get(SUBSCRIPTION_ID_META) == id_:
            found.append(line)
    return found


def methods(client: FakeClient, id_: int) -> list[str]:
    return [line["method"] for line in of_stream(client, id_)]


def resourceful(era: Any = "legacy", **changes: Any) -> FakeChild:
    """Return a child that tells of changes and of its resources."""
    answers: dict[str, Any] = {
        "resources/list": {"resources": [{"uri": MEMO, "name": "y"}]},
        "resources/templates/list": {"resourceTemplates": []},
        "resources/subscribe": {},
        "resources/unsubscribe": {},
        "prompts/list": {"prompts": []},
    }
    told: JsonObject = {"listChanged": True}
    capabilities: JsonObject = {
        "tools": told,
        "prompts": told,
        "resources": {"subscribe": True, **told},
    }
    child = FakeChild(ECHO, READ, era=era, capabilities=capabilities, answers=answers, **changes)
    if era == "modern":
        child.answers[LISTEN] = acknowledging(child)
    return child


def acknowledging(child: FakeChild) -> Any:
    """Return how a modern child opens every stream that is asked for."""

    def begin(request: Request) -> Answer:
        meta: JsonObject = {SUBSCRIPTION_ID_META: request.id}
        honoured = request.params["notifications"]
        child.link.notify(ACKNOWLEDGED, {"_meta": meta, "notifications": honoured})
        return SILENT

    return begin


def say(child: FakeChild, method: str, era: str, **fields: Json) -> None:
    """Let the newest connection tell something, on the stream for it if there are any."""
    if era == "legacy":
        child.link.notify(method, fields)
        return
    for line in child.link.requests(LISTEN):
        wanted = line["params"]["notifications"]
        named = fields.get("uri") in wanted.get("resourceSubscriptions", [])
        if named if method == UPDATED else wanted.get("toolsListChanged"):
            child.link.notify(method, {**fields, "_meta": {SUBSCRIPTION_ID_META: line["id"]}})


async def listed(hub: ScriptedHub, roots: Json = None) -> None:
    await hub.client().request("tools/list", {"_meta": envelope(roots)})


async def read_with_roots(hub: ScriptedHub, top: Path) -> None:
    """Make a call of the same client with its roots, which starts another child."""
    called: JsonObject = {
        "name": "read",
        "arguments": {"path": str(top / "a/x")},
        "_meta": envelope(),
        "inputResponses": with_roots((top / "a").as_uri()),
    }
    await hub.client().request("tools/call", called)


@pytest.fixture
def top(tmp_path: Path) -> Path:
    return plant(tmp_path, "a/x", "b/x")


@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.parametrize("roots", [None, {}])
async def test_a_changed_list_is_told_to_who_wants_it(era: str, roots: Json) -> None:
    child = resourceful(era)
    async with scripted(child) as hub:
        client, other = hub.client(), hub.client()
        id_, honoured = await listening(client, roots, toolsListChanged=True)
        assert honoured == {"toolsListChanged": True}
        unrelated, nothing = await listening(other, roots, promptsListChanged=True)
        assert nothing == {"promptsListChanged": True}
        assert child.links == [], "listening starts nothing"
        await listed(hub, roots)
        say(child, TOOLS, era)
        await client.until(lambda: TOOLS in methods(client, id_))
        assert methods(client, id_) == [ACKNOWLEDGED, TOOLS]
        assert methods(other, unrelated) == [ACKNOWLEDGED]


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_modern_client_hears_the_children_of_its_roots_too(top: Path, era: str) -> None:
    child = resourceful(era)
    async with scripted(child) as hub:
        client = hub.client()
        id_, _ = await listening(client, {}, toolsListChanged=True, resourceSubscriptions=[MEMO])
        assert len(child.links) == 1
        await read_with_roots(hub, top)
        assert len(child.links) == 2
        method = "resources/subscribe" if era == "legacy" else LISTEN
        await child.link.request(method, nth=1 if era == "legacy" else 2)
        say(child, TOOLS, era)
        say(child, UPDATED, era, uri=MEMO)
        await client.until(lambda: len(of_stream(client, id_)) == 3)
        assert set(methods(client, id_)) == {ACKNOWLEDGED, TOOLS, UPDATED}


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_subscribed_resource_is_told_of_until_the_stream_ends(era: str) -> None:
    child = resourceful(era)
    async with scripted(child) as hub:
        client = hub.client()
        id_, honoured = await listening(client, resourceSubscriptions=[MEMO])
        assert honoured == {"resourceSubscriptions": [MEMO]}
        say(child, UPDATED, era, uri=MEMO)
        say(child, UPDATED, era, uri="memo://other")
        await client.until(lambda: UPDATED in methods(client, id_))
        assert of_stream(client, id_)[1]["params"] == {
            "uri": MEMO,
            "_meta": {SUBSCRIPTION_ID_META: id_},
        }
        await client.notify_cancelled(id_)
        ended = "resources/unsubscribe" if era == "legacy" else "notifications/cancelled"
        await child.link.request(ended)
        assert not client.is_answered(id_)


async def test_a_stream_that_has_ended_subscribes_to_nothing_more(top: Path) -> None:
    child, other = resourceful(), f"{MEMO}/other"
    child.answers["resources/list"] = {
        "resources": [{"uri": MEMO, "name": "y"}, {"uri": other, "name": "z"}]
    }
    async with scripted(child) as hub:
        client = hub.client()
        id_, _ = await listening(client, {}, resourceSubscriptions=[MEMO, other])
        child.answers["resources/subscribe"] = SILENT
        await read_with_roots(hub, top)
        asked = await child.link.request("resources/subscribe")
        await client.notify_cancelled(id_)
        await child.link.request("resources/unsubscribe")
        child.link.answer(asked["id"], {})
        await all_tasks_blocked()
        assert child.link.requests("resources/subscribe") == [asked]


async def test_what_a_child_refuses_one_stream_is_ended_for_another_that_has_ended(
    top: Path,
) -> None:
    child = resourceful()
    async with scripted(child) as hub:
        client = hub.client()
        first, _ = await listening(client, {}, resourceSubscriptions=[MEMO])
        await read_with_roots(hub, top)
        of_roots = child.link
        await of_roots.request("resources/subscribe")
        await all_tasks_blocked()
        first_link = child.links[0]
        child.answers["resources/subscribe"] = SILENT
        second = await client.begin(LISTEN, params({}, resourceSubscriptions=[MEMO]))
        own = await first_link.request("resources/subscribe", nth=2)
        first_link.answer(own["id"], {})
        asked = await of_roots.request("resources/subscribe", nth=2)
        await client.notify_cancelled(first)
        await all_tasks_blocked()
        assert of_roots.requests("resources/unsubscribe") == []
        of_roots.answer(asked["id"], failure(INTERNAL_ERROR, "not now"))
        await client.until(lambda: bool(of_stream(client, second)))
        await of_roots.request("resources/unsubscribe")


async def test_a_stream_leaves_all_children_though_one_has_the_resource_no_more(top: Path) -> None:
    child = resourceful()
    async with scripted(child) as hub:
        client = hub.client()
        id_, _ = await listening(client, {}, resourceSubscriptions=[MEMO])
        await read_with_roots(hub, top)
        first, of_roots = child.links
        await of_roots.request("resources/subscribe")
        first.crash()
        await child.ended()
        child.answers["resources/subscribe"] = failure(RESOURCE_NOT_FOUND, "no such resource")
        echoed: JsonObject = {"name": "echo", "arguments": {}, "_meta": envelope()}
        await hub.client().request("tools/call", echoed)
        await (await child.connected(3)).request("resources/subscribe")
        await all_tasks_blocked()
        await client.notify_cancelled(id_)
        await of_roots.request("resources/unsubscribe")


async def test_the_subscription_is_known_before_it_is_acknowledged() -> None:
    child = resourceful()

    def subscribed(request: Request) -> Answer:
        child.link.notify(UPDATED, {"uri": MEMO})
        return {}

    child.answers["resources/subscribe"] = subscribed
    async with scripted(child) as hub:
        client = hub.client()
        await listed(hub)
        id_, _ = await listening(client, resourceSubscriptions=[MEMO])
        say(child, UPDATED, "legacy", uri=f"{MEMO}/part")
        await client.until(lambda: len(of_stream(client, id_)) >= 2)
        assert methods(client, id_)[0] == ACKNOWLEDGED
        assert of_stream(client, id_)[-1]["params"]["uri"] == f"{MEMO}/part"


async def test_what_cannot_be_subscribed_to_is_left_out_of_the_acknowledgement(top: Path) -> None:
    child = resourceful()
    child.answers["resources/list"] = {"resources": [{"uri": MEMO, "name": "y"}]}
    inside, outside = (top / "a/x").as_uri(), (top / "b/x").as_uri()
    async with scripted(child, given=[str(top / "a")]) as hub:
        client = hub.client()
        _, honoured = await listening(client, resourceSubscriptions=[inside, outside, MEMO])
        assert honoured == {"resourceSubscriptions": [inside, MEMO]}
        _, unknown = await listening(client, {}, resourceSubscriptions=[inside, outside, MEMO])
        assert unknown == {"resourceSubscriptions": [MEMO]}, "its roots cannot be asked for"
        del child.answers["resources/subscribe"]
        _, nothing = await listening(client, resourceSubscriptions=["memo://z"])
        assert nothing == {}


async def test_however_many_resources_are_refused_the_log_has_one_line_of_it() -> None:
    uris: list[Json] = [f"file:///{'x' * 1000}/{number}" for number in range(100)]
    child = resourceful()
    child.answers["resources/subscribe"] = failure(INVALID_PARAMS, "x" * 1000)
    async with scripted(child) as hub:
        with capture_logs() as logs:
            _, honoured = await listening(hub.client(), resourceSubscriptions=uris)
        assert honoured == {}
        (line,) = [line for line in logs if line["event"] == "not subscribed"]
        assert line["resources"] == 100
        assert len(line["first"]) == SHOWN


async def test_a_resource_for_which_the_user_must_visit_a_url_is_left_out() -> None:
    child = resourceful()
    elicitation: JsonObject = {"url": "https://example.com/1", "elicitationId": "1", "message": "m"}
    error: JsonObject = {
        "code": URL_NEEDED,
        "message": "log in first",
        "data": {"elicitations": [elicitation]},
    }
    child.answers["resources/subscribe"] = Failure(None, error)
    asked = params(None, resourceSubscriptions=[MEMO])
    asked["_meta"] = {**envelope(), CLIENT_CAPABILITIES_META: {"elicitation": {"url": {}}}}
    async with scripted(child) as hub:
        client = hub.client()
        with capture_logs() as logs:
            id_ = await client.begin(LISTEN, asked)
            await client.until(lambda: bool(of_stream(client, id_)))
        assert of_stream(client, id_)[0]["params"]["notifications"] == {}
        assert [line["first"] for line in logs if "first" in line] == ["log in first"]
        assert [line for line in logs if line["log_level"] == "error"] == []


@pytest.mark.parametrize("bad", [None, [], "x", {"toolsListChanged": 7}])
async def test_a_filter_that_is_none_is_refused(bad: Json) -> None:
    async with scripted(FakeChild(ECHO)) as hub:
        given: JsonObject = {"notifications": bad, "_meta": envelope()}
        assert (await refusal(hub.client(), LISTEN, given))["code"] == INVALID_PARAMS


async def test_there_are_not_endlessly_many_streams() -> None:
    async with scripted(FakeChild(ECHO)) as hub:
        client, listeners = hub.client(), hub.services.children.listeners
        with ExitStack() as others:
            for number in range(MAX_LISTENERS // 2):
                key, whose = SessionKey(f"other {number}"), client.connection.session.principal
                others.enter_context(listeners.listening(key, whose, RecordingListener()))
            error = await refusal(client, LISTEN, params(toolsListChanged=True))
        assert error["code"] == INTERNAL_ERROR
        await listening(client, toolsListChanged=True)


async def test_a_stream_that_the_hub_ends_is_answered() -> None:
    async with scripted(resourceful()) as hub:
        client = hub.client()
        id_, _ = await listening(client, toolsListChanged=True, resourceSubscriptions=[MEMO])
        client.connection.modern.end_listening()
        result: Any = (await client.end(id_))["result"]
        assert result["resultType"] == "complete"
        assert result["_meta"][SUBSCRIPTION_ID_META] == id_


async def test_streams_of_one_client_are_kept_apart() -> None:
    child = resourceful()
    async with scripted(child) as hub:
        client = hub.client()
        await listed(hub)
        first, _ = await listening(client, toolsListChanged=True)
        second, _ = await listening(client, toolsListChanged=True, promptsListChanged=True)
        say(child, TOOLS, "legacy")
        say(child, "notifications/prompts/list_changed", "legacy")
        await client.until(lambda: len(of_stream(client, second)) == 3)
        assert methods(client, first) == [ACKNOWLEDGED, TOOLS]


async def test_a_child_that_comes_again_is_subscribed_at_again() -> None:
    child = resourceful()
    async with scripted(child) as hub:
        client = hub.client()
        id_, _ = await listening(client, {}, resourceSubscriptions=[MEMO])
        child.link.crash()
        await child.ended()
        called: JsonObject = {"name": "echo", "arguments": {}, "_meta": envelope()}
        await hub.client().request("tools/call", called)
        await (await child.connected(2)).request("resources/subscribe")
        say(child, UPDATED, "legacy", uri=MEMO)
        await client.until(lambda: UPDATED in methods(client, id_))


async def test_each_of_many_resources_is_looked_at_a_few_times(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks, has = list[str](), ChildCallbacks.has

    def counted(self: ChildCallbacks, uri: str, session: SessionKey) -> bool:
        looks.append(uri)
        return has(self, uri, session)

    monkeypatch.setattr(ChildCallbacks, "has", counted)
    uris: list[Json] = [f"memo://x/{number}" for number in range(50)]
    child = resourceful()
    async with scripted(child) as hub:
        await listed(hub, {})
        _, honoured = await listening(hub.client(), {}, resourceSubscriptions=uris)
        assert honoured == {"resourceSubscriptions": uris}
    assert len(looks) <= 4 * len(uris)


async def test_logs_are_not_for_such_a_stream() -> None:
    child = resourceful()
    async with scripted(child) as hub:
        client = hub.client()
        id_, _ = await listening(client, toolsListChanged=True)
        await listed(hub)
        child.link.notify("notifications/message", {"level": "error", "data": 1})
        say(child, TOOLS, "legacy")
        await client.until(lambda: TOOLS in methods(client, id_))
        await all_tasks_blocked()
        assert methods(client, id_) == [ACKNOWLEDGED, TOOLS]


async def test_a_server_that_comes_after_a_listing_without_it_is_told_of() -> None:
    late = resourceful()
    async with scripted({"late": late, "there": resourceful()}) as hub:
        client = hub.client()
        id_, _ = await listening(client, toolsListChanged=True)
        hub.services.children.listeners.missed("test", ServerName("late"))
        for server in ("there", "late"):
            called: JsonObject = {"name": f"{server}__echo", "_meta": envelope(None)}
            await hub.client().request("tools/call", called)
        await client.until(lambda: TOOLS in methods(client, id_))
        await all_tasks_blocked()
        assert methods(client, id_) == [ACKNOWLEDGED, TOOLS]


async def test_nothing_waits_for_a_stream_that_is_given_up_before_it_is_acknowledged() -> None:
    child = resourceful()
    child.answers["resources/subscribe"] = SILENT
    async with scripted(child) as hub:
        client = hub.client()
        await listed(hub)
        given_up = await client.begin(LISTEN, params(resourceSubscriptions=[MEMO]))
        await child.link.request("resources/subscribe")
        await client.notify_cancelled(given_up)
        await child.link.request("notifications/cancelled")
        await all_tasks_blocked()
        waiting = [task.name for task in anyio.get_running_tasks()]
        assert [name for name in waiting if name and "Mailbox" in name] == []
        assert of_stream(client, given_up) == []
