from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest
from structlog.testing import capture_logs

from hub.app.running import ConnectionBuilder
from hub.calls.modern_calls import ModernCalls
from hub.calls.resolve import Relay
from hub.errors import ChildError, ConfigError, RouteError
from hub.jsonrpc.exact_json import WireError
from hub.jsonrpc.messages import Failure, Payload, Request
from hub.jsonrpc.peer import Outlet
from hub.protocol.constants import (
    CLIENT_CAPABILITIES_META,
    HANDSHAKE_VERSIONS,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    LOG_LEVELS,
    METHOD_NOT_FOUND,
    MODERN_VERSIONS,
    PROTOCOL_VERSION_META,
    UNSUPPORTED_VERSION,
)
from hub.server.connection import MAX_NAMED, ClientConnection
from hub.server.modern import CAPABILITIES
from hub.sessions.client import MAX_DECLARED
from hub.sessions.services import Services
from hub.system.tasks import TaskStarter
from hub.values import JsonObject
from tests.kit.fakes import ECHO, SILENT, Answer, FakeChild, Script
from tests.kit.hubs import READ_FILE, FakeClient
from tests.kit.loops import all_tasks_blocked
from tests.kit.scripted import ROOTS, ScriptedHub, refusal, scripted
from tests.kit.trees import plant

ENVELOPE: JsonObject = {
    "_meta": {PROTOCOL_VERSION_META: MODERN_VERSIONS[-1], CLIENT_CAPABILITIES_META: {}}
}
SAY: JsonObject = {"name": "echo", "arguments": {"text": "hi"}}


# The handshake


@pytest.mark.parametrize("version", HANDSHAKE_VERSIONS)
async def test_a_version_of_the_handshake_is_agreed_to(version: str) -> None:
    async with scripted(FakeChild()) as hub:
        answer = await hub.client().initialize({}, version)
        assert answer["protocolVersion"] == version
        assert answer["capabilities"] == CAPABILITIES
        assert answer["serverInfo"] == hub.services.info


@pytest.mark.parametrize("version", ["2099-01-01", "", *MODERN_VERSIONS])
async def test_another_version_gets_the_newest_of_the_handshake(version: str) -> None:
    async with scripted(FakeChild()) as hub:
        answer = await hub.client().initialize({}, version)
        assert answer["protocolVersion"] == HANDSHAKE_VERSIONS[-1]


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"protocolVersion": "2025-11-25"},
        {"capabilities": {}},
        {"protocolVersion": 7, "capabilities": {}},
        {"protocolVersion": "2025-11-25", "capabilities": []},
    ],
)
async def test_a_handshake_says_its_version_and_capabilities(params: JsonObject) -> None:
    async with scripted(FakeChild()) as hub:
        client = hub.client()
        assert (await refusal(client, "initialize", params))["code"] == INVALID_PARAMS
        await client.initialize({})


async def test_a_client_need_not_say_who_it_is() -> None:
    async with scripted(FakeChild()) as hub:
        client = hub.client()
        params: JsonObject = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": 7}
        await client.request("initialize", params)
        known = client.connection.session.client
        assert known is not None
        assert (known.era, known.info) == ("legacy", {})


async def test_a_session_holds_little_of_what_its_client_declares() -> None:
    async with scripted(FakeChild()) as hub:
        client, large = hub.client(), "x" * (MAX_DECLARED + 1)
        params: JsonObject = {"protocolVersion": "2025-11-25", "capabilities": {"a": large}}
        assert (await refusal(client, "initialize", params))["code"] == INVALID_PARAMS
        said: JsonObject = {"name": large, "version": "7", "icons": [{"src": large}]}
        await client.request("initialize", {**params, "capabilities": {}, "clientInfo": said})
        known = client.connection.session.client
        assert known is not None
        assert known.info == {"name": large[:MAX_NAMED], "version": "7"}


async def test_a_handshake_is_made_once() -> None:
    async with scripted(FakeChild()) as hub:
        client = await hub.greeted()
        params: JsonObject = {"protocolVersion": "2025-11-25", "capabilities": {}}
        assert (await refusal(client, "initialize", params))["code"] == INVALID_REQUEST


async def test_the_envelope_on_an_initialize_does_not_count() -> None:
    async with scripted(FakeChild()) as hub:
        client = hub.client()
        params: JsonObject = {"protocolVersion": "2025-11-25", "capabilities": {}, **ENVELOPE}
        assert (await client.request("initialize", params))["protocolVersion"] == "2025-11-25"
        assert await client.request("ping", {}) == {}


@pytest.mark.parametrize(
    "method", ["tools/list", "tools/call", "resources/read", "logging/setLevel", "nonsense"]
)
async def test_before_the_handshake_only_a_ping_is_answered(method: str) -> None:
    child = FakeChild(ECHO)
    async with scripted(child) as hub:
        client = hub.client()
        error = await refusal(client, method, SAY)
        assert (error["code"], error["message"]) == (INVALID_REQUEST, f"{method} before initialize")
        assert await client.request("ping", {}) == {}
        assert child.links == []


async def test_a_probe_for_the_modern_era_without_its_envelope_is_an_unknown_method() -> None:
    async with scripted(FakeChild()) as hub:
        error = await refusal(hub.client(), "server/discover")
        assert error["code"] == METHOD_NOT_FOUND
        assert MODERN_VERSIONS[-1] in error["message"]


async def test_notifications_before_the_handshake_do_nothing() -> None:
    async with scripted(FakeChild()) as hub:
        client = hub.client()
        for method in ("notifications/initialized", "notifications/roots/list_changed", "x"):
            await client.notify(method)
        await client.initialize(ROOTS)
        await client.initialized()
        await client.until_asked()
        assert len(client.asked) == 1


async def test_a_client_is_not_asked_for_roots_while_it_greets(tmp_path: Path) -> None:
    root: JsonObject = {"uri": tmp_path.as_uri()}
    async with scripted(FakeChild(ECHO)) as hub:
        client = hub.client([root])
        await client.initialize(ROOTS)
        client.connection.session.roots.reachable()
        await client.request("ping", {})
        assert client.asked == []
        await client.initialized()
        await client.until_asked()


async def test_who_asks_for_something_has_finished_its_handshake() -> None:
    async with scripted(FakeChild(ECHO)) as hub:
        client = hub.client()
        await client.initialize(ROOTS)
        assert (await client.call("echo", text="hi"))["structuredContent"] == {"text": "hi"}
        assert len(client.asked) == 1


@pytest.mark.parametrize("method", ["notifications/roots/list_changed", "roots/list_changed"])
async def test_a_change_of_roots_is_heard_in_both_spellings(tmp_path: Path, method: str) -> None:
    top = plant(tmp_path, "a/", "b/")
    async with scripted(FakeChild(READ_FILE)) as hub:
        client = await hub.greeted(ROOTS, [{"uri": (top / "a").as_uri()}])
        assert await client.is_refused(str(top / "b"))
        client.roots = [{"uri": (top / "b").as_uri()}]
        await client.notify(method)
        assert (await client.call("read_file", path=str(top / "b"))).get("isError") is None


# The two eras do not mix


async def test_after_a_handshake_an_envelope_is_refused() -> None:
    async with scripted(FakeChild(ECHO)) as hub:
        client = await hub.greeted()
        error = await refusal(client, "tools/call", {**SAY, **ENVELOPE})
        assert error["code"] == INVALID_REQUEST
        assert (await client.call("echo", text="hi"))["structuredContent"] == {"text": "hi"}
        for params, is_known in ((SAY, True), ({**SAY, **ENVELOPE}, False)):
            route = client.connection.route_for(Request(1, "tools/call", params))
            assert (route is not None) is is_known


async def test_after_an_envelope_a_handshake_is_refused() -> None:
    async with scripted(FakeChild(ECHO)) as hub:
        client = hub.client()
        await client.request("tools/call", {**SAY, **ENVELOPE})
        params: JsonObject = {"protocolVersion": "2025-11-25", "capabilities": {}}
        error = await refusal(client, "initialize", params)
        assert error["code"] == UNSUPPORTED_VERSION
        assert error["data"] == {"supported": list(MODERN_VERSIONS), "requested": "2025-11-25"}
        assert (await refusal(client, "tools/call", SAY))["code"] == INVALID_PARAMS
        await client.request("tools/call", {**SAY, **ENVELOPE})


async def test_after_an_envelope_of_an_unknown_version_a_handshake_is_answered() -> None:
    """A client that knows a later version and the handshake, but no other, can go back to that."""
    async with scripted(FakeChild(ECHO)) as hub:
        client = hub.client()
        later: JsonObject = {
            "_meta": {PROTOCOL_VERSION_META: "2099-01-01", CLIENT_CAPABILITIES_META: {}}
        }
        assert (await refusal(client, "server/discover", later))["code"] == UNSUPPORTED_VERSION
        await client.initialize({})
        assert (await client.call("echo", text="hi"))["structuredContent"] == {"text": "hi"}


async def test_a_connection_of_the_one_era_does_not_bind_another() -> None:
    async with scripted(FakeChild(ECHO)) as hub:
        legacy, modern = await hub.greeted(), hub.client()
        assert "resultType" in await modern.request("tools/list", ENVELOPE)
        assert "resultType" not in await legacy.request("tools/list", {})


# What a request gets


async def test_an_unknown_method_is_named() -> None:
    async with scripted(FakeChild()) as hub:
        error = await refusal(await hub.greeted(), "tools/cal", SAY)
        assert error == {"code": METHOD_NOT_FOUND, "message": "Method not found: tools/cal"}


@pytest.mark.parametrize(
    ("method", "params", "named"),
    [
        ("tools/call", {"name": "nonsense"}, "nonsense"),
        ("tools/call", {"name": "a__nonsense"}, "a__nonsense"),
        ("tools/call", {"name": "none__echo"}, "none__echo"),
        ("prompts/get", {"name": "nonsense"}, "nonsense"),
        ("resources/read", {"uri": "x://nonsense"}, "x://nonsense"),
        ("resources/subscribe", {"uri": "x://nonsense"}, "x://nonsense"),
        ("resources/unsubscribe", {"uri": "x://nonsense"}, "x://nonsense"),
        ("tools/call", {}, "name"),
        ("tools/call", {"name": 7}, "name"),
        ("tools/call", {"name": "a__echo", "arguments": []}, "arguments"),
        ("tools/list", {"cursor": "nonsense"}, "cursor"),
    ],
)
async def test_what_leads_nowhere_is_an_invalid_parameter(
    method: str, params: JsonObject, named: str
) -> None:
    async with scripted({"a": FakeChild(ECHO), "b": FakeChild(ECHO)}) as hub:
        client = await hub.greeted()
        error = await refusal(client, method, params)
        assert error["code"] == INVALID_PARAMS
        assert named in error["message"]
        assert await client.request("ping", {}) == {}


async def test_a_wrong_cursor_says_what_is_wrong_with_it() -> None:
    async with scripted(FakeChild(ECHO)) as hub:
        error = await refusal(await hub.greeted(), "tools/list", {"cursor": "x"})
        assert error["data"] == {"reason": "not a cursor of this hub", "cursor": "x"}


async def test_an_error_of_a_child_comes_back_whole() -> None:
    error: JsonObject = {"code": -32042, "message": "no", "data": {"n": 1}, "more": True}
    child = FakeChild(ECHO, answers={"tools/call": Failure(None, error)})
    async with scripted(child) as hub:
        assert await refusal(await hub.greeted(), "tools/call", SAY) == error


async def test_what_a_child_answers_comes_back_as_it_wrote_it() -> None:
    raw = b'{"content":[],"zebra":1e400,"alpha":12345678901234567890.50,"_meta":{"k":null}}'
    child = FakeChild(ECHO, answers={"tools/call": raw})
    async with scripted(child) as hub:
        client = await hub.greeted()
        await client.call("echo", text="hi")
        assert client.texts[-1].endswith(b',"result":' + raw + b"}")


@pytest.mark.parametrize("method", ["prompts/get", "resources/read"])
async def test_a_refusal_of_what_is_no_tool_is_an_error(tmp_path: Path, method: str) -> None:
    listing: dict[str, Answer | Script] = {
        "prompts/list": {"prompts": [{"name": "p"}]},
        "resources/list": {"resources": [{"uri": "file:///etc/passwd", "name": "r"}]},
        "resources/templates/list": {"resourceTemplates": []},
    }
    child = FakeChild(answers=listing, capabilities={"prompts": {}, "resources": {}})
    params: JsonObject = {"name": "p", "arguments": {"path": "/etc/passwd"}}
    if method == "resources/read":
        params = {"uri": "file:///etc/passwd"}
    async with scripted(child, given=[str(tmp_path)]) as hub:
        error = await refusal(await hub.greeted(), method, params)
        assert error["code"] == INVALID_PARAMS
        assert error["message"].startswith("Access denied: ")
        assert error["data"]["roots-hub/refusal"]["mode"] == "enforce"
        assert child.link.requests(method) == []


class FailingRelay(Relay):
    """Fails each call with `error`."""

    def __init__(self, services: Services, error: Exception) -> None:
        super().__init__(services)
        self._error = error

    async def call(self, *_: Any, **__: Any) -> Payload:
        raise self._error


async def test_what_nobody_foresaw_is_our_own_mistake_and_told_to_nobody() -> None:
    def break_down(_: Request) -> Answer:
        raise LookupError("/home/secret")

    async with scripted(FakeChild(ECHO, answers={"tools/call": break_down})) as hub:
        client = await hub.greeted()
        with capture_logs() as logged:
            error = await refusal(client, "tools/call", SAY)
        assert error == {
            "code": INTERNAL_ERROR,
            "message": "Internal error of the hub; its log says more",
        }
        errors = [line["event"] for line in logged if line["log_level"] == "error"]
        assert errors == ["request failed"]
        assert await client.request("ping", {}) == {}


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigError("servers.files.env.A", "${A} is not set", "Set it."), INTERNAL_ERROR),
        (ChildError("server 'files' is gone"), INTERNAL_ERROR),
        (RouteError("Unknown tool: x"), INVALID_PARAMS),
        (WireError(INVALID_REQUEST, "Nested too deeply"), INVALID_REQUEST),
    ],
)
async def test_an_error_that_says_whose_fault_it_is_is_told(error: Exception, code: int) -> None:
    async with scripted(FakeChild(ECHO)) as hub, anyio.create_task_group() as tasks:
        relay, services = FailingRelay(hub.services, error), hub.services
        rounds = ModernCalls(relay, services)

        class FailingConnections(ConnectionBuilder):
            def __call__(
                self, outlet: Outlet, tasks: TaskStarter, principal: str, /
            ) -> ClientConnection:
                return ClientConnection(relay, rounds, services, outlet, tasks, principal=principal)

        client = FakeClient(FailingConnections(services), tasks)
        await client.initialize({})
        told = await refusal(client, "prompts/get", {"name": "x"})
        assert told == {"code": code, "message": str(error)}


# Children in trouble: design, section 8


def text_of(result: JsonObject) -> str:
    content: Any = result["content"]
    assert result["isError"] is True
    return content[0]["text"]


async def test_a_child_that_cannot_be_started_is_a_tool_error() -> None:
    child = FakeChild(ECHO)
    async with scripted(child) as hub:
        client = await hub.greeted()
        await client.call("echo", text="x")
        child.refuses_to_open = OSError("no such command")
        child.link.crash()
        await child.ended()
        text = text_of(await client.call("echo", text="x"))
        assert "'files'" in text
        assert await client.request("ping", {}) == {}


async def test_a_child_that_crashes_during_a_call_is_a_tool_error_and_starts_again() -> None:
    child = FakeChild(ECHO, answers={"tools/call": SILENT})
    async with scripted(child) as hub:
        client = await hub.greeted()
        call = await client.begin("tools/call", SAY)
        await (await child.connected()).request("tools/call")
        child.link.crash("exited with code 3")
        answer: Any = await client.end(call)
        text = text_of(answer["result"])
        assert "'files'" in text
        assert "exited with code 3" in text
        child.answers["tools/call"] = {"content": []}
        assert await client.call("echo", text="again") == {"content": []}
        assert len(child.links) == 2


async def test_a_child_that_takes_too_long_is_a_tool_error_and_lives_on() -> None:
    child = FakeChild(ECHO, answers={"tools/call": SILENT})
    servers = {"files": {"command": "x", "timeout": 0.01}}
    async with scripted(child, config={"servers": servers}) as hub:
        client = await hub.greeted()
        text = text_of(await client.call("echo", text="x"))
        assert "'files'" in text
        assert "0.01 s" in text
        await child.link.request("notifications/cancelled")
        child.answers["tools/call"] = {"content": []}
        assert await client.call("echo", text="x") == {"content": []}
        assert len(child.links) == 1


async def test_a_child_over_the_limit_of_children_takes_the_place_of_an_idle_one() -> None:
    children = {"a": FakeChild(ECHO), "b": FakeChild(ECHO)}
    async with scripted(children, config={"max_children": 1}) as hub:
        client = await hub.greeted()
        for name in ("a", "b", "a", "b"):
            assert "isError" not in await client.call(f"{name}__echo", text="x")
        await children["b"].ended()
        assert [len(child.links) for child in children.values()] == [2, 2]


async def test_a_child_over_the_limit_of_busy_children_is_a_tool_error() -> None:
    children = {"a": FakeChild(ECHO), "b": FakeChild(ECHO)}
    async with scripted(children, config={"max_children": 1}) as hub:
        client = await hub.greeted()
        assert "isError" not in await client.call("b__echo", text="x")
        children["a"].answers["tools/call"] = SILENT
        call = await client.begin("tools/call", {**SAY, "name": "a__echo"})
        link = await children["a"].connected()
        sent = await link.request("tools/call")
        text = text_of(await client.call("b__echo", text="x"))
        assert "'b'" in text
        assert "all start or serve calls (max_children" in text
        link.answer(sent["id"], {"content": []})
        answer: Any = await client.end(call)
        assert answer["result"] == {"content": []}
        assert "isError" not in await client.call("b__echo", text="x")


async def silent_client(hub: ScriptedHub) -> FakeClient:
    client = hub.client()
    client.holds = True
    await client.initialize(ROOTS)
    await client.initialized()
    return client


async def test_a_client_that_never_answers_holds_up_nobody_else(tmp_path: Path) -> None:
    async with scripted(FakeChild(READ_FILE), given=[str(tmp_path)]) as hub:
        silent, quick = await silent_client(hub), await hub.greeted()
        call: JsonObject = {"name": "read_file", "arguments": {"path": "/etc"}}
        waiting = await silent.begin("tools/call", call)
        await silent.until_asked()
        assert await quick.is_refused("/etc")
        assert not silent.is_answered(waiting)
        assert await silent.request("ping", {}) == {}


async def test_a_client_that_never_answers_gets_the_fallback(tmp_path: Path) -> None:
    config = {"roots": {"timeout": 0.01}}
    async with scripted(FakeChild(READ_FILE), config=config, given=[str(tmp_path)]) as hub:
        silent = await silent_client(hub)
        assert not await silent.is_refused(str(tmp_path))
        text = text_of(await silent.call("read_file", path="/etc"))
        assert text.endswith(f'["{tmp_path.as_uri()}"]')


# Log levels


@pytest.mark.parametrize("level", LOG_LEVELS)
async def test_a_level_is_passed_on_to_the_children(level: str) -> None:
    child = FakeChild(
        ECHO, capabilities={"tools": {}, "logging": {}}, answers={"logging/setLevel": {}}
    )
    async with scripted(child) as hub:
        client = await hub.greeted()
        await client.call("echo", text="x")
        assert await client.request("logging/setLevel", {"level": level}) == {}
        assert (await child.link.request("logging/setLevel"))["params"] == {"level": level}


@pytest.mark.parametrize("level", ["loud", "", None, 7, ["debug"], {"a": 1}])
async def test_an_unknown_level_is_refused_with_those_there_are(level: Any) -> None:
    async with scripted(FakeChild()) as hub:
        error = await refusal(await hub.greeted(), "logging/setLevel", {"level": level})
        assert error["code"] == INVALID_PARAMS
        assert "warning, error, critical" in error["message"]


async def test_less_than_the_level_is_not_passed_on() -> None:
    child = FakeChild(ECHO)
    async with scripted(child) as hub:
        client = await hub.greeted()
        await client.call("echo", text="x")
        await client.request("logging/setLevel", {"level": "error"})
        for level in ("warning", "error", "alert"):
            child.link.notify("notifications/message", {"level": level, "data": level})
        await client.until(lambda: len(messages(client.received)) == 2)
        assert [one["level"] for one in messages(client.received)] == ["error", "alert"]


def messages(received: list[JsonObject]) -> list[Any]:
    return [one["params"] for one in received if one.get("method") == "notifications/message"]


# The end


async def test_a_conversation_that_ends_cancels_what_runs() -> None:
    child = FakeChild(ECHO, answers={"tools/call": SILENT})
    async with scripted(child) as hub:
        client = await hub.greeted()
        await client.begin("tools/call", SAY)
        link = await child.connected()
        sent = await link.request("tools/call")
        client.connection.close()
        told = await link.request("notifications/cancelled")
        assert told["params"]["requestId"] == sent["id"]


async def test_the_only_clients_children_start_as_soon_as_its_roots_are_known(
    tmp_path: Path,
) -> None:
    top = plant(tmp_path, "a/")
    child = FakeChild(ECHO)
    async with scripted(child, is_for_one=True) as hub:
        client = hub.client([{"uri": (top / "a").as_uri()}])
        await client.initialize({"roots": {}})
        await client.initialized()
        link = await child.connected()
        assert link.plan is not None
        assert link.plan.roots.paths == (str(top / "a"),)
        await client.request("tools/list", {})
        assert len(child.links) == 1
    child = FakeChild(ECHO)
    async with scripted(child, is_for_one=True) as hub:
        await hub.greeted()
        await child.connected()


@pytest.mark.parametrize(
    "keys", [{"servers": {"files": {"command": "x", "start": "lazy"}}}, {"expose": "search"}]
)
async def test_what_the_only_client_may_never_need_is_not_started(keys: dict[str, Any]) -> None:
    child = FakeChild(ECHO)
    async with scripted(child, config=keys, is_for_one=True) as hub:
        await hub.greeted()
        await all_tasks_blocked()
        assert child.links == []
