"""Calls whose token lacks a scope: refused by name, recorded, and judged again with a new child."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from hub.calls.subscriptions import Subscriptions
from hub.catalog.names import NamesMode
from hub.errors import InsufficientScopeError
from hub.jsonrpc.messages import Request
from hub.jsonrpc.peer import Asked
from hub.specs import NeededScopes
from hub.values import Json, JsonObject
from tests.kit.fakes import ECHO, READ, FakeChild
from tests.kit.rigs import Rig, RigClient, remote, rig

NEEDED = NeededScopes(("base", "more"), {"read": ("base", "more", "write")})
SUBSCRIBE = "resources/subscribe"


def asked(client: RigClient, method: str, params: JsonObject, *granted: str) -> Asked:
    """Return a request that came with a token of these scopes."""
    made = client.asked_for(method, params)
    return Asked(made.request, made.outlet, granted=frozenset(granted))


def calling(client: RigClient, name: str, *granted: str) -> Asked:
    return asked(client, "tools/call", {"name": name, "arguments": {}}, *granted)


def records(at: Rig) -> list[tuple[str, str, str, str | None]]:
    return [(one.server, one.tool, one.verdict, one.reason) for one in at.audit.records]


async def refused(at: Rig, client: RigClient, request: Asked) -> tuple[str, ...]:
    with pytest.raises(InsufficientScopeError) as caught:
        await at.relay.call(client.session, request)
    return caught.value.needed


async def test_a_refusal_is_recorded_once_with_what_the_token_lacks() -> None:
    fakes = {"files": FakeChild(ECHO, READ)}
    async with rig({"files": remote(scopes=NEEDED)}, fakes) as at:
        client = at.client()
        assert await refused(at, client, calling(client, "echo", "base")) == ("base", "more")
        needed = await refused(at, client, calling(client, "read", "base"))
        assert needed == ("base", "more", "write")
        await at.relay.call(client.session, calling(client, "echo", "base", "more"))
        assert records(at) == [
            ("files", "echo", "refused", "The token lacks the scope more"),
            ("files", "read", "refused", "The token lacks the scopes more write"),
            ("files", "echo", "admitted", None),
        ]


async def test_a_request_without_a_token_that_has_scopes_needs_none() -> None:
    async with rig({"files": remote(scopes=NEEDED)}, {"files": FakeChild(READ)}) as at:
        client = at.client()
        await client.call("read")
        assert [one.verdict for one in at.audit.records] == ["admitted"]


@pytest.mark.parametrize(
    ("names", "name"),
    [
        ("auto", "files__read"),
        ("always", "files__read"),
        ("never", "read"),
    ],
)
async def test_a_tools_own_scopes_count_under_every_name_of_it(names: NamesMode, name: str) -> None:
    fakes = {"files": FakeChild(ECHO, READ), "other": FakeChild()}
    specs = {"files": remote(scopes=NEEDED), "other": remote("other")}
    async with rig(specs, fakes, names=names) as at:
        client = at.client()
        for _ in range(2):
            needed = await refused(at, client, calling(client, name, "base", "more"))
            assert needed == ("base", "more", "write")
        assert not any(link.requests("tools/call") for link in fakes["files"].links)
        if names != "never":
            assert not fakes["files"].links, "the name tells the server"


async def test_a_tool_whose_name_is_shortened_needs_its_scopes_too() -> None:
    long = "x" * 80
    tool: JsonObject = {**ECHO, "name": long}
    needs = NeededScopes((), {long: ("write",)})
    fakes = {"files": FakeChild(tool), "other": FakeChild()}
    async with rig({"files": remote(scopes=needs), "other": remote("other")}, fakes) as at:
        client = at.client()
        public = at.services.names.public(remote().name, long)
        assert long not in public
        assert await refused(at, client, calling(client, public)) == ("write",)
        assert not fakes["files"].links


async def test_a_server_that_needs_nothing_is_not_looked_at() -> None:
    fakes = {"files": FakeChild(READ), "other": FakeChild(ECHO)}
    specs = {"files": remote(scopes=NEEDED), "other": remote("other")}
    async with rig(specs, fakes) as at:
        client = at.client()
        await at.relay.call(client.session, calling(client, "other__echo"))
        assert at.services.needs_scopes


def noting() -> FakeChild:
    resources: list[Json] = [{"uri": "note://1", "name": "1"}]
    return FakeChild(
        answers={"resources/list": {"resources": resources}, SUBSCRIBE: {}},
        capabilities={"resources": {"subscribe": True}},
    )


@pytest.mark.parametrize("granted", [("base", "more"), ("base",)])
async def test_a_subscription_is_made_again_only_with_the_scopes_of_its_own_token(
    granted: tuple[str, ...],
) -> None:
    fake = noting()
    needs = NeededScopes(("base",))
    async with rig({"files": remote(scopes=needs)}, {"files": fake}) as at:
        client = at.client()
        made = Subscriptions(at.relay, client.session, client.outlet)
        await made.subscribe(asked(client, SUBSCRIBE, {"uri": "note://1"}, *granted))
        spec: Any = remote(scopes=NeededScopes(("base", "more")))
        at.services.servers = {spec.name: spec}
        at.services.operator.take(at.services.operator.roots(), at.services.servers)
        fake.link.crash()
        await fake.ended()
        await at.services.children.obtain(
            client.session.slot_for(spec, client.session.known_effective())
        )
        await made.renew(spec.name)
        kept = client.session.notifier.subscriptions
        assert list(kept.values()) == (["note://1"] if "more" in granted else [])


async def test_a_request_knows_the_scopes_that_it_came_with() -> None:
    async with anyio.create_task_group(), rig({"files": remote()}, {"files": FakeChild()}) as at:
        client = at.client()
        request = Request("x", "tools/list", {})
        made = client.peer.accept(request, client.outlet, frozenset({"base"}))
        assert made.granted == frozenset({"base"})
        assert client.peer.accept(Request("y", "ping", {}), client.outlet).granted is None
