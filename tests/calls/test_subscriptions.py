from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from hub.calls.subscriptions import MAX_SUBSCRIPTIONS, MAX_URI, Subscriptions
from hub.errors import RouteError
from hub.jsonrpc.errors import RpcError
from hub.jsonrpc.messages import Notification
from hub.protocol.constants import INTERNAL_ERROR, INVALID_PARAMS, RESOURCE_NOT_FOUND
from hub.values import Json, ServerName
from tests.kit.fakes import SILENT, FakeChild, failure
from tests.kit.loops import all_tasks_blocked
from tests.kit.rigs import Rig, RigClient, launched, remote, rig
from tests.kit.trees import plant

SUBSCRIBE, UNSUBSCRIBE = "resources/subscribe", "resources/unsubscribe"
UPDATED = "notifications/resources/updated"


def noting(*uris: str) -> FakeChild:
    """Return a child with resources."""
    resources: list[Json] = [{"uri": uri, "name": uri} for uri in (uris or ("note://1",))]
    return FakeChild(
        answers={"resources/list": {"resources": resources}, SUBSCRIBE: {}, UNSUBSCRIBE: {}},
        capabilities={"resources": {"subscribe": True}},
    )


def of(at: Rig, client: RigClient) -> Subscriptions:
    return Subscriptions(at.relay, client.session, client.outlet)


async def subscribe(made: Subscriptions, client: RigClient, uri: str = "note://1") -> None:
    await made.subscribe(client.asked_for(SUBSCRIBE, {"uri": uri}))


async def test_a_subscription_is_told_of_under_the_clients_own_name() -> None:
    async with rig({"files": remote()}, {"files": noting()}) as at:
        client = at.client()
        made = of(at, client)
        await subscribe(made, client)
        await client.session.told(remote(), Notification(UPDATED, {"uri": "note://1"}))
        await client.session.notifier.send_queue.flush()
        assert len(client.outlet.notified(UPDATED)) == 1
        await made.unsubscribe("note://1")
        assert client.session.notifier.subscriptions == {}
        with pytest.raises(RouteError, match="No subscription to resource: note://1"):
            await made.unsubscribe("note://1")


async def test_a_subscription_to_nothing_is_the_clients_mistake() -> None:
    fakes = {"a": FakeChild(), "b": FakeChild()}
    async with rig({name: remote(name) for name in fakes}, fakes) as at:
        client = at.client()
        with pytest.raises(RouteError, match="Unknown resource: note://1"):
            await subscribe(of(at, client), client)


async def test_a_subscription_at_a_child_that_is_gone_can_be_ended() -> None:
    async with rig({"files": remote()}, {"files": noting()}) as at:
        client = at.client()
        client.session.notifier.subscriptions[remote().name, "x"] = "x"
        assert await of(at, client).unsubscribe("x") == {}


def fill_up(client: RigClient, *, free: int) -> None:
    """Give a client as many subscriptions, at another server, as leave `free` places."""
    for number in range(MAX_SUBSCRIPTIONS - free):
        client.session.notifier.subscriptions[ServerName("other"), f"{number}"] = f"{number}"


async def test_a_session_has_so_many_subscriptions_and_a_place_can_be_used_again() -> None:
    fake = noting("note://1", "note://2", "note://3")
    async with rig({"files": remote()}, {"files": fake}) as at:
        alice, bob = at.client(), at.client()
        made = of(at, alice)
        fill_up(alice, free=2)
        for uri in ("note://1", "note://2", "note://2"):
            await subscribe(made, alice, uri)
        with pytest.raises(RpcError, match="unsubscribe from one first"):
            await subscribe(made, alice, "note://3")
        assert len(fake.link.requests(SUBSCRIBE)) == 3
        await subscribe(of(at, bob), bob, "note://3")
        await made.unsubscribe("note://1")
        await subscribe(made, alice, "note://3")
        held = list(alice.session.notifier.subscriptions.values())
        assert (len(held), held[-2:]) == (MAX_SUBSCRIPTIONS, ["note://2", "note://3"])


async def test_a_resource_under_other_spellings_is_one_subscription() -> None:
    async with rig({"files": remote()}, {"files": noting()}) as at:
        client = at.client()
        made = of(at, client)
        spellings = ["note://1", "hub+files://note%3A%2F%2F1", "hub+files://note%3a%2f%2f%31"]
        for uri in spellings:
            await subscribe(made, client, uri)
        assert [*client.session.notifier.subscriptions.values()] == spellings[-1:]
        assert len(vars(made)["_granted"]) == 1, "a client can spell it in ever new ways"
        await made.unsubscribe(spellings[-1])
        assert not vars(made)["_granted"]


async def test_what_is_kept_of_a_subscription_is_not_long() -> None:
    long = "note://" + "x" * MAX_URI
    async with rig({"files": remote()}, {"files": noting(long)}) as at:
        client = at.client()
        with pytest.raises(RpcError, match="a URI of over"):
            await subscribe(of(at, client), client, long)


async def test_those_that_are_under_way_count() -> None:
    fake = noting("note://1", "note://2", "note://3")
    async with rig({"files": remote()}, {"files": fake}) as at:
        client = at.client()
        made = of(at, client)
        fill_up(client, free=2)

        async def try_to(uri: str) -> None:
            with suppress(RpcError):
                await subscribe(made, client, uri)

        fake.answers[SUBSCRIBE] = SILENT
        for uri in ("note://1", "note://2"):
            at.tasks.start_soon(try_to, uri)
        await all_tasks_blocked()
        with pytest.raises(RpcError, match="unsubscribe from one first"):
            await subscribe(made, client, "note://3")
        first, second = fake.link.requests(SUBSCRIBE)
        fake.link.answer(first["id"], {})
        fake.link.answer(second["id"], failure(INTERNAL_ERROR, "not now"))
        await all_tasks_blocked()
        fake.answers[SUBSCRIBE] = {}
        await subscribe(made, client, "note://3")
        assert len(client.session.notifier.subscriptions) == MAX_SUBSCRIPTIONS


async def test_one_clients_end_is_not_the_others() -> None:
    fake = noting()
    async with rig({"files": remote()}, {"files": fake}) as at:
        alice, bob = at.client(), at.client()
        of_alice, of_bob = of(at, alice), of(at, bob)
        await subscribe(of_alice, alice)
        await subscribe(of_bob, bob)
        assert len(fake.links) == 1
        await of_bob.unsubscribe("note://1")
        assert fake.link.requests(UNSUBSCRIBE) == []
        await of_alice.unsubscribe("note://1")
        assert len(fake.link.requests(UNSUBSCRIBE)) == 1


async def test_one_clients_end_is_not_the_end_of_what_another_begins() -> None:
    fake = noting()
    async with rig({"files": remote()}, {"files": fake}) as at:
        alice, bob = at.client(), at.client()
        of_alice, of_bob = of(at, alice), of(at, bob)
        await subscribe(of_alice, alice)
        fake.answers[SUBSCRIBE] = SILENT
        at.tasks.start_soon(subscribe, of_bob, bob)
        asked = await fake.link.request(SUBSCRIBE, nth=2)
        await of_alice.unsubscribe("note://1")
        fake.link.answer(asked["id"], {})
        await all_tasks_blocked()
        assert fake.link.requests(UNSUBSCRIBE) == []
        await of_bob.unsubscribe("note://1")
        assert len(fake.link.requests(UNSUBSCRIBE)) == 1


async def test_what_the_child_refuses_one_client_is_ended_for_another_that_left_meanwhile() -> None:
    fake = noting()
    async with rig({"files": remote()}, {"files": fake}) as at:
        alice, bob = at.client(), at.client()
        of_alice = of(at, alice)
        await subscribe(of_alice, alice)
        fake.answers[SUBSCRIBE] = SILENT

        async def refused() -> None:
            with pytest.raises(RpcError, match="not now"):
                await subscribe(of(at, bob), bob)

        at.tasks.start_soon(refused)
        asked = await fake.link.request(SUBSCRIBE, nth=2)
        await of_alice.unsubscribe("note://1")
        assert fake.link.requests(UNSUBSCRIBE) == []
        fake.link.answer(asked["id"], failure(INTERNAL_ERROR, "not now"))
        await all_tasks_blocked()
        assert len(fake.link.requests(UNSUBSCRIBE)) == 1


async def test_a_subscription_that_the_child_refuses_keeps_no_other_from_its_end() -> None:
    fake = noting()
    async with rig({"files": remote()}, {"files": fake}) as at:
        alice, bob = at.client(), at.client()
        of_alice = of(at, alice)
        await subscribe(of_alice, alice)
        fake.answers[SUBSCRIBE] = failure(INTERNAL_ERROR, "not now")
        with pytest.raises(RpcError, match="not now"):
            await subscribe(of(at, bob), bob)
        with pytest.raises(RpcError, match="not now"):
            await subscribe(of_alice, alice)
        assert fake.link.requests(UNSUBSCRIBE) == []
        await of_alice.unsubscribe("note://1")
        assert len(fake.link.requests(UNSUBSCRIBE)) == 1


async def test_who_leaves_ends_what_nobody_else_wants() -> None:
    fake = noting("note://1", "note://2")
    async with rig({"files": remote()}, {"files": fake}) as at:
        alice, bob = at.client(), at.client()
        of_alice = of(at, alice)
        await subscribe(of_alice, alice, "note://1")
        await subscribe(of_alice, alice, "note://2")
        await subscribe(of(at, bob), bob, "note://1")
        alice.session.close()
        asked = await fake.link.request(UNSUBSCRIBE)
        assert asked["params"] == {"uri": "note://2"}
        await all_tasks_blocked()
        assert len(fake.link.requests(UNSUBSCRIBE)) == 1


async def test_subscriptions_are_made_again_at_a_child_that_was_started_again() -> None:
    fake = noting()
    async with rig({"files": remote()}, {"files": fake}) as at:
        alice, bob = at.client(), at.client()
        for client in (alice, bob):
            await subscribe(of(at, client), client)
        fake.link.crash()
        await fake.ended()
        await at.services.children.obtain(next(iter(alice.session.slots)))
        again = await fake.connected(2)
        await again.request(SUBSCRIBE, nth=2)
        first, second = (link.requests(SUBSCRIBE) for link in fake.links)
        assert {one["params"]["uri"] for one in second} == {one["params"]["uri"] for one in first}


async def test_a_uri_that_leads_to_another_server_by_now_is_one_subscription() -> None:
    fakes = {"a": noting(), "b": noting()}
    fakes["b"].answers["resources/list"] = {"resources": []}
    specs = {name: remote(name) for name in fakes}
    async with rig(specs, fakes, names="never") as at:
        client = at.client()
        made = of(at, client)
        await subscribe(made, client)
        slots = {str(slot.spec.name): slot for slot in client.session.slots}
        nothing, listed = (fakes[name].answers["resources/list"] for name in "ba")
        for name, resources in (("b", listed), ("a", nothing)):
            fakes[name].answers["resources/list"] = resources
            fakes[name].link.crash()
            await fakes[name].ended()
            await at.services.children.obtain(slots[name])
        await fakes["b"].link.request(SUBSCRIBE)
        await all_tasks_blocked()
        assert client.session.notifier.subscriptions == {(specs["b"].name, "note://1"): "note://1"}
        assert len(vars(made)["_granted"]) == 1


async def test_what_is_ended_while_it_is_made_again_stays_ended() -> None:
    fake = noting()
    async with rig({"files": remote()}, {"files": fake}) as at:
        client = at.client()
        made = of(at, client)
        await subscribe(made, client)
        fake.link.crash()
        await fake.ended()
        fake.answers[SUBSCRIBE] = SILENT
        await at.services.children.obtain(next(iter(client.session.slots)))
        again = await fake.connected(2)
        asked = await again.request(SUBSCRIBE)
        await made.unsubscribe("note://1")
        before = len(again.requests(UNSUBSCRIBE))
        again.answer(asked["id"], {})
        await all_tasks_blocked()
        assert client.session.notifier.subscriptions == {}
        # The child took it after it was ended.
        assert len(again.requests(UNSUBSCRIBE)) == before + 1


async def test_a_session_that_closes_meanwhile_leases_no_children_again() -> None:
    files, slow = noting(), FakeChild(answers={"initialize": SILENT})
    files.answers["resources/templates/list"] = {
        "resourceTemplates": [{"uriTemplate": "memo://{id}", "name": "memo"}]
    }
    fakes = {"files": files, "slow": slow}
    async with rig({name: remote(name, share="session") for name in fakes}, fakes) as at:
        client = at.client()
        of(at, client)
        await client.session.effective(client.outlet)
        spec = at.services.servers[ServerName("files")]
        slot = client.session.slot_for(spec, client.session.known_effective())
        client.session.notifier.subscriptions[spec.name, "memo://1"] = "memo://1"
        await at.services.children.obtain(slot)  # its subscriptions are made again
        link = await slow.connected()
        asked = await link.request("initialize")
        client.session.close()
        link.answer(asked["id"], {})
        await all_tasks_blocked()
        assert at.services.children.running_slots() == []


async def test_a_subscription_is_made_at_the_child_that_took_the_place_of_the_one_asked(
    tmp_path: Path,
) -> None:
    top = plant(tmp_path, "a/", "b/")
    fake = noting()
    async with rig({"files": launched("files", "${roots}")}, {"files": fake}) as at:
        client = at.client(top / "a")
        made = of(at, client)
        fake.answers[SUBSCRIBE] = SILENT
        at.tasks.start_soon(subscribe, made, client)
        old = await fake.connected()
        asked = await old.request(SUBSCRIBE)
        client.shares(top / "b")
        client.session.roots.list_changed()
        new = await fake.connected(2)
        await all_tasks_blocked()
        fake.answers[SUBSCRIBE] = {}
        old.answer(asked["id"], {})
        assert (await new.request(SUBSCRIBE))["params"] == {"uri": "note://1"}
        await old.request(UNSUBSCRIBE)
        await all_tasks_blocked()
        await made.unsubscribe("note://1")
        assert (len(new.requests(SUBSCRIBE)), len(new.requests(UNSUBSCRIBE))) == (1, 1)


async def test_under_other_roots_a_subscription_is_judged_again(tmp_path: Path) -> None:
    top = plant(tmp_path, "a/f", "b/g")
    inside, outside = f"file://{top}/a/f", "note://1"
    fake = noting(inside, outside)
    async with rig({"files": remote()}, {"files": fake}) as at:
        client = at.client(top / "a")
        made = of(at, client)
        for uri in (inside, outside):
            await subscribe(made, client, uri)
        client.shares(top / "b")
        client.session.roots.list_changed()
        await fake.link.request(UNSUBSCRIBE)
        await all_tasks_blocked()
        assert list(client.session.notifier.subscriptions.values()) == [outside]
        assert fake.link.requests(UNSUBSCRIBE)[0]["params"] == {"uri": inside}


async def test_a_subscription_that_is_under_way_while_the_roots_change_is_judged_again(
    tmp_path: Path,
) -> None:
    top = plant(tmp_path, "a/f", "b/g")
    fake = noting(f"file://{top}/a/f")
    async with rig({"files": remote()}, {"files": fake}) as at:
        client = at.client(top / "a")
        fake.answers[SUBSCRIBE] = SILENT
        at.tasks.start_soon(subscribe, of(at, client), client, f"file://{top}/a/f")
        asked = await (await fake.connected()).request(SUBSCRIBE)
        client.shares(top / "b")
        client.session.roots.list_changed()
        await client.session.effective(client.outlet)  # which are known then
        await all_tasks_blocked()
        fake.answers[SUBSCRIBE] = {}
        fake.link.answer(asked["id"], {})
        await all_tasks_blocked()
        assert client.session.notifier.subscriptions == {}
        assert len(fake.link.requests(UNSUBSCRIBE)) == 1


async def test_a_subscription_that_is_judged_again_before_it_is_sent_is_not_ended(
    tmp_path: Path,
) -> None:
    top = plant(tmp_path, "a/", "b/")
    fake = noting("note://1", "note://2")
    async with rig({"files": remote(concurrency=1)}, {"files": fake}) as at:
        client = at.client(top / "a")
        made = of(at, client)
        fake.answers[SUBSCRIBE] = SILENT
        at.tasks.start_soon(subscribe, of(at, client), client, "note://2")
        asked = await (await fake.connected()).request(SUBSCRIBE)
        at.tasks.start_soon(subscribe, made, client)
        await all_tasks_blocked()
        client.shares(top / "b")
        client.session.roots.list_changed()
        await client.session.effective(client.outlet)
        await all_tasks_blocked()
        fake.answers[SUBSCRIBE] = {}
        fake.link.answer(asked["id"], {})
        await all_tasks_blocked()
        sent = [one["method"] for one in fake.link.seen if "note://1" in str(one)]
        assert sent == [SUBSCRIBE]


async def test_a_child_that_does_not_take_it_again_is_asked_once_more_later() -> None:
    fake = noting()
    async with rig({"files": remote()}, {"files": fake}) as at:
        client = at.client()
        made = of(at, client)
        await subscribe(made, client)
        fake.link.crash()
        await fake.ended()
        fake.answers[SUBSCRIBE] = failure(INTERNAL_ERROR, "not now")
        await at.services.children.obtain(next(iter(client.session.slots)))
        await fake.link.request(SUBSCRIBE)
        await all_tasks_blocked()
        assert list(client.session.notifier.subscriptions.values()) == ["note://1"]
        fake.answers[SUBSCRIBE] = {}
        await made.renew(remote().name)
        await made.renew(remote().name)
        assert len(fake.link.requests(SUBSCRIBE)) == 2


@pytest.mark.parametrize("code", [INVALID_PARAMS, RESOURCE_NOT_FOUND])
async def test_a_child_that_has_the_resource_no_more_is_not_asked_again(code: int) -> None:
    fake = noting()
    async with rig({"files": remote()}, {"files": fake}) as at:
        client = at.client()
        await subscribe(of(at, client), client)
        fake.link.crash()
        await fake.ended()
        fake.answers[SUBSCRIBE] = failure(code, "no such resource")
        await at.services.children.obtain(next(iter(client.session.slots)))
        await fake.link.request(SUBSCRIBE)
        await all_tasks_blocked()
        assert client.session.notifier.subscriptions == {}
