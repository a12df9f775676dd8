from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from hub.jsonrpc.messages import Notification
from hub.protocol.constants import LIST_CHANGED
from hub.roots.effective import EffectiveRoots, OperatorRoots
from hub.sessions.client import Client
from hub.sessions.session import Session
from hub.specs import ServerSpec
from hub.values import STDIO, ServerName
from tests.kit.fakes import ECHO, SILENT, FakeChild, RecordingOutlet, failure
from tests.kit.loops import all_tasks_blocked
from tests.kit.rigs import ROOTS, Rig, RigClient, launched, remote, rig, roots_at
from tests.kit.trees import plant

CHANGED = "notifications/roots/list_changed"


@pytest.fixture
def top(tmp_path: Path) -> Path:
    return plant(tmp_path, "a/", "b/")


async def change(client: RigClient, *paths: object) -> EffectiveRoots:
    """Let a client share other folders; returns its effective roots."""
    client.shares(*paths)
    client.session.roots.list_changed()
    return await client.session.effective(client.outlet)


async def started(at: Rig, client: RigClient, spec: ServerSpec) -> None:
    effective = await client.session.effective(client.outlet)
    await at.services.children.obtain(client.session.slot_for(spec, effective))


async def test_every_session_has_a_key_of_its_own() -> None:
    async with rig({}, {}) as at:
        assert len({at.client().session.key for _ in range(50)}) == 50


async def test_a_request_of_a_modern_client_is_a_session_of_its_connections_party() -> None:
    async with rig({}, {}) as at:
        whole, headers = at.client().session, [("mcp-method", "tools/call")]
        client = Client("modern", "2026-07-28", {}, {})
        first, second = (whole.of_request(client, at.tasks, headers) for _ in range(2))
        assert len({whole.key, first.key, second.key}) == 3
        assert first.party == second.party == whole.key
        assert first.refusals is second.refusals
        assert (first.client, first.peer, first.headers) == (client, whole.peer, headers)
        assert first.principal == whole.principal
        assert (await first.effective(RecordingOutlet())).source == "none"


async def test_calls_take_turns_by_client_or_by_principal_where_no_client_is_known() -> None:
    async with rig({}, {}) as at:
        legacy, other = at.client().session, at.client().session
        assert legacy.queue_key != other.queue_key
        client, headers = Client("modern", "2026-07-28", {}, {}), [("mcp-method", "tools/call")]
        posts = {whole.of_request(client, at.tasks, headers).queue_key for whole in (legacy, other)}
        assert posts == {legacy.identity}
        on_stdio = {legacy.of_request(client, at.tasks, None).queue_key for _ in range(2)}
        assert on_stdio == {legacy.party}


async def test_a_clients_roots_apply_to_this_client_only(top: Path) -> None:
    async with rig({}, {}) as at:
        alice, bob, carol = at.client(top / "a"), at.client(top / "b"), at.client()
        forces = [await one.session.effective(one.outlet) for one in (alice, bob, carol)]
        assert [effective.roots.paths for effective in forces] == [(f"{top}/a",), (f"{top}/b",), ()]
        assert [effective.enforcing for effective in forces] == [True, True, False]
        await change(alice, top / "b")
        assert bob.session.known_effective() == forces[1]
        assert len(bob.outlet.messages) == 1, "only the client that changed is asked again"


async def test_a_client_that_never_answers_is_judged_by_the_fallback_and_delays_no_other(
    top: Path,
) -> None:
    operator = OperatorRoots(fallback=roots_at(top / "b"), fallback_source="config")
    async with rig({}, {}, operator=operator) as at:
        silent, well = at.client(top / "a"), at.client(top / "a")
        silent.answers.clear()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(silent.session.effective, silent.outlet)
            await silent.outlet.next_request()
            assert (await well.session.effective(well.outlet)).source == "client"
            tasks.cancel_scope.cancel()
        silent.answers["roots/list"] = failure(-32600, "no roots here")
        assert (await silent.session.effective(silent.outlet)).source == "config"


async def test_a_client_that_is_not_restricted_is_warned_about_once() -> None:
    async with rig({"files": remote("files")}, {}) as at:
        client = at.client()
        with capture_logs() as logs:
            await client.session.effective(client.outlet)
            await client.session.effective(client.outlet)
        warned = [entry for entry in logs if "NOT restricted" in entry["event"]]
        assert len(warned) == 1


async def test_a_client_whose_every_request_is_a_session_is_warned_about_once() -> None:
    async with rig({"files": remote("files")}, {}) as at:
        with capture_logs() as logs:
            for _ in range(2):
                client = at.client()
                await client.session.effective(client.outlet)
        warned = [entry for entry in logs if "NOT restricted" in entry["event"]]
        assert len(warned) == 1


async def test_lines_of_the_log_name_a_client_and_its_principal() -> None:
    async with rig({"files": remote("files")}, {}) as at:
        with capture_logs() as logs:
            session = at.client().session
        assert [one["principal"] for one in logs if one["event"] == "client"] == ["alice"]
        assert session.named == {"principal": "alice", "client": "test", "session": session.key}
        local = Session(at.services, at.tasks, principal=STDIO)
        assert local.named == {"client": None, "session": local.key}


async def test_clients_with_the_same_roots_share_a_child_and_others_do_not(top: Path) -> None:
    spec, fake = launched("files", "${roots}"), FakeChild(ECHO)
    async with rig({"files": spec}, {"files": fake}) as at:
        clients = [at.client(top / "a"), at.client(top / "a"), at.client(top / "b")]
        for client in clients:
            await started(at, client, spec)
        plans = [link.plan.argv for link in fake.links if link.plan is not None]
        assert plans == [("server", f"{top}/a"), ("server", f"{top}/b")]


async def test_a_child_with_other_roots_replaces_the_one_in_use(top: Path) -> None:
    spec, fake = launched("files", "${roots}"), FakeChild(ECHO)
    async with rig({"files": spec}, {"files": fake}) as at:
        client = at.client(top / "a")
        await started(at, client, spec)
        effective = await change(client, top / "b")
        slot = client.session.slot_for(spec, effective)
        await at.services.children.obtain(slot)
        await fake.ended()
        assert [link.plan.argv[1] for link in fake.links if link.plan is not None] == [
            f"{top}/a",
            f"{top}/b",
        ]
        assert list(client.session.slots) == [slot]
        assert client.session.slot_for(spec, effective) is slot


async def test_a_remote_child_is_told_of_other_roots(top: Path) -> None:
    spec, fake = remote("files"), FakeChild(ECHO)
    async with rig({"files": spec}, {"files": fake}) as at:
        client = at.client(top / "a")
        await started(at, client, spec)
        await change(client, top / "b")
        await fake.link.request(CHANGED)
        fake.link.ask("r", "roots/list", {})
        reply = await fake.link.reply("r")
        assert reply["result"]["roots"] == [{"uri": f"file://{top}/b"}]
        assert len(fake.links) == 1


@pytest.mark.parametrize(("before", "after"), [("a", None), (None, "a")])
async def test_a_remote_child_is_replaced_where_it_gets_its_first_roots_or_loses_its_last(
    top: Path, before: str | None, after: str | None
) -> None:
    """Whether it may ask for roots, it learns in its handshake alone."""
    spec, fake = remote("files"), FakeChild(ECHO)
    async with rig({"files": spec}, {"files": fake}) as at:
        client = at.client(*([top / before] if before else []), capabilities=ROOTS)
        await started(at, client, spec)
        await change(client, *([top / after] if after else []))
        sent = (await (await fake.connected(2)).request("initialize"))["params"]
        assert ("roots" in sent["capabilities"]) is (after is not None)
        await fake.ended()
        assert fake.links[0].requests(CHANGED) == []


async def test_a_child_shared_by_all_stays_when_a_clients_roots_change(top: Path) -> None:
    for spec in (launched("files", share="all"), remote("files", share="all", answer_roots=False)):
        fake = FakeChild(ECHO)
        async with rig({"files": spec}, {"files": fake}) as at:
            alice, bob = at.client(top / "a"), at.client()
            await started(at, alice, spec)
            await change(alice, top / "b")
            await all_tasks_blocked()
            await started(at, alice, spec)
            await started(at, bob, spec)
            assert len(fake.links) == 1
            assert fake.closed == 0


async def test_sessions_have_children_of_their_own_if_the_operator_wants(top: Path) -> None:
    spec, fake = remote("files", share="session"), FakeChild(ECHO)
    async with rig({"files": spec}, {"files": fake}) as at:
        for client in (at.client(top / "a"), at.client(top / "a")):
            await started(at, client, spec)
        assert len(fake.links) == 2


async def test_a_closed_session_leaves_its_children_to_others(top: Path) -> None:
    spec, fake = remote("files"), FakeChild(ECHO)
    async with rig({"files": spec}, {"files": fake}) as at:
        alice, bob = at.client(top / "a"), at.client(top / "a")
        await started(at, alice, spec)
        alice.session.close()
        assert list(alice.session.slots) == []
        await started(at, bob, spec)
        assert len(fake.links) == 1
        assert fake.closed == 0


async def test_notifications_reach_a_client_after_its_handshake() -> None:
    async with rig({}, {}) as at:
        client = at.client()
        changed = Notification("notifications/tools/list_changed", {})
        await client.session.told(remote("files"), changed)
        nobody = Session(at.services, at.tasks, principal="")
        await nobody.told(remote("files"), changed)
        await client.session.notifier.send_queue.flush()
        assert client.outlet.messages == [changed]


async def test_a_client_that_was_shown_a_list_without_a_child_is_told_when_it_comes() -> None:
    spec = remote("files")
    async with rig({"files": spec}, {"files": FakeChild()}) as at:
        client = at.client()
        await client.session.came(spec)
        assert client.outlet.messages == []
        client.session.unlisted.add(spec.name)
        await client.session.came(spec)
        await client.session.notifier.send_queue.flush()
        assert [line["method"] for line in client.outlet.lines] == list(LIST_CHANGED)
        await client.session.came(spec)
        await client.session.notifier.send_queue.flush()
        assert len(client.outlet.messages) == len(LIST_CHANGED)


async def test_children_log_from_the_level_that_their_client_wants() -> None:
    logging = FakeChild(capabilities={"logging": {}}, answers={"logging/setLevel": {}})
    broken = FakeChild(capabilities={"logging": {}})
    silent = FakeChild()
    fakes = {"a": logging, "b": silent, "c": broken, "d": FakeChild()}
    specs = {name: remote(name) for name in fakes}
    async with rig(specs, fakes) as at:
        client = at.client()
        for name in ("a", "b", "c"):
            await started(at, client, specs[name])
        client.session.slot_for(specs["d"], await client.session.effective(client.outlet))
        with capture_logs() as logs:
            await client.session.set_level("warning")
        sent = await logging.link.request("logging/setLevel")
        assert sent["params"] == {"level": "warning"}
        assert silent.link.requests("logging/setLevel") == []
        assert [entry["server"] for entry in logs if entry["event"] == "log level not set"] == ["c"]
        assert client.session.notifier.log_level == "warning"
        slot = next(slot for slot in client.session.slots if slot.spec.name == "a")
        assert slot.child is not None
        slot.child.stop()
        await logging.ended()
        await started(at, client, specs["a"])
        again = await (await logging.connected(2)).request("logging/setLevel")
        assert again["params"] == {"level": "warning"}


async def test_a_server_that_does_not_answer_keeps_no_other_from_being_told_the_level() -> None:
    slow = FakeChild(capabilities={"logging": {}}, answers={"logging/setLevel": SILENT})
    other = FakeChild(capabilities={"logging": {}}, answers={"logging/setLevel": {}})
    specs = {"a": remote("a"), "b": remote("b")}
    async with rig(specs, {"a": slow, "b": other}) as at:
        client = at.client()
        for spec in specs.values():
            await started(at, client, spec)
        with anyio.fail_after(20):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(client.session.set_level, "info")
                asked = await slow.link.request("logging/setLevel")
                told = await other.link.request("logging/setLevel")
                assert told["params"] == {"level": "info"}
                slow.link.answer(asked["id"], {})


async def test_a_server_that_cannot_be_planned_keeps_no_others_child_from_new_roots(
    top: Path,
) -> None:
    specs = {"a": launched("a", share="session"), "b": remote("b", share="session")}
    async with rig(specs, {"a": FakeChild(ECHO), "b": FakeChild(ECHO)}) as at:
        client = at.client(top / "a")
        for spec in specs.values():
            await started(at, client, spec)
        broken = {
            ServerName("a"): launched("a", "${NOT_SET}", share="session"),
            ServerName("b"): specs["b"],
        }
        at.services.servers = broken
        client.shares(top / "b")
        with capture_logs() as logs:
            client.session.roots.list_changed()
            await client.session.effective(client.outlet)
            await all_tasks_blocked()
        assert [one["server"] for one in logs if one["event"] == "no launch plan"] == ["a"]
        slot = next(slot for slot in client.session.slots if slot.spec.name == "b")
        assert slot.key.roots.paths == (str(top / "b"),)


async def test_other_servers_can_be_used_while_a_slow_one_is_told_the_level() -> None:
    slow = FakeChild(capabilities={"logging": {}}, answers={"logging/setLevel": SILENT})
    specs = {"a": remote("a"), "b": remote("b")}
    async with rig(specs, {"a": slow, "b": FakeChild(ECHO)}) as at:
        client = at.client()
        await started(at, client, specs["a"])
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.session.set_level, "info")
            asked = await slow.link.request("logging/setLevel")
            await started(at, client, specs["b"])
            assert [slot.state for slot in client.session.slots] == ["ready", "ready"]
            slow.link.answer(asked["id"], {})


async def test_an_eager_child_is_started_before_it_is_needed(top: Path) -> None:
    fake = FakeChild(ECHO)
    async with rig({"files": remote("files", eager=True)}, {"files": fake}) as at:
        at.client()
        await fake.connected()
    broken = FakeChild()
    broken.refuses_to_open = OSError("no network")
    async with rig({"files": remote("files", eager=True)}, {"files": broken}) as at:
        client = at.client(top / "a")
        with capture_logs() as logs:
            await client.session.effective(client.outlet)
            await all_tasks_blocked()
        assert "not started" in [entry["event"] for entry in logs]


async def test_a_server_that_cannot_be_planned_disturbs_no_other_that_starts_early() -> None:
    specs = {"a": launched("a", "${NOT_SET}", eager=True), "b": remote("b", eager=True)}
    children = {"a": FakeChild(ECHO), "b": FakeChild(ECHO)}
    async with rig(specs, children) as at:
        with capture_logs() as logs:
            at.client()
            await children["b"].connected()
        assert ("no launch plan", "a") in [(e["event"], e.get("server")) for e in logs]


async def test_an_eager_child_waits_for_a_client_with_a_session(top: Path) -> None:
    fake = FakeChild(ECHO)
    async with rig({"files": remote("files", eager=True)}, {"files": fake}) as at:
        for capabilities in ({}, ROOTS):
            session = Session(at.services, at.tasks, principal="alice")
            session.greeted(Client("modern", "2026-07-28", capabilities, {}))
            session.opened()
            session.roots.given({"roots": [{"uri": (top / "a").as_uri()}]})
            await all_tasks_blocked()
        assert fake.links == []


async def test_other_roots_of_the_operator_reach_children_in_use(top: Path) -> None:
    fake, spec = FakeChild(), remote("files")
    operator = OperatorRoots(fallback=roots_at(top / "a"), fallback_source="config")
    async with rig({"files": spec}, {"files": fake}, operator=operator) as at:
        alice = at.client()
        await started(at, alice, spec)
        (slot,) = alice.session.slots
        other = roots_at(top / "b")
        at.services.operator.take(replace(operator, fallback=other))
        await all_tasks_blocked()
        assert slot.key.roots == other
        alice.session.close()
        at.services.operator.take(operator)
        await all_tasks_blocked()
        assert slot.key.roots == other


async def test_a_client_that_is_asked_for_roots_gets_no_child_for_the_fallback(top: Path) -> None:
    """Its answer is on the way, and decides which child it needs."""
    fake, spec = FakeChild(), remote("files", eager=True)
    operator = OperatorRoots(fallback=roots_at(top / "a"), fallback_source="config")
    async with rig({"files": spec}, {"files": fake}, operator=operator) as at:
        silent = at.client(top / "b")
        silent.answers.clear()
        silent.session.roots.reachable()
        Session(at.services, at.tasks, principal="nobody yet")
        at.services.operator.take(replace(operator, fallback=roots_at(top)))
        await all_tasks_blocked()
        assert fake.links == []


async def test_a_new_ceiling_counts_for_the_children_of_a_client_that_does_not_answer(
    top: Path,
) -> None:
    spec = launched("files", "${roots}", share="roots")
    async with rig({"files": spec}, {"files": FakeChild(ECHO)}) as at:
        client = at.client(top / "a", top / "b")
        await started(at, client, spec)
        client.answers["roots/list"] = SILENT
        client.session.roots.list_changed()
        at.services.operator.take(OperatorRoots(ceiling=roots_at(top / "a")))
        await all_tasks_blocked()
        (slot,) = client.session.slots
        assert slot.key.roots.paths == (str(top / "a"),)
