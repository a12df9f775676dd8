from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from structlog.testing import capture_logs

from hub.calls.builtin_tools import GET_ROOTS
from hub.calls.listings import LIST_GRACE, MAX_CLASHES, Listings, encoded
from hub.catalog.merge import Catalog
from hub.children.concurrency import MOST_STARTS, START_HOLDS
from hub.errors import ChildError, RouteError
from hub.jsonrpc.messages import as_object
from hub.protocol.constants import LIST_CHANGED
from hub.specs import ServerSpec
from hub.values import ChildRoute, JsonObject, ServerName
from tests.kit.fakes import ECHO, READ, SILENT, FakeChild, RecordingWorker, failure
from tests.kit.loops import all_tasks_blocked, virtual_time
from tests.kit.rigs import Rig, RigClient, launched, remote, rig
from tests.kit.trees import plant


def names(catalog: Catalog) -> list[object]:
    return [tool["name"] for tool in catalog.tools]


async def shown(at: Rig, client: RigClient, only: list[str] | None = None) -> list[object]:
    servers = None if only is None else [ServerName(name) for name in only]
    effective = await client.session.effective(client.outlet)
    return names(await at.relay.listings.catalog(client.session, effective, servers))


async def page(at: Rig, client: RigClient, method: str, **params: object) -> JsonObject:
    asked = client.asked_for(method, params)  # pyright: ignore[reportArgumentType] - texts, numbers
    return as_object(await at.relay.listings.page(client.session, asked))


async def test_a_listing_starts_all_children_and_shows_what_they_offer() -> None:
    fakes = {"a": FakeChild(ECHO), "b": FakeChild(ECHO, READ)}
    async with rig({name: remote(name) for name in fakes}, fakes) as at:
        assert await shown(at, at.client()) == [GET_ROOTS, "a__echo", "b__echo", "b__read"]


async def test_each_list_is_a_page_of_its_own() -> None:
    everything = FakeChild(
        ECHO,
        capabilities={"tools": {}, "resources": {}, "prompts": {}},
        answers={
            "resources/list": {"resources": [{"uri": "file:///x"}]},
            "resources/templates/list": {"resourceTemplates": [{"uriTemplate": "x://{y}"}]},
            "prompts/list": {"prompts": [{"name": "ask", "unknown": 1}]},
        },
    )
    async with rig({"a": remote("a")}, {"a": everything}) as at:
        client = at.client()
        tools = (await page(at, client, "tools/list"))["tools"]
        assert isinstance(tools, list)
        assert tools[1:] == [ECHO]
        assert await page(at, client, "resources/list") == {"resources": [{"uri": "file:///x"}]}
        assert await page(at, client, "resources/templates/list") == {
            "resourceTemplates": [{"uriTemplate": "x://{y}"}]
        }
        assert await page(at, client, "prompts/list") == {
            "prompts": [{"name": "ask", "unknown": 1}]
        }


async def test_a_list_has_the_servers_that_start_anew_as_roots_change_meanwhile(
    tmp_path: Path,
) -> None:
    top, fake = plant(tmp_path, "a/", "b/"), FakeChild(READ)
    handshake = fake.answers["initialize"]
    fake.answers["initialize"] = SILENT
    with capture_logs() as logs:
        async with rig({"files": launched("files", "${roots}")}, {"files": fake}) as at:
            client, listed = at.client(top / "a"), list[JsonObject]()

            async def listing() -> None:
                listed.append(await page(at, client, "tools/list"))

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(listing)
                await (await fake.connected()).request("initialize")
                fake.answers["initialize"] = handshake
                client.shares(top / "b")
                client.session.roots.list_changed()
                await client.session.effective(client.outlet)
    assert "'name': 'read'" in str(listed)
    assert {"not started", "not listed"}.isdisjoint(entry["event"] for entry in logs)


async def test_a_list_names_the_roots_that_hold_when_it_goes_out(tmp_path: Path) -> None:
    top = plant(tmp_path, "a/", "b/", "c/")
    fakes = {"x": FakeChild(READ), "slow": FakeChild(answers={"initialize": SILENT})}
    specs = {"x": remote("x", describe_roots=True), "slow": launched("slow", "${roots}")}
    async with rig(specs, fakes) as at:
        client, listed = at.client(top / "a"), list[JsonObject]()

        async def listing() -> None:
            listed.append(await page(at, client, "tools/list"))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(listing)
            for number, folder in enumerate("bc", 1):
                await (await fakes["slow"].connected(number)).request("initialize")
                client.shares(top / folder)
                client.session.roots.list_changed()
                await client.session.effective(client.outlet)
    assert [str(top / folder) in str(listed) for folder in "abc"] == [False, False, True]


async def test_a_list_that_failed_at_the_start_is_read_again_when_a_client_lists() -> None:
    fake = FakeChild(answers={"tools/list": failure(-32603, "not connected yet")})
    async with rig({"a": remote("a")}, {"a": fake}) as at:
        client = at.client()
        assert await shown(at, client) == [GET_ROOTS]
        fake.answers["tools/list"] = {"tools": [ECHO]}
        assert await shown(at, client) == [GET_ROOTS]
        changed = "notifications/tools/list_changed"
        await client.outlet.signals.until(lambda: bool(client.outlet.notified(changed)))
        for _ in range(3):
            assert await shown(at, client) == [GET_ROOTS, "echo"]
        await all_tasks_blocked()
        assert len(client.outlet.notified(changed)) == 1


async def test_a_list_of_tools_has_their_guards_compiled_ahead_once() -> None:
    worker = RecordingWorker()
    async with rig({"a": remote("a")}, {"a": FakeChild(ECHO, READ)}, worker=worker) as at:
        client = at.client()
        for method in ("prompts/list", "tools/list", "tools/list"):
            await page(at, client, method)
        await worker.signals.until(lambda: len(worker.made) == 2)
        catalog = await at.relay.listings.catalog(
            client.session, await client.session.effective(client.outlet)
        )
        listed = [catalog.tool_routes[str(tool["name"])] for tool in catalog.tools]
        routes = [route for route in listed if isinstance(route, ChildRoute)]
        spec, guards = at.services.servers[ServerName("a")], at.services.guards
        assert worker.made == [guards.of(spec, "tools/call", route) for route in routes]


async def test_no_more_clashing_names_are_logged_than_may_be() -> None:
    many = [{**ECHO, "name": f"t{number}"} for number in range(MAX_CLASHES + 2)]
    fakes = {"a": FakeChild(*many), "b": FakeChild(*many)}
    with capture_logs() as logs:
        specs = {name: remote(name) for name in fakes}
        async with rig(specs, fakes, names="never") as at:
            assert await shown(at, at.client()) == [GET_ROOTS]
    assert sum(entry["event"] == "LEFT OUT" for entry in logs) == MAX_CLASHES


async def test_a_legacy_client_is_shown_no_schema_of_results_that_it_cannot_read() -> None:
    plain: list[JsonObject] = [{**ECHO, "name": name} for name in ("a", "b", "c")]
    schemas: list[JsonObject] = [{"type": "array"}, {"$ref": "#/x"}, {"type": "object", "x": 1}]
    tools: list[JsonObject] = [
        {**tool, "outputSchema": schema} for tool, schema in zip(plain, schemas, strict=True)
    ]
    async with rig({"a": remote("a")}, {"a": FakeChild(*tools, era="modern")}) as at:
        for client in (at.client(), at.client()):  # the second one's list is kept
            listed = (await page(at, client, "tools/list"))["tools"]
            assert isinstance(listed, list)
            assert listed[1:] == [*plain[:2], tools[2]]
        again = encoded("tools/list", tuple(tools), None)
        assert as_object(again) == {"tools": tools}, "a modern client is shown all"


async def test_a_long_list_is_paged_and_a_foreign_cursor_is_refused() -> None:
    many = [{**ECHO, "name": f"t{number}"} for number in range(1500)]
    async with rig({"a": remote("a")}, {"a": FakeChild(*many)}) as at:
        client = at.client()
        first = await page(at, client, "tools/list")
        cursor = str(first["nextCursor"])
        second = await page(at, client, "tools/list", cursor=cursor)
        assert "nextCursor" not in second
        entries = [entry for one in (first, second) for entry in (one["tools"] or [])]  # pyright: ignore[reportGeneralTypeIssues, reportUnknownVariableType] - lists
        assert len(entries) == 1501  # pyright: ignore[reportUnknownArgumentType] - entries
        for foreign in ("nonsense", cursor[:-4] + "AAAA", 7):
            with pytest.raises(RouteError):
                await page(at, client, "tools/list", cursor=foreign)


@virtual_time
async def test_one_child_that_hangs_delays_the_others_listing_no_longer_than_is_fair() -> None:
    fakes = {"a": FakeChild(ECHO, answers={"initialize": SILENT}), "b": FakeChild(ECHO)}
    handshake = fakes["b"].answers["initialize"]
    async with rig({name: remote(name) for name in fakes}, fakes) as at:
        client, began = at.client(), anyio.current_time()
        assert await shown(at, client) == [GET_ROOTS, "b__echo"]
        assert anyio.current_time() - began <= LIST_GRACE
        assert await shown(at, client) == [GET_ROOTS, "b__echo"]
        asked = await fakes["a"].link.request("initialize")
        assert not callable(handshake)
        fakes["a"].link.answer(asked["id"], handshake)
        await client.outlet.signals.until(lambda: len(client.outlet.messages) == len(LIST_CHANGED))
        assert await shown(at, client) == [GET_ROOTS, "a__echo", "b__echo"]


@virtual_time
async def test_a_list_does_not_wait_again_for_a_child_that_another_has_waited_for() -> None:
    fakes = {
        "a": FakeChild(ECHO, answers={"tools/list": SILENT}),
        "b": FakeChild(ECHO),
        "c": FakeChild(ECHO),
    }
    fakes["c"].refuses_to_open = ChildError("no command")
    async with rig({name: remote(name) for name in fakes}, fakes) as at:
        client = at.client()
        assert await shown(at, client) == [GET_ROOTS, "b__echo"]
        began = anyio.current_time()
        assert await shown(at, client) == [GET_ROOTS, "b__echo"]
        assert await shown(at, at.client()) == [GET_ROOTS, "b__echo"]
        assert anyio.current_time() == began
        assert len(fakes["a"].links) == 1


async def test_a_list_does_not_wait_again_where_the_only_child_took_long_to_fail() -> None:
    now = [1000.0]
    fake = FakeChild(ECHO, answers={"initialize": SILENT})
    async with rig({"a": remote("a")}, {"a": fake}, clock=lambda: now[0]) as at:
        client = at.client()
        async with anyio.create_task_group() as lists:
            lists.start_soon(shown, at, client)
            link = await fake.connected()
            first = await link.request("initialize")
            now[0] += LIST_GRACE
            link.answer(first["id"], failure(-1, "broken"))
        (slot,) = client.session.slots
        assert slot.is_late
        now[0] += 1000
        with anyio.fail_after(20):
            assert await shown(at, client) == [GET_ROOTS]
            handshake = FakeChild(ECHO).answers["initialize"]
            assert not callable(handshake)
            asked = await (await fake.connected(2)).request("initialize")
            fake.link.answer(asked["id"], handshake)
            await client.outlet.signals.until(lambda: bool(client.outlet.messages))
            assert await shown(at, client) == [GET_ROOTS, "echo"]
        assert not slot.is_late


@virtual_time
async def test_the_one_child_that_a_call_is_for_is_waited_for_until_it_has_started() -> None:
    fakes = {"a": FakeChild(ECHO, answers={"initialize": SILENT}), "b": FakeChild(ECHO)}
    handshake = fakes["b"].answers["initialize"]
    assert not callable(handshake)
    async with rig({name: remote(name) for name in fakes}, fakes) as at:
        client = at.client()
        async with anyio.create_task_group() as calls:

            async def call() -> None:
                assert "isError" not in await client.call("a__echo")

            calls.start_soon(call)
            asked = await (await fakes["a"].connected()).request("initialize")
            await anyio.sleep(2 * LIST_GRACE)
            fakes["a"].link.answer(asked["id"], handshake)
        assert fakes["b"].links == []


@virtual_time
async def test_a_call_of_a_server_that_is_not_known_yet_waits_for_none_that_hang() -> None:
    fakes = {f"h{at}": FakeChild(answers={"initialize": SILENT}) for at in range(MOST_STARTS + 2)}
    fakes["a"] = FakeChild(ECHO)
    async with rig({name: launched(name) for name in fakes}, fakes) as at:
        client = at.client()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(shown, at, client)
            await all_tasks_blocked()
            assert fakes["a"].links == []
            with anyio.fail_after(START_HOLDS / 2):
                assert "isError" not in await client.call("a__echo")
            tasks.cancel_scope.cancel()


async def test_one_child_that_does_not_start_does_not_keep_the_others_from_the_list() -> None:
    fakes = {"a": FakeChild(ECHO), "b": FakeChild(ECHO)}
    fakes["a"].refuses_to_open = ChildError("no command")
    async with rig({name: remote(name) for name in fakes}, fakes) as at:
        client = at.client()
        with capture_logs() as logs:
            assert await shown(at, client) == [GET_ROOTS, "b__echo"]
        assert [entry["server"] for entry in logs if entry["event"] == "not listed"] == ["a"]
        assert client.session.unlisted == {"a"}


async def test_it_is_logged_once_why_a_server_is_not_listed_until_the_reason_is_another() -> None:
    now = [1000.0]
    fake = FakeChild(ECHO)
    async with rig({"a": remote("a")}, {"a": fake}, clock=lambda: now[0]) as at:
        client = at.client()

        async def logged(refusal: str | None) -> list[str]:
            """List twice, after a pause in which the child may be started again."""
            now[0] += 1000
            fake.refuses_to_open = None if refusal is None else ChildError(refusal)
            with capture_logs() as logs:
                for _ in range(2):
                    await shown(at, client)
            return [entry["error"] for entry in logs if entry["event"] == "not listed"]

        (said,) = await logged("no command")
        assert said.startswith("server 'a' is not running: no command; ")
        assert await logged("no command") == []
        (said,) = await logged("no connection")
        assert "no connection" in said
        assert len(await logged("no command")) == 1
        assert await logged(None) == []
        assert await shown(at, client) == [GET_ROOTS, "echo"]


async def test_it_is_logged_why_a_server_that_fell_is_not_listed_now() -> None:
    fakes = {"a": FakeChild(ECHO, answers={"tools/call": SILENT}), "b": FakeChild(ECHO)}
    fakes["b"].refuses_to_open = ChildError("no command")
    now = [1000.0]
    specs = {name: remote(name) for name in fakes}
    async with rig(specs, fakes, max_children=1, clock=lambda: now[0]) as at:
        client = at.client()
        with capture_logs() as logs:
            await shown(at, client, ["b"])
            at.tasks.start_soon(client.call, "a__echo")
            await (await fakes["a"].connected()).request("tools/call")
            now[0] += 1000
            for _ in range(2):
                await shown(at, client, ["b"])
        said = [entry["error"] for entry in logs if entry["event"] == "not listed"]
        assert [("no command" in one, "max_children" in one) for one in said] == [
            (True, False),
            (False, True),
        ]


async def test_no_child_at_all_leaves_the_hubs_own_tools() -> None:
    broken = FakeChild()
    broken.refuses_to_open = ChildError("no command")
    async with rig({"a": remote("a")}, {"a": broken}) as at:
        assert await shown(at, at.client()) == [GET_ROOTS]


async def test_a_child_without_a_plan_is_left_out() -> None:
    fakes = {"a": FakeChild(ECHO), "b": FakeChild(ECHO)}
    specs = {"a": launched("a", "${NOT_SET}"), "b": remote("b")}
    async with rig(specs, fakes) as at:
        with capture_logs() as logs:
            for _ in range(2):
                assert await shown(at, at.client()) == [GET_ROOTS, "b__echo"]
        assert [entry["server"] for entry in logs if entry["event"] == "no launch plan"] == ["a"]
        assert fakes["a"].links == []


async def test_a_child_that_fell_stays_listed_as_it_was() -> None:
    fake = FakeChild(ECHO)
    async with rig({"a": remote("a")}, {"a": fake}) as at:
        client = at.client()
        assert await shown(at, client) == [GET_ROOTS, "echo"]
        fake.link.crash()
        await fake.ended()
        fake.refuses_to_open = ChildError("no more")
        assert await shown(at, client) == [GET_ROOTS, "echo"]


@pytest.mark.parametrize("spec", [remote("a"), launched("a"), launched("a", "${roots}")])
async def test_a_listing_is_shown_to_clients_with_the_same_roots_alone(
    tmp_path: Path, spec: ServerSpec
) -> None:
    plant(tmp_path, "mine/", "theirs/")
    fake = FakeChild({**ECHO, "name": "read-mine"})
    async with rig({"a": spec}, {"a": fake}) as at:
        mine = at.client(tmp_path / "mine")
        assert await shown(at, mine) == [GET_ROOTS, "read-mine"]
        fake.link.crash()
        await fake.ended()
        fake.refuses_to_open = ChildError("no more")
        others = at.client(tmp_path / "theirs"), at.client(tmp_path), at.client()
        for other in others:
            assert await shown(at, other) == [GET_ROOTS]
            assert await shown(at, other, []) == [GET_ROOTS]
        for same in (mine, at.client(tmp_path / "mine")):
            assert await shown(at, same) == [GET_ROOTS, "read-mine"]


async def test_only_the_servers_in_question_are_started() -> None:
    fakes = {"a": FakeChild(ECHO), "b": FakeChild(ECHO)}
    async with rig({name: remote(name) for name in fakes}, fakes) as at:
        client = at.client()
        assert await shown(at, client, []) == [GET_ROOTS]
        assert await shown(at, client, ["b"]) == [GET_ROOTS, "b__echo"]
        assert fakes["a"].links == []
        assert client.session.unlisted == set()


async def test_what_is_missing_is_named_with_its_trouble() -> None:
    fakes = {"a": FakeChild(ECHO), "b": FakeChild(ECHO)}
    fakes["a"].refuses_to_open = ChildError("there is no command 'x'")
    async with rig({name: remote(name) for name in fakes}, fakes) as at:
        client = at.client()
        await shown(at, client)
        missing = at.relay.listings.missing
        said = missing(client.session, [ServerName("a"), ServerName("b")])
        assert said is not None
        assert said.startswith(
            "server 'a' is not running: there is no command 'x'; it can be started"
        )
        assert missing(client.session, [ServerName("b")]) is None
        assert missing(client.session, []) is None


async def test_a_merged_catalog_is_kept_while_its_listings_are_the_same() -> None:
    fake = FakeChild(ECHO)
    async with rig({"a": remote("a")}, {"a": fake}) as at:
        client, other, listings = at.client(), at.client(), Listings(at.services, kept=1)
        effective = await client.session.effective(client.outlet)
        first = await listings.catalog(client.session, effective)
        assert await listings.catalog(other.session, effective) is first
        fake.answers["tools/list"] = {"tools": [READ]}
        fake.link.notify("notifications/tools/list_changed", {})
        await client.outlet.signals.until(lambda: bool(client.outlet.messages))
        second = await listings.catalog(client.session, effective)
        assert names(second) == [GET_ROOTS, "read"]
        assert await listings.catalog(client.session, effective) is second


async def test_many_who_list_at_once_start_each_child_once() -> None:
    fakes = {name: FakeChild(ECHO) for name in "abc"}
    async with rig({name: remote(name) for name in fakes}, fakes) as at:
        async with anyio.create_task_group() as tasks:
            for _ in range(20):
                tasks.start_soon(shown, at, at.client())
        assert [len(fake.links) for fake in fakes.values()] == [1, 1, 1]


async def test_a_hub_whose_every_child_is_down_says_so_and_shows_no_empty_list() -> None:
    fakes = {"a": FakeChild(ECHO), "b": FakeChild(ECHO)}
    for fake in fakes.values():
        fake.refuses_to_open = ChildError("there is no command 'x'")
    async with rig({name: remote(name) for name in fakes}, fakes) as at:
        client = at.client()
        listed = await page(at, client, "tools/list")
        assert isinstance(listed["tools"], list)
        (only,) = listed["tools"]
        assert isinstance(only, dict)
        begins = (
            "None of the servers behind this hub is running now: server 'a' is not running: there "
            "is no command 'x'; it can be started again in 1.0 s; server 'b' is not running: "
        )
        assert only["name"] == GET_ROOTS
        assert str(only["description"]).startswith(begins)
        for method in ("resources/list", "resources/templates/list", "prompts/list"):
            with pytest.raises(ChildError) as caught:
                await page(at, client, method)
            assert str(caught.value).startswith(begins[:60])


async def test_a_listing_that_is_known_is_shown_though_all_children_are_down() -> None:
    fake = FakeChild(ECHO)
    async with rig({"a": remote("a")}, {"a": fake}) as at:
        client = at.client()
        assert await shown(at, client) == [GET_ROOTS, "echo"]
        fake.refuses_to_open = ChildError("gone")
        fake.link.crash()
        await fake.ended()
        assert await shown(at, client) == [GET_ROOTS, "echo"]
        assert await page(at, client, "prompts/list") == {"prompts": []}
