"""Lists from the cache, before their servers run; calls are judged by what runs."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from hub.calls.builtin_tools import GET_ROOTS
from hub.errors import ChildError, RouteError
from hub.guard.policy import AccessRule, Policy
from hub.jsonrpc.messages import as_object
from hub.paths.resolve import Flavour, parts_of
from hub.protocol.constants import LIST_CHANGED
from hub.values import Json, JsonObject, object_or_empty
from tests.kit.fakes import ECHO, READ, SILENT, FakeChild, failure
from tests.kit.loops import all_tasks_blocked, virtual_time
from tests.kit.rigs import Rig, RigClient, launched, remote, rig
from tests.kit.trees import files_in, plant

TOOLS = "notifications/tools/list_changed"
RESOURCE: JsonObject = {"uri": "x:1", "name": "one"}


async def listed(at: Rig, client: RigClient, method: str = "tools/list") -> list[str]:
    """Return the names, or URIs, that a client is listed."""
    found = as_object(await at.relay.listings.page(client.session, client.asked_for(method, {})))
    key = {"tools/list": "tools", "resources/list": "resources", "prompts/list": "prompts"}[method]
    entries = found[key]
    assert isinstance(entries, list)
    names = [object_or_empty(entry) for entry in entries]
    return [str(entry.get("uri") or entry["name"]) for entry in names]


async def seen_before(cache: Path, *names: str, **fakes: FakeChild) -> None:
    """Let an earlier hub list these servers."""
    given = fakes or {name: FakeChild(ECHO) for name in names}
    async with rig({name: remote(name) for name in given}, given, cache=cache) as at:
        await listed(at, at.client())


async def test_lists_of_a_new_hub_come_from_the_cache_and_start_nothing(tmp_path: Path) -> None:
    every = FakeChild(
        ECHO,
        capabilities={"tools": {}, "resources": {}, "prompts": {}},
        answers={
            "resources/list": {"resources": [RESOURCE]},
            "resources/templates/list": {"resourceTemplates": []},
            "prompts/list": {"prompts": [{"name": "ask"}]},
        },
    )
    await seen_before(tmp_path, a=every)
    fake = FakeChild()
    async with rig({"a": remote("a")}, {"a": fake}, cache=tmp_path) as at:
        client = at.client()
        assert await listed(at, client) == [GET_ROOTS, "echo"]
        assert await listed(at, client, "resources/list") == ["x:1"]
        assert await listed(at, client, "prompts/list") == ["ask"]
        assert fake.links == []
        (slot,) = client.session.slots
        assert slot.state == "cached"
        assert client.session.unlisted == set()


@pytest.mark.parametrize(
    ("change", "is_known"),
    [
        ({}, True),
        ({"catalog_id": "other"}, False),
        ({"fingerprint": "other"}, True),
        ({"share": "auto"}, True),
    ],
)
async def test_only_a_server_that_is_launched_alike_is_known(
    tmp_path: Path, change: dict[str, str], *, is_known: bool
) -> None:
    await seen_before(tmp_path, "a")
    fake = FakeChild(READ)
    async with rig({"a": remote("a", **change)}, {"a": fake}, cache=tmp_path) as at:
        assert await listed(at, at.client()) == [GET_ROOTS, "echo" if is_known else "read"]


async def test_what_was_listed_for_some_roots_is_not_for_others(tmp_path: Path) -> None:
    plant(tmp_path, "mine/", "theirs/")
    cache, spec = tmp_path / "cache", launched("a", "${roots}")
    async with rig({"a": spec}, {"a": FakeChild(ECHO)}, cache=cache) as at:
        await listed(at, at.client(tmp_path / "mine"))
    fake = FakeChild(READ)
    async with rig({"a": spec}, {"a": fake}, cache=cache) as at:
        assert await listed(at, at.client(tmp_path / "mine")) == [GET_ROOTS, "echo"]
        assert fake.links == []
        assert await listed(at, at.client(tmp_path / "theirs")) == [GET_ROOTS, "read"]


async def test_a_second_session_is_listed_what_the_first_ones_child_said(tmp_path: Path) -> None:
    fake = FakeChild(ECHO)
    async with rig({"a": remote("a", share="session")}, {"a": fake}, cache=tmp_path) as at:
        assert await listed(at, at.client()) == [GET_ROOTS, "echo"]
        assert await listed(at, at.client()) == [GET_ROOTS, "echo"]
        assert len(fake.links) == 1


async def test_a_call_starts_its_server_and_no_other(tmp_path: Path) -> None:
    await seen_before(tmp_path, "a", "b")
    fakes = {"a": FakeChild(ECHO), "b": FakeChild(ECHO)}
    async with rig({name: remote(name) for name in fakes}, fakes, cache=tmp_path) as at:
        client = at.client()
        assert await listed(at, client) == [GET_ROOTS, "a__echo", "b__echo"]
        assert "isError" not in await client.call("b__echo")
        assert (fakes["a"].links, len(fakes["b"].links)) == ([], 1)
        assert client.outlet.messages == []


async def test_a_call_is_judged_by_what_the_running_child_says(tmp_path: Path) -> None:
    """The cached tool only reads; that of the new version writes."""
    plant(tmp_path, "root/file")
    root, cache = tmp_path / "root", tmp_path / "cache"
    rule = AccessRule(parts_of(str(root), Flavour.POSIX), "read")
    specs = {"a": remote("a", policy=Policy(access=(rule,)))}
    async with rig(specs, {"a": FakeChild(READ)}, cache=cache) as at:
        assert "isError" not in await at.client(root).call("read", {"path": "file"})
    fake = FakeChild({**READ, "annotations": {"readOnlyHint": False}})
    async with rig(specs, {"a": fake}, cache=cache) as at:
        client = at.client(root)
        assert await listed(at, client) == [GET_ROOTS, "read"]
        assert "Access denied" in str(await client.call("read", {"path": "file"}))
        assert fake.link.requests("tools/call") == []


async def test_what_a_server_says_differently_is_told_kept_and_listed(tmp_path: Path) -> None:
    await seen_before(tmp_path, "a")
    fakes = {"a": FakeChild(ECHO, READ)}
    async with rig({"a": remote("a")}, fakes, cache=tmp_path) as at:
        client, other = at.client(), at.client()
        assert await listed(at, client) == await listed(at, other) == [GET_ROOTS, "echo"]
        await client.call("echo")
        for one in (client, other):
            await one.outlet.signals.until(lambda one=one: bool(one.outlet.messages))
            assert [line["method"] for line in one.outlet.lines] == [TOOLS]
            assert await listed(at, one) == [GET_ROOTS, "echo", "read"]
    fakes = {"a": FakeChild(ECHO, READ)}
    async with rig({"a": remote("a")}, fakes, cache=tmp_path) as at:
        assert await listed(at, at.client()) == [GET_ROOTS, "echo", "read"]
        assert fakes["a"].links == []


async def test_a_tool_that_is_gone_is_unknown_and_the_list_has_changed(tmp_path: Path) -> None:
    await seen_before(tmp_path, a=FakeChild(ECHO, READ))
    async with rig({"a": remote("a")}, {"a": FakeChild(READ)}, cache=tmp_path) as at:
        client = at.client()
        assert await listed(at, client) == [GET_ROOTS, "echo", "read"]
        with pytest.raises(RouteError, match="Unknown tool: echo"):
            await client.call("echo")
        await client.outlet.signals.until(lambda: bool(client.outlet.notified(TOOLS)))
        assert await listed(at, client) == [GET_ROOTS, "read"]


async def test_clients_of_other_children_of_the_server_hear_of_a_change(tmp_path: Path) -> None:
    spec = remote("a", share="session")
    async with rig({"a": spec}, {"a": FakeChild(ECHO)}, cache=tmp_path) as at:
        await listed(at, at.client())
    fake = FakeChild(READ)
    async with rig({"a": spec}, {"a": fake}, cache=tmp_path) as at:
        first, second = at.client(), at.client()
        assert await listed(at, first) == await listed(at, second) == [GET_ROOTS, "echo"]
        with pytest.raises(RouteError):
            await first.call("echo")
        await second.outlet.signals.until(lambda: bool(second.outlet.notified(TOOLS)))
        assert await listed(at, second) == [GET_ROOTS, "read"]
        assert len(fake.links) == 1


@pytest.mark.parametrize("version", ["1", "2"])
async def test_a_server_that_has_changed_outdates_what_it_listed_for_other_roots(
    tmp_path: Path, version: str
) -> None:
    plant(tmp_path, "one/", "two/")
    cache, spec = tmp_path / "cache", launched("a")
    async with rig({"a": spec}, {"a": FakeChild(ECHO)}, cache=cache) as at:
        for folder in ("one", "two"):
            await listed(at, at.client(tmp_path / folder))
    newer = FakeChild(READ)
    greeting = newer.answers["initialize"]
    assert isinstance(greeting, dict)
    newer.answers["initialize"] = {**greeting, "serverInfo": {"name": "fake", "version": version}}
    async with rig({"a": spec}, {"a": newer}, cache=cache) as at:
        one, two = at.client(tmp_path / "one"), at.client(tmp_path / "two")
        assert await listed(at, one) == await listed(at, two) == [GET_ROOTS, "echo"]
        await one.call("read", {"path": "x"})
        await two.outlet.signals.until(lambda: all(map(two.outlet.notified, LIST_CHANGED)))
        assert await listed(at, two) == [GET_ROOTS, "read"]
    async with rig({"a": spec}, {"a": newer}, cache=cache) as at:
        assert await listed(at, at.client(tmp_path / "two")) == [GET_ROOTS, "read"]


async def test_a_child_that_changes_its_list_later_changes_the_cache(tmp_path: Path) -> None:
    fake = FakeChild(ECHO)
    async with rig({"a": remote("a")}, {"a": fake}, cache=tmp_path) as at:
        client = at.client()
        await listed(at, client)
        fake.answers["tools/list"] = {"tools": [READ]}
        fake.link.notify(TOOLS, {})
        await client.outlet.signals.until(lambda: bool(client.outlet.notified(TOOLS)))
        assert len(client.outlet.notified(TOOLS)) == 1
    async with rig({"a": remote("a")}, {"a": FakeChild()}, cache=tmp_path) as at:
        assert await listed(at, at.client()) == [GET_ROOTS, "read"]


async def test_a_server_that_does_not_start_any_more_stays_listed_and_its_call_says_why(
    tmp_path: Path,
) -> None:
    await seen_before(tmp_path, "a")
    fake = FakeChild()
    fake.refuses_to_open = ChildError("no command")
    async with rig({"a": remote("a")}, {"a": fake}, cache=tmp_path) as at:
        client = at.client()
        assert await listed(at, client) == [GET_ROOTS, "echo"]
        result = await client.call("echo")
        assert result["isError"] is True
        assert "server 'a' is not running: no command" in str(result["content"])
        assert await listed(at, client) == [GET_ROOTS, "echo"]


@pytest.mark.parametrize("eager", [True, False, None])
async def test_a_known_server_is_started_before_a_call_only_where_it_must_be_eager(
    tmp_path: Path, *, eager: bool | None
) -> None:
    await seen_before(tmp_path, "a")
    fake = FakeChild(ECHO)
    async with rig({"a": remote("a", eager=eager)}, {"a": fake}, cache=tmp_path) as at:
        at.services.is_for_one = True
        client = at.client()
        await client.session.start_early()
        assert await listed(at, client) == [GET_ROOTS, "echo"]
        await all_tasks_blocked()
        assert len(fake.links) == int(eager is True)


async def test_an_unknown_server_starts_early_beside_a_known_one(tmp_path: Path) -> None:
    await seen_before(tmp_path, "a")
    fakes = {"a": FakeChild(ECHO), "b": FakeChild(ECHO)}
    async with rig({name: remote(name) for name in fakes}, fakes, cache=tmp_path) as at:
        at.services.is_for_one = True
        await at.client().session.start_early()
        assert [len(fake.links) for fake in fakes.values()] == [0, 1]


async def test_a_name_without_prefix_starts_the_server_that_the_cache_knows_it_of(
    tmp_path: Path,
) -> None:
    await seen_before(tmp_path, a=FakeChild(ECHO), b=FakeChild(READ))
    fakes = {"a": FakeChild(ECHO), "b": FakeChild(READ)}
    specs = {name: remote(name) for name in fakes}
    async with rig(specs, fakes, cache=tmp_path, names="never") as at:
        client = at.client()
        assert await listed(at, client) == [GET_ROOTS, "echo", "read"]
        assert "isError" not in await client.call("echo")
        assert [len(fake.links) for fake in fakes.values()] == [1, 0]
        with pytest.raises(RouteError):
            await client.call("none")


async def test_a_name_without_prefix_that_has_moved_is_found_where_it_is_now(
    tmp_path: Path,
) -> None:
    await seen_before(tmp_path, a=FakeChild(ECHO), b=FakeChild(READ))
    fakes = {"a": FakeChild(READ), "b": FakeChild(ECHO)}
    specs = {name: remote(name) for name in fakes}
    async with rig(specs, fakes, cache=tmp_path, names="never") as at:
        client = at.client()
        assert await listed(at, client) == [GET_ROOTS, "echo", "read"]
        assert "isError" not in await client.call("echo")
        assert fakes["b"].link.requests("tools/call")
        assert not fakes["a"].link.requests("tools/call")


async def test_a_search_of_tools_needs_no_running_server(tmp_path: Path) -> None:
    await seen_before(tmp_path, "a", "b")
    fakes = {"a": FakeChild(ECHO), "b": FakeChild(ECHO)}
    specs = {name: remote(name) for name in fakes}
    async with rig(specs, fakes, cache=tmp_path, expose="search") as at:
        client = at.client()
        servers = await client.call("list-servers")
        assert "cached" in str(servers["structuredContent"])
        found = await client.call("list-all-tools-in-server", {"serverName": "a"})
        assert "echo" in str(found["structuredContent"])
        assert fakes["a"].links == fakes["b"].links == []
        called: Json = {"serverName": "a", "toolName": "echo", "toolArgs": {}}
        assert "isError" not in await client.call("call-tool", called)
        assert (len(fakes["a"].links), fakes["b"].links) == (1, [])


async def test_instructions_come_from_the_cache_unless_they_name_a_root(tmp_path: Path) -> None:
    plant(tmp_path, "root/")
    spec = {"a": remote("a", share="session"), "b": remote("b", share="session")}

    def saying(text: str) -> FakeChild:
        fake = FakeChild(ECHO)
        greeting = fake.answers["initialize"]
        assert isinstance(greeting, dict)
        fake.answers["initialize"] = {**greeting, "instructions": text}
        return fake

    fakes = {"a": saying("Use me."), "b": saying(f"Use me in {tmp_path}/root.")}
    async with rig(spec, fakes, cache=tmp_path / "cache") as at:
        await listed(at, at.client(tmp_path / "root"))
    async with rig(spec, fakes, cache=tmp_path / "cache") as at:
        assert at.services.instructions("alice") == "# a\n\nUse me."
        assert at.services.instructions("bob") is None


@virtual_time
async def test_a_child_that_hung_delays_no_list_of_the_next_hub(tmp_path: Path) -> None:
    specs = {name: remote(name) for name in "ab"}
    fakes = {"a": FakeChild(answers={"initialize": SILENT}), "b": FakeChild(ECHO)}
    async with rig(specs, fakes, cache=tmp_path) as at:
        assert await listed(at, at.client()) == [GET_ROOTS, "b__echo"]
    fakes = {"a": FakeChild(READ), "b": FakeChild(ECHO)}
    greeting = fakes["a"].answers["initialize"]
    assert not callable(greeting)
    fakes["a"].answers["initialize"] = SILENT
    async with rig(specs, fakes, cache=tmp_path) as at:
        client, began = at.client(), anyio.current_time()
        assert await listed(at, client) == [GET_ROOTS, "b__echo"]
        assert anyio.current_time() == began
        asked = await (await fakes["a"].connected()).request("initialize")
        fakes["a"].link.answer(asked["id"], greeting)
        await client.outlet.signals.until(lambda: len(client.outlet.lines) == len(LIST_CHANGED))
        assert await listed(at, client) == [GET_ROOTS, "a__read", "b__echo"]


@virtual_time
@pytest.mark.parametrize(
    ("args", "description", "asks", "shown"),
    [
        ((), "", False, ["slow__read"]),
        (("${roots}",), "", False, []),  # it may list what is in its roots
        ((), "Reads in {root}.", False, []),
        ((), "", True, []),
    ],
)
async def test_a_server_that_is_late_in_another_folder_shows_the_tools_of_the_one_before(
    tmp_path: Path, args: tuple[str, ...], description: str, asks: bool, shown: list[str]
) -> None:
    plant(tmp_path, "mine/", "theirs/")
    specs = {"slow": launched("slow", *args), "fast": launched("fast")}
    tool = {**READ, "description": description.format(root=tmp_path / "mine")}
    fakes = {"slow": FakeChild(tool), "fast": FakeChild(ECHO)}
    async with rig(specs, fakes, cache=tmp_path / "cache") as at:
        client = at.client(tmp_path / "mine")
        await listed(at, client)
        if asks:
            fakes["slow"].link.ask("q", "roots/list", {})
            await fakes["slow"].link.reply("q")
            fakes["slow"].link.notify(TOOLS, {})
            await client.outlet.signals.until(lambda: bool(client.outlet.notified(TOOLS)))
    fakes = {"slow": FakeChild(ECHO), "fast": FakeChild(ECHO)}
    greeting = fakes["slow"].answers["initialize"]
    assert not callable(greeting)
    fakes["slow"].answers["initialize"] = SILENT
    async with rig(specs, fakes, cache=tmp_path / "cache") as at:
        client = at.client(tmp_path / "theirs")
        assert await listed(at, client) == [GET_ROOTS, *shown, "fast__echo"]
        asked = await (await fakes["slow"].connected()).request("initialize")
        fakes["slow"].link.answer(asked["id"], greeting)
        await client.outlet.signals.until(lambda: bool(client.outlet.notified(TOOLS)))
        assert await listed(at, client) == [GET_ROOTS, "slow__echo", "fast__echo"]


async def test_a_list_waits_for_the_first_child_and_for_those_that_follow_soon() -> None:
    """Ten servers that are all slow at their first start are not cut off by the first of them."""
    fakes = {name: FakeChild(ECHO, answers={"initialize": SILENT}) for name in "abc"}
    greeting = FakeChild(ECHO).answers["initialize"]
    assert not callable(greeting)
    now = [1000.0]
    specs = {name: remote(name) for name in fakes}
    async with rig(specs, fakes, clock=lambda: now[0]) as at:
        found: list[str] = []
        client = at.client()

        async def list_() -> None:
            found.extend(await listed(at, client))

        async with anyio.create_task_group() as lists:
            lists.start_soon(list_)
            for fake in fakes.values():
                link = await fake.connected()
                asked = await link.request("initialize")
                now[0] += 20.0 if fake is fakes["a"] else 0.4
                link.answer(asked["id"], greeting)
                await link.request("tools/list")
                await all_tasks_blocked()
        assert found == [GET_ROOTS, "a__echo", "b__echo", "c__echo"]


async def test_a_failing_list_request_of_a_new_version_keeps_nothing_wrong(tmp_path: Path) -> None:
    await seen_before(tmp_path, "a")
    fake = FakeChild(answers={"tools/list": failure(-1, "broken")})
    async with rig({"a": remote("a")}, {"a": fake}, cache=tmp_path) as at:
        client = at.client()
        assert await listed(at, client) == [GET_ROOTS, "echo"]
        with pytest.raises(RouteError):
            await client.call("echo")
        assert await listed(at, client) == [GET_ROOTS]


async def test_a_broken_file_means_that_the_server_is_started(tmp_path: Path) -> None:
    await seen_before(tmp_path, "a")
    for name in files_in(tmp_path):
        (tmp_path / name).write_bytes(b"broken")
    fake = FakeChild(READ)
    async with rig({"a": remote("a")}, {"a": fake}, cache=tmp_path) as at:
        assert await listed(at, at.client()) == [GET_ROOTS, "read"]
    async with rig({"a": remote("a")}, {"a": FakeChild()}, cache=tmp_path) as at:
        assert await listed(at, at.client()) == [GET_ROOTS, "read"]


async def test_a_check_outdates_all_that_is_kept_of_a_server(tmp_path: Path) -> None:
    plant(tmp_path, "one/", "two/")
    cache, spec = tmp_path / "cache", launched("a")
    async with rig({"a": spec}, {"a": FakeChild(ECHO)}, cache=cache) as at:
        await listed(at, at.client(tmp_path / "one"))
    async with rig({"a": spec}, {"a": FakeChild(READ)}, cache=cache) as at:
        at.services.children.known.renews = True
        await listed(at, at.client(tmp_path / "two"))
    async with rig({"a": spec}, {"a": FakeChild(READ)}, cache=cache) as at:
        assert await listed(at, at.client(tmp_path / "one")) == [GET_ROOTS, "read"]
