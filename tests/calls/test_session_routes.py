from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from hub.calls.routes import SessionRoute
from hub.children.slot import ChildSlot
from hub.errors import RouteError
from hub.guard.decide import Admitted, Refused
from hub.guard.policy import Mode, Policy
from hub.jsonrpc.messages import Request
from hub.roots.effective import OperatorRoots
from hub.system.tasks import FairWorker, Result
from hub.values import Json, JsonObject
from tests.kit.fakes import ECHO, READ, SILENT, Answer, FakeChild, RecordingWorker
from tests.kit.rigs import Rig, RigClient, remote, rig, roots_at
from tests.kit.trees import plant

FILES = remote("files")
LONG: list[Json] = [f"{number}, b" for number in range(400)]
"""Paths that take too long to judge between other calls: a thread does it."""


def children() -> dict[str, FakeChild]:
    return {"files": FakeChild(ECHO, READ)}


def resolved(at: Rig, client: RigClient, name: str = "read") -> SessionRoute | None:
    return at.relay.session_routes.find(client.session, Request(1, "tools/call", {"name": name}))


def slot_at(client: RigClient) -> ChildSlot:
    effective = client.session.known_effective()
    return client.session.slot_for(FILES, effective)


@pytest.fixture
def top(tmp_path: Path) -> Path:
    return plant(tmp_path, "a/f", "b/f")


def move(folder: Path) -> None:
    folder.rename(folder.parent / "moved")


async def test_a_call_leaves_its_route_to_its_own_session_alone(top: Path) -> None:
    async with rig({"files": FILES}, children()) as at:
        one, other = at.client(top / "a"), at.client(top / "a")
        await one.call("read", {"path": f"{top}/a/f"})
        kept = resolved(at, one)
        assert kept is not None
        assert kept.is_open
        assert resolved(at, other) is None


class SeenText(dict[str, Json]):
    """Arguments that a test can see go."""


async def test_a_route_holds_no_arguments_of_the_call_that_it_was_resolved_for(top: Path) -> None:
    async with rig({"files": FILES}, children()) as at:
        client = at.client(top / "a")
        arguments = SeenText(text="large, or secret")
        left = weakref.ref(arguments)
        await client.call("echo", arguments)
        del arguments
        gc.collect()
        assert resolved(at, client, "echo") is not None
        assert left() is None


async def test_a_refused_call_leaves_a_route_that_refuses_the_next(top: Path) -> None:
    async with rig({"files": FILES}, children()) as at:
        client = at.client(top / "a")
        await client.call("read", {"path": "/etc/passwd"})
        kept = resolved(at, client)
        assert kept is not None
        outside: JsonObject = {"name": "read", "arguments": {"path": "/etc/passwd"}}
        assert isinstance(kept.judge(outside), Refused)


async def test_a_cached_route_judges_as_a_resolved_one_does(top: Path) -> None:
    async with rig({"files": FILES}, children()) as at:
        client = at.client(top / "a")
        await client.call("read", {})
        kept = resolved(at, client)
        assert kept is not None
        inside: JsonObject = {"name": "read", "arguments": {"path": f"{top}/a/f"}}
        outside: JsonObject = {"name": "read", "arguments": {"path": f"{top}/b/f"}}
        admitted = kept.judge(inside)
        assert isinstance(admitted, Admitted)
        assert admitted.call.params == inside
        assert isinstance(kept.judge(outside), Refused)
        assert kept.judge({"name": "read", "arguments": 5}) is None


async def test_no_tool_is_called_by_the_label_of_a_prompt(top: Path) -> None:
    answers: dict[str, Answer] = {
        "prompts/list": {"prompts": [{"name": "ask"}]},
        "prompts/get": {"messages": []},
    }
    fake = FakeChild(READ, capabilities={"tools": {}, "prompts": {}}, answers=answers)
    async with rig({"files": FILES}, {"files": fake}) as at:
        client = at.client(top / "a")
        await client.request(client.asked_for("prompts/get", {"name": "ask"}))
        with pytest.raises(RouteError, match="Unknown tool"):
            await client.call("prompts/get\0ask", {})


async def test_a_tool_that_is_found_by_search_has_a_route_of_its_own(top: Path) -> None:
    def call(server: str, tool: str, path: str) -> JsonObject:
        asked: JsonObject = {"serverName": server, "toolName": tool, "toolArgs": {"path": path}}
        return {"name": "call-tool", "arguments": asked}

    inside, outside = f"{top}/a/f", f"{top}/b/f"
    fakes = {"files": FakeChild(READ, ECHO), "other": FakeChild(READ)}
    async with rig({name: remote(name) for name in fakes}, fakes, expose="search") as at:
        client, routes = at.client(top / "a"), at.relay.session_routes
        params = call("files", "read", inside)
        assert routes.find(client.session, Request(1, "tools/call", params)) is None
        await client.call("call-tool", params["arguments"])
        kept = routes.find(client.session, Request(1, "tools/call", params))
        assert kept is not None
        admitted = kept.judge(params)
        assert isinstance(admitted, Admitted)
        assert admitted.call.params == {"name": "read", "arguments": {"path": inside}}
        assert isinstance(kept.judge(call("files", "read", outside)), Refused)
        others: list[JsonObject] = [
            call("other", "read", inside),
            call("files", "echo", inside),
            {"name": "read", "arguments": {"path": inside}},
            {"name": "call-tool", "arguments": {"toolName": "read"}},
        ]
        for other in others:
            assert routes.find(client.session, Request(1, "tools/call", other)) is None


async def test_the_operators_roots_close_a_route_when_others_are_in_force(top: Path) -> None:
    operator = OperatorRoots(ceiling=roots_at(top / "a"))
    async with rig({"files": FILES}, children(), operator=operator) as at:
        client = at.client(top)
        await client.call("read", {})
        kept = resolved(at, client)
        assert kept is not None
        call: JsonObject = {"name": "read", "arguments": {"path": f"{top}/a/f"}}
        assert kept.judge(call) is not None
        move(top / "a")
        assert kept.judge(call) is None, "its ceiling is not there any more"
        at.services.operator.take(OperatorRoots(ceiling=roots_at(top / "b")))
        assert not kept.is_open


async def test_in_report_mode_what_would_be_refused_is_left_to_be_resolved(top: Path) -> None:
    spec = replace(FILES, policy=Policy(mode=Mode.REPORT))
    async with rig({"files": spec}, children()) as at:
        client = at.client(top / "a")
        await client.call("read", {"path": f"{top}/b/f"})
        kept = resolved(at, client)
        assert kept is not None
        outside: JsonObject = {"name": "read", "arguments": {"path": f"{top}/b/f"}}
        assert kept.judge(outside) is None


async def test_a_session_that_has_left_its_child_has_no_open_route(top: Path) -> None:
    async with rig({"files": FILES}, children()) as at:
        client = at.client(top / "a")
        await client.call("read", {})
        kept = resolved(at, client)
        assert kept is not None
        client.session.close()
        assert not kept.is_open


async def test_a_session_that_is_over_has_no_routes(top: Path) -> None:
    async with rig({"files": FILES}, children()) as at:
        client = at.client(top / "a")
        await client.call("read", {})
        assert resolved(at, client) is not None
        at.relay.session_routes.forget(client.session)
        assert resolved(at, client) is None


async def test_a_call_that_is_answered_as_its_session_ends_leaves_none(top: Path) -> None:
    async with rig({"files": FILES}, children()) as at:
        client = at.client(top / "a")
        await client.call("read", {})
        kept = resolved(at, client)
        assert kept is not None
        routes = at.relay.session_routes
        routes.forget(client.session)
        client.session.close()
        routes.keep(client.session, "read", kept.resolved)
        assert not routes._routes  # pyright: ignore[reportPrivateUsage] - nobody would look for it


@pytest.mark.parametrize("who", ["client", "operator"])
async def test_a_call_that_was_under_way_when_roots_changed_leaves_none(
    top: Path, who: str
) -> None:
    fake, operator = FakeChild(READ), OperatorRoots(ceiling=roots_at(top))
    async with rig({"files": FILES}, {"files": fake}, operator=operator) as at:
        client = at.client(top / "a", top / "b")
        inside: JsonObject = {"path": f"{top}/a/f"}
        fake.answers["tools/call"] = SILENT
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.call, "read", inside)
            asked = await (await fake.connected()).request("tools/call")
            if who == "client":
                client.shares(top / "b")
                client.session.roots.list_changed()
            else:
                at.services.operator.take(OperatorRoots(ceiling=roots_at(top / "b")))
            await fake.link.request("notifications/roots/list_changed")
            fake.link.answer(asked["id"], {"content": []})
        assert resolved(at, client) is None


class WorkerOnceAsked(FairWorker):
    """Does its work when the client has been asked for changed roots, and does not answer."""

    client: RigClient

    async def run(self, party: str, work: Callable[[], Result]) -> Result:
        outlet = self.client.outlet
        before = len(outlet.messages)
        self.client.answers["roots/list"] = SILENT
        self.client.session.roots.list_changed()
        await outlet.signals.until(lambda: len(outlet.messages) > before)
        return await super().run(party, work)


async def test_a_call_while_changed_roots_are_awaited_leaves_none(top: Path) -> None:
    worker = WorkerOnceAsked()
    async with rig({"files": FILES}, children(), worker=worker) as at:
        worker.client = client = at.client(top / "a")
        await client.session.effective(client.outlet)
        result = await client.call("read", {"paths": [*LONG, f"{top}/a/f"]})
        assert "isError" not in result, "the roots that are known still hold"
        assert resolved(at, client) is None


async def test_a_call_that_was_refused_while_roots_changed_leaves_none(top: Path) -> None:
    worker = RecordingWorker()
    async with rig({"files": FILES}, children(), worker=worker) as at:
        client = at.client(top / "a")
        await client.call("get-roots", {})
        await at.services.children.obtain(slot_at(client))

        def change() -> None:
            raw: JsonObject = {"roots": [{"uri": f"file://{top}/{one}"} for one in "ab"]}
            client.session.roots.given(raw)

        worker.before = change
        assert (await client.call("read", {"paths": [*LONG, f"{top}/b/f"]}))["isError"] is True
        assert "isError" not in await client.call("read", {"path": f"{top}/b/f"})


async def test_a_ceiling_that_is_replaced_while_a_call_is_judged_admits_nothing(top: Path) -> None:
    worker, operator = RecordingWorker(), OperatorRoots(ceiling=roots_at(top / "a"))
    async with rig({"files": FILES}, children(), worker=worker, operator=operator) as at:
        client = at.client(top)
        await client.session.effective(client.outlet)

        def change() -> None:
            if not (top / "moved").exists():
                move(top / "a")
                plant(top, "a/f")

        worker.before = change
        assert (await client.call("read", {"paths": [*LONG, f"{top}/a/f"]}))["isError"] is True


async def test_a_route_is_closed_while_one_call_tries_a_child_that_failed(top: Path) -> None:
    async with rig({"files": FILES}, children()) as at:
        client = at.client(top / "a")
        await client.call("read", {})
        kept = resolved(at, client)
        assert kept is not None
        health = kept.resolved.slot.health
        while health.is_well:
            health.fell()
        assert not kept.is_open


async def test_a_ceiling_that_another_session_found_replaced_closes_a_route(top: Path) -> None:
    operator = OperatorRoots(ceiling=roots_at(top / "a"))
    async with rig({"files": FILES}, children(), operator=operator) as at:
        client, other = at.client(top), at.client(top)
        call: JsonObject = {"path": f"{top}/a/f"}
        await client.call("read", call)
        kept = resolved(at, client)
        assert kept is not None
        move(top / "a")
        plant(top, "a/f")
        assert (await other.call("read", call))["isError"] is True
        assert not kept.is_open


@pytest.mark.parametrize("narrowed", ["operator", "server"])
@pytest.mark.parametrize("shared_by", ["client", "fallback"])
async def test_a_root_that_was_replaced_around_its_ceiling_admits_nothing(
    top: Path, narrowed: str, shared_by: str
) -> None:
    shared = plant(top, "shared/a/f") / "shared"
    ceiling, spec = roots_at(shared / "a"), FILES
    operator = OperatorRoots(fallback=roots_at(shared), fallback_source="config")
    if narrowed == "operator":
        operator = replace(operator, ceiling=ceiling)
    else:
        spec = replace(FILES, ceiling=ceiling)
    async with rig({"files": spec}, children(), operator=operator) as at:
        client = at.client(*([shared] if shared_by == "client" else []))
        call: JsonObject = {"path": f"{shared}/a/f"}
        await client.call("read", call)
        kept = resolved(at, client)
        assert kept is not None
        params: JsonObject = {"name": "read", "arguments": call}
        assert kept.judge(params) is not None
        move(shared)
        shared.mkdir()
        (top / "moved/a").rename(shared / "a")
        assert kept.judge(params) is None
        assert (await client.call("read", call))["isError"] is True
