"""The route to what was not called yet, beside an open route at the same server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from msgspec.structs import asdict, replace

from hub.calls.routes import SessionRoute
from hub.guard.decide import Admitted, Refused
from hub.guard.policy import DenyPatterns, Policy
from hub.jsonrpc.messages import Request
from hub.roots.effective import OperatorRoots
from hub.specs import ServerSpec
from hub.values import JsonObject
from tests.kit.fakes import ECHO, READ, FakeChild
from tests.kit.rigs import Rig, RigClient, launched, remote, rig, roots_at
from tests.kit.trees import plant

WRITE: JsonObject = {
    "name": "write",
    "inputSchema": {"type": "object", "properties": {"target_file": {"type": "string"}}},
}
MOVE: JsonObject = {**WRITE, "name": "move"}


def fake() -> FakeChild:
    return FakeChild(ECHO, READ, WRITE, MOVE)


@pytest.fixture
def top(tmp_path: Path) -> Path:
    return plant(tmp_path, "a/f", "b/f")


def beside(at: Rig, client: RigClient, name: str = "write") -> SessionRoute | None:
    assert at.relay.session_routes.find(client.session, asked(name)) is None
    return at.relay.lookup.route_beside(client.session, asked(name))


def asked(name: str, arguments: JsonObject | None = None) -> Request:
    return Request(1, "tools/call", {"name": name, "arguments": arguments or {}})


async def test_there_is_none_before_the_first_call(top: Path) -> None:
    async with rig({"files": remote("files")}, {"files": fake()}) as at:
        client = at.client(top / "a")
        assert beside(at, client) is None
        await client.call("echo", {})
        assert beside(at, client) is not None
        assert beside(at, client, "no such tool") is None
        assert beside(at, at.client(top / "a")) is None, "it is another session"


@pytest.mark.parametrize("name", ["read", "write", "move"])
@pytest.mark.parametrize(
    "spec",
    [
        remote("files"),
        launched("files"),
        replace(remote("files"), policy=Policy(deny=DenyPatterns(("*.key",)))),
    ],
)
async def test_it_is_the_one_that_resolving_finds(top: Path, spec: ServerSpec, name: str) -> None:
    async with rig({"files": spec}, {"files": fake()}) as at:
        client, other = at.client(top / "a"), at.client(top / "a")
        await client.call("echo", {})
        found = beside(at, client, name)
        await other.call(name, {})
        resolved = at.relay.session_routes.find(other.session, asked(name))
        assert found is not None
        assert resolved is not None
        own, its = asdict(found.resolved), asdict(resolved.resolved)
        for field in ("slot", "key", "child", "peer", "ready"):  # of each session
            del own[field], its[field]
        links = [made.pop("judged_in") for made in (own, its)]
        assert own == its
        assert replace(links[0], links=at.services.machine.links) == replace(
            links[1], links=at.services.machine.links
        )


async def test_a_call_is_judged_by_the_schema_and_rights_of_its_own_tool(top: Path) -> None:
    async with rig({"files": remote("files")}, {"files": fake()}) as at:
        client = at.client(top / "a")
        await client.call("read", {})
        found = beside(at, client)
        assert found is not None
        assert found.resolved.to.guard.needs_write
        inside = found.judge(asked("write", {"target_file": f"{top}/a/f"}).params)
        assert isinstance(inside, Admitted)
        assert inside.call.name == "write"
        outside = found.judge(asked("write", {"target_file": f"{top}/b/f"}).params)
        assert isinstance(outside, Refused)
        assert outside.pointer == "/target_file"


async def replaced(at: Rig, client: RigClient, top: Path) -> None:
    (top / "a").rename(top / "moved")
    (top / "a").mkdir()


async def shared(at: Rig, client: RigClient, top: Path) -> None:
    client.shares(top / "b")
    client.session.roots.list_changed()


async def bounded(at: Rig, client: RigClient, top: Path) -> None:
    at.services.operator.take(OperatorRoots(ceiling=roots_at(top / "b")))


async def stopped(at: Rig, client: RigClient, top: Path) -> None:
    (slot,) = client.session.slots
    assert slot.child is not None
    slot.child.stop()


async def closed(at: Rig, client: RigClient, top: Path) -> None:
    at.relay.session_routes.forget(client.session)


@pytest.mark.parametrize("change", [replaced, shared, bounded, stopped, closed])
async def test_it_ends_with_what_it_was_found_by(
    top: Path, change: Callable[[Rig, RigClient, Path], Awaitable[None]]
) -> None:
    async with rig({"files": remote("files")}, {"files": fake()}) as at:
        client = at.client(top / "a")
        await client.call("echo", {})
        await change(at, client, top)
        assert beside(at, client) is None


async def test_a_name_that_may_be_of_several_servers_is_resolved(top: Path) -> None:
    fakes = {"files": fake(), "other": FakeChild(ECHO)}
    specs = {name: remote(name) for name in fakes}
    async with rig(specs, fakes, names="never") as at:
        client = at.client(top / "a")
        await client.call("read", {})
        assert beside(at, client) is None


async def test_another_server_has_to_be_asked_for_itself(top: Path) -> None:
    fakes = {"files": fake(), "other": FakeChild(WRITE)}
    async with rig({name: remote(name) for name in fakes}, fakes) as at:
        client = at.client(top / "a")
        await client.call("files__echo", {})
        assert beside(at, client, "other__write") is None
        found = beside(at, client, "files__write")
        assert found is not None
        assert found.resolved.to.spec.name == "files"
