"""That a session's and a request's way are one to who goes it, and a backlog keeps calls."""

from __future__ import annotations

from pathlib import Path

from hub.calls.dispatch import RequestRegistry
from hub.calls.routes import CallRoute
from hub.guard.decide import Admitted
from hub.jsonrpc.messages import Request
from hub.jsonrpc.peer import Asked
from hub.jsonrpc.requests import InboundRequests
from hub.values import JsonObject
from tests.calls.rounds.test_modern_routes import called, params
from tests.kit.fakes import READ, FakeChild, RecordingOutlet
from tests.kit.rigs import remote, rig
from tests.kit.trees import plant


async def test_both_kinds_of_routes_admit_the_same_call(tmp_path: Path) -> None:
    top = plant(tmp_path, "a/f")
    async with rig({"files": remote("files")}, {"files": FakeChild(READ)}) as at:
        given = params({"path": f"{top}/a/f"})
        client = at.client()
        plain: JsonObject = {"name": "read", "arguments": {"path": f"{top}/a/f"}}
        await client.call("read", {"path": f"{top}/a/f"})
        found = at.relay.session_routes.find(client.session, Request(1, "tools/call", plain))
        routes: list[CallRoute | None] = [found, await called(at, given)]
        for route, made in zip(routes, (plain, given), strict=True):
            assert route is not None
            assert route.is_open
            admitted = route.judge(made)
            assert isinstance(admitted, Admitted)
            assert admitted.call.params == plain
            assert route.resolved.to.route.name == "read"


async def test_a_backlog_keeps_calls_until_they_leave() -> None:
    backlog = InboundRequests()
    register: RequestRegistry = backlog
    call = Asked(Request(7, "tools/call", {}), RecordingOutlet())
    assert register.accepts(7)
    register.enter(7, call)
    assert not register.accepts(7)
    register.leave(7, call)
    assert register.accepts(7)
    assert backlog.is_idle
