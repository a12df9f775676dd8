"""Modern calls that are asked for roots: at once, exactly where and as the general way would."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pytest

from hub.calls.routes import KnownAnswer
from hub.children.slot import ChildSlot
from hub.jsonrpc.messages import Request, as_object
from hub.protocol.constants import CLIENT_CAPABILITIES_META, LOG_LEVEL_META, PROTOCOL_VERSION_META
from hub.roots.effective import OperatorRoots
from hub.values import Json, JsonObject
from tests.kit.fakes import ECHO, READ, FakeChild
from tests.kit.hubs import FakeClient
from tests.kit.loops import all_tasks_blocked
from tests.kit.rigs import roots_at
from tests.kit.scripted import ScriptedHub, scripted
from tests.kit.trees import plant
from tests.server.test_modern import envelope, with_roots

ANY: JsonObject = {"name": "any", "inputSchema": {"type": "object"}}
HEADED: JsonObject = {
    **READ,
    "name": "headed",
    "inputSchema": {
        "type": "object",
        "properties": {"path": {"type": "string", "x-mcp-header": "Path"}},
    },
}
SEES_ALL: JsonObject = {"roots": {}, "sampling": {}, "elicitation": {"form": {}}}


@pytest.fixture
def top(tmp_path: Path) -> Path:
    return plant(tmp_path, "a/x", "b/x")


def call(tool: str, arguments: Json = None, **more: Json) -> JsonObject:
    """Return the params of a call by a client that has roots."""
    given: JsonObject = {} if arguments is None else {"arguments": arguments}
    return {"name": tool, **given, "_meta": envelope(), **more}


def by(params: JsonObject, **meta: Json) -> JsonObject:
    """Return the params of a call with something else in its envelope."""
    return {**params, "_meta": envelope(**meta)}


def at_once(client: FakeClient, params: JsonObject) -> JsonObject | None:
    """Return what a call is answered without being looked into any further, if it is."""
    route = client.connection.route_for(Request("x", "tools/call", params))
    return as_object(route.result) if isinstance(route, KnownAnswer) else None


async def generally(client: FakeClient, params: JsonObject) -> JsonObject:
    """Return the whole answer that a call gets in the general way."""
    return await client.end(await client.begin("tools/call", params))


async def asked(client: FakeClient, params: JsonObject) -> bool:
    """Make a call twice; return whether the second was asked for roots at once, as the first was.

    What is answered at once must be what the general way answers, before and after.
    """
    known = at_once(client, params)
    first = await generally(client, params)
    assert known is None or first.get("result") == known
    known = at_once(client, params)
    assert known is None or first.get("result") == known
    again = await generally(client, params)
    assert known is None or again.get("result") == known
    return known is not None


# Which calls


async def test_calls_that_name_paths_are_asked_before_any_child_is_there(top: Path) -> None:
    child = FakeChild(READ)
    async with scripted(child) as hub:
        client = hub.client()
        assert await asked(client, call("read", {"path": f"{top}/a/x"}))
        assert at_once(client, call("read", {"path": f"{top}/b/x"})) is not None
        assert at_once(client, call("read", {"text": "hello"})) is None
        assert at_once(client, call("other", {"path": f"{top}/b/x"})) is None
        assert child.links == []


async def test_calls_of_a_tool_that_takes_paths_are_asked_whatever_they_name(top: Path) -> None:
    async with scripted(FakeChild(READ)) as hub:
        client = hub.client()
        assert await asked(client, call("read"))
        every: list[Json] = [{"path": f"{top}/a/x"}, {"path": 5}, {"other": "x"}, None]
        for arguments in every:
            assert at_once(client, call("read", arguments)) is not None
        assert at_once(client, call("read", "no object")) is None


async def test_calls_of_another_tool_are_asked_if_they_name_a_path(top: Path) -> None:
    child = FakeChild(ECHO, ANY)
    async with scripted(child) as hub:
        client = hub.client()
        for tool in ("echo", "any"):
            assert not await asked(client, call(tool, {"text": "hi"}))
            assert await asked(client, call(tool, {"text": f"file://{top}/a/x"}))
            assert at_once(client, call(tool, {"text": "hi"})) is None
        assert all("file:" not in str(sent) for sent in child.link.requests("tools/call"))


@pytest.mark.parametrize(
    "server", [{"args": ["${roots}"]}, {"cwd": "${root}"}, {"cwd": "${root}", "share": "session"}]
)
async def test_calls_of_a_server_that_is_launched_for_roots_are_asked(
    server: dict[str, Any],
) -> None:
    child = FakeChild(ECHO)
    async with scripted(child, config={"servers": {"files": {"command": "x", **server}}}) as hub:
        assert await asked(hub.client(), call("echo", {"text": "hi"}))
        assert child.links == []


async def test_who_asks_for_the_roots_is_asked_for_them() -> None:
    async with scripted(FakeChild(ECHO)) as hub:
        assert await asked(hub.client(), call("get-roots"))


@pytest.mark.parametrize("capabilities", [{"roots": {}}, {"roots": {"listChanged": True}}])
async def test_clients_that_can_be_asked_the_same_are_asked_alike(
    capabilities: JsonObject,
) -> None:
    async with scripted(FakeChild(READ)) as hub:
        params, meta = call("read"), {CLIENT_CAPABILITIES_META: capabilities}
        assert await asked(hub.client(), params)
        assert at_once(hub.client(), by(params, **meta, progressToken=7)) is not None
        other: Mapping[str, Json] = {CLIENT_CAPABILITIES_META: SEES_ALL}
        assert at_once(hub.client(), by(params, **other)) is None
        assert at_once(hub.client(principal="other"), params) is None
        assert await asked(hub.client(), by(params, **other))


@pytest.mark.parametrize(
    "params",
    [
        call("read", inputResponses={}),
        call("read", inputResponses=None),
        call("read", requestState="x"),
        call("read", task={}),
        by(call("read"), roots=None),
        by(call("read"), roots=False),
        by(call("read"), **{LOG_LEVEL_META: "loud"}),
        by(call("read"), **{PROTOCOL_VERSION_META: "2099-01-01"}),
        by(call("read"), **{CLIENT_CAPABILITIES_META: 5}),
        {**call("read"), "_meta": 5},
        {**call("read"), "name": 5},
    ],
)
async def test_requests_of_another_kind_go_the_general_way(params: JsonObject) -> None:
    async with scripted(FakeChild(READ)) as hub:
        assert await asked(hub.client(), call("read"))
        assert not await asked(hub.client(), params)


async def test_what_is_asked_of_a_prompt_says_nothing_of_a_tool() -> None:
    child = FakeChild(ECHO)
    async with scripted(child) as hub:
        client = hub.client()
        params = call("echo", {"file": "/etc/passwd"})
        result = await client.request("prompts/get", params)
        assert result["resultType"] == "input_required"
        assert at_once(client, params) is None


# Where it is never known


@pytest.mark.parametrize(
    "config",
    [
        {"guard": "off"},
        {"expose": "search"},
        {"servers": {"files": {"command": "x", "share": "session"}}},
    ],
)
async def test_every_call_goes_the_general_way(config: dict[str, Any], top: Path) -> None:
    async with scripted(FakeChild(READ), config=config) as hub:
        client = hub.client()
        params = call("read", {"path": f"{top}/a/x"})
        assert not await asked(client, params)
        await generally(client, {**params, "inputResponses": with_roots((top / "a").as_uri())})
        assert not await asked(client, params)


async def test_what_is_found_by_search_is_asked_about_like_any_other_tool(top: Path) -> None:
    def searched(tool: str) -> JsonObject:
        its: JsonObject = {"path": f"{top}/a/x"}
        asked: JsonObject = {"serverName": "files", "toolName": tool, "toolArgs": its}
        return call("call-tool", asked)

    async with scripted(FakeChild(READ), config={"expose": "search"}) as hub:
        client = hub.client()
        assert await asked(client, searched("read"))
        assert at_once(client, searched("other")) is None


async def test_nobody_is_asked_whose_roots_are_kept(top: Path) -> None:
    async with scripted(FakeChild(READ), config={"roots": {"reuse": 60}}) as hub:
        client, other = hub.client(), hub.client(principal="other")
        params = call("read", {"path": f"{top}/a/x"})
        for one in (client, other):
            assert await asked(one, params)
        await generally(client, {**params, "inputResponses": with_roots((top / "a").as_uri())})
        assert not await asked(client, params)
        assert await asked(other, params)


async def test_a_tool_whose_arguments_headers_repeat_is_looked_at_each_time() -> None:
    async with scripted(FakeChild(HEADED)) as hub:
        assert not await asked(hub.client(), call("headed"))


async def test_where_a_name_may_come_to_lead_elsewhere_it_is_looked_up_each_time(top: Path) -> None:
    children = {"one": FakeChild(READ), "two": FakeChild(ECHO)}
    async with scripted(children, config={"names": "never"}) as hub:
        client = hub.client()
        assert not await asked(client, call("read", {"path": f"{top}/a/x"}))
        await client.request("tools/list", {"_meta": envelope()})
        assert not await asked(client, call("read"))


async def test_a_name_that_is_too_long_is_not_kept() -> None:
    config = {"servers": {"files": {"command": "x", "cwd": "${root}"}}}
    async with scripted(FakeChild(READ), config=config) as hub:
        assert await asked(hub.client(), call("x" * 1000))
        assert not await asked(hub.client(), call("x" * 20_000))


# What has changed since


async def test_a_tool_that_is_described_anew_is_looked_at_again() -> None:
    child = FakeChild(READ)
    async with scripted(child) as hub:
        client = hub.client()
        assert await asked(client, call("read"))
        child.answers["tools/list"] = {"tools": [{**ECHO, "name": "read"}]}
        child.link.notify("notifications/tools/list_changed", {})
        await until(lambda: at_once(client, call("read")) is None)
        assert not await asked(client, call("read"))


async def test_once_a_child_is_there_its_tools_say_what_a_path_is(top: Path) -> None:
    async with scripted(FakeChild({**READ, "name": "write"}, READ)) as hub:
        client = hub.client()
        assert await asked(client, call("read", {"path": f"{top}/a/x"}))
        assert at_once(client, call("read", {})) is None
        await client.request("tools/list", {"_meta": envelope()})
        assert at_once(client, call("read", {"path": f"{top}/a/x"})) is None
        assert await asked(client, call("read", {}))
        assert not await asked(client, call("nonsense", {"path": f"{top}/a/x"}))


async def test_a_child_that_was_given_up_is_asked_about_again() -> None:
    child = FakeChild(READ)
    async with scripted(child) as hub:
        client = hub.client()
        assert await asked(client, call("read"))
        child.link.close()
        assert await asked(client, call("read")), "what it offers is known still"
        give_up(hub, lambda _: True)
        assert at_once(client, call("read")) is None


async def test_other_roots_of_the_operator_change_nothing(top: Path) -> None:
    async with scripted(FakeChild(READ), given=[str(top / "a")]) as hub:
        client = hub.client()
        assert await asked(client, call("read"))
        hub.services.operator.take(OperatorRoots(fallback=roots_at(top / "b")))
        assert await asked(client, call("read"))


def give_up(hub: ScriptedHub, which: Callable[[ChildSlot], bool]) -> None:
    """End children as if nobody had used them for long."""
    children: Any = hub.services.children
    for slot in filter(which, list(children._slots.values())):
        children._end(slot, "the test gives it up")


async def until(holds: Callable[[], bool]) -> None:
    with anyio.fail_after(20):
        while not holds():
            await all_tasks_blocked()


# Anything, in any order


NAMES = ["read", "echo", "any", "headed", "get-roots", "nonsense", "files__read"]
CONFIGS: list[dict[str, Any]] = [
    {},
    {"guard": "report"},
    {"names": "always"},
    {"roots": {"when_missing": "deny"}},
    {"servers": {"files": {"command": "x", "cwd": "${root}"}}},
    {"servers": {"files": {"command": "x", "share": "all"}}},
    {"roots": {"deny": ["**/x"]}},
    {"roots": {"reuse": 60}},
]


class ChangingWorld:
    """A hub to which this and that happens."""

    def __init__(self, hub: ScriptedHub, child: FakeChild, top: Path, seed: int) -> None:
        self._hub = hub
        self._child = child
        self._top = top
        self._chance = random.Random(seed)  # noqa: S311 - nothing is secret here
        self._clients = [hub.client(), hub.client(), hub.client(principal="other")]

    def params(self) -> JsonObject:
        one_of = self._chance.choice
        values: list[Json] = [
            "hello",
            5,
            f"{self._top}/a/x",
            "/nowhere/at/all",
            f"file://{self._top}/b",
            [{"path": "../x"}],
            "a/x",
            None,
        ]
        arguments: list[Json] = [None, {}, [], {one_of(["path", "text"]): one_of(values)}]
        capabilities: list[JsonObject] = [{"roots": {}}, {}, {"roots": False}, SEES_ALL]
        meta: JsonObject = {CLIENT_CAPABILITIES_META: one_of(capabilities)}
        if self._chance.random() < 0.2:
            meta["progressToken"] = "t"
        return by(call(one_of(NAMES), one_of([*arguments, *arguments[-1:] * 4])), **meta)

    async def change(self) -> None:
        """Let something happen."""
        changes = [self._list, self._describe, self._serve, self._operate, self._give_up]
        await self._chance.choice(changes)()
        if self._chance.random() < 0.01:
            children: Any = self._hub.services.children
            children._callers.update(self._hub.services.servers)

    async def _list(self) -> None:
        await self._clients[0].request("tools/list", {"_meta": envelope()})

    async def _describe(self) -> None:
        """Let the children describe other tools."""
        every: list[JsonObject] = [READ, ECHO, ANY, HEADED, {**ECHO, "name": "read"}]
        tools: list[Json] = [*self._chance.choice([every[1:], self._chance.sample(every[:4], 3)])]
        self._child.answers["tools/list"] = {"tools": tools}
        for link in self._child.links:
            with suppress(anyio.ClosedResourceError):
                link.notify("notifications/tools/list_changed", {})
        await all_tasks_blocked()

    async def _serve(self) -> None:
        """Serve a call that brings roots."""
        shared = with_roots((self._top / "a").as_uri())
        params = call("read", {"path": f"{self._top}/a/x"}, inputResponses=shared)
        await generally(self._clients[0], params)

    async def _operate(self) -> None:
        """Put other roots in force."""
        fallback = roots_at(self._top / self._chance.choice(["a", "b"]))
        self._hub.services.operator.take(OperatorRoots(fallback=fallback))

    async def _give_up(self) -> None:
        """End some of the children."""
        give_up(self._hub, lambda slot: not slot.users and self._chance.random() < 0.5)

    async def run(self, steps: int) -> int:
        """Make calls in between; return how many were asked at once."""
        at_once = 0
        for _ in range(steps):
            at_once += await asked(self._chance.choice(self._clients), self.params())
            await self.change()
        return at_once


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("seed", range(2))
async def test_whatever_happens_calls_are_asked_as_the_general_way_would(
    config: dict[str, Any], seed: int, top: Path
) -> None:
    child = FakeChild(READ, ECHO, ANY, HEADED)
    async with scripted(child, config=config) as hub:
        assert await ChangingWorld(hub, child, top, seed).run(50) > 2
