from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from hub.catalog.merge import Listing
from hub.children.child import Child
from hub.children.circuit_breaker import PAUSE
from hub.children.concurrency import MOST_STARTS, START_HOLDS
from hub.children.known.cache import CatalogCache
from hub.children.pool import ChildPool
from hub.children.slot import ChildKey, ChildSlot, ClientOfKey, key_of
from hub.errors import ChildError
from hub.jsonrpc.errors import RpcError
from hub.launch.plan import LaunchPlan, LaunchTemplate, plan
from hub.paths.resolve import Flavour
from hub.roots.roots import EMPTY, RootSet
from hub.specs import RemoteLogin, RemoteTarget, ServerSpec
from hub.system.private_file import CacheFiles
from hub.values import ServerName, SessionKey
from tests.kit.child_calls import LinedUp, call, in_flight
from tests.kit.fakes import (
    ECHO,
    READ,
    SILENT,
    FakeChild,
    FakeClock,
    FakeLink,
    RecordingAsker,
    RecordingLessee,
    failure,
)
from tests.kit.loops import all_tasks_blocked, virtual_time
from tests.kit.rigs import INFO, admitted, launched, remote, roots_at

pytestmark = virtual_time

ALICE, BOB = SessionKey("alice's"), SessionKey("bob's")
SPEC = remote(start_timeout=5.0, timeout=5.0, idle_stop=600.0)


class Home:
    """Children of one fake server."""

    def __init__(
        self, fake: FakeChild, clock: FakeClock, max_children: int, max_per_session: int | None
    ) -> None:
        self.fake = fake
        self.clock = clock
        self.children = ChildPool(
            open_child=fake.opened,
            info=INFO,
            flavour=Flavour.POSIX,
            max_children=max_children,
            max_per_session=max_per_session,
            clock=clock,
            chance=lambda: 0.0,
            kept_listings=1,
        )

    def lease(
        self,
        session: SessionKey = ALICE,
        spec: ServerSpec = SPEC,
        roots: RootSet = EMPTY,
        *,
        planned: LaunchPlan | None = None,
        principal: str = "",
    ) -> ChildSlot:
        key = key_of(spec, planned, roots, ClientOfKey(session, session, principal, {}))
        return self.children.lease(spec, key, session, RecordingLessee())

    async def failure_of(self, slot: ChildSlot) -> str:
        with pytest.raises(ChildError) as caught:
            await self.children.obtain(slot)
        return str(caught.value)


@asynccontextmanager
async def home(
    fake: FakeChild | None = None, *, max_children: int = 64, max_per_session: int | None = None
) -> AsyncGenerator[Home]:
    made = Home(fake or FakeChild(ECHO), FakeClock(), max_children, max_per_session)
    with anyio.fail_after(20):
        async with made.children.running():
            yield made


def plan_at(*directories: object) -> LaunchPlan:
    target = launched().target
    assert isinstance(target, LaunchTemplate)
    return plan(target, roots_at(*directories), {})


async def test_nothing_is_started_before_it_is_needed() -> None:
    async with home() as at:
        slot = at.lease()
        assert (slot.state, slot.listing, at.fake.links) == ("idle", None, [])
        child = await at.children.obtain(slot)
        assert slot.state == "ready"
        assert slot.listing == Listing(tools=(ECHO,))
        assert at.children.known.last(slot) == slot.listing
        assert slot.child is child


async def test_a_child_does_not_run_in_the_context_of_the_client_that_starts_it() -> None:
    client: ContextVar[str] = ContextVar("client", default="nobody")
    found: list[str] = []

    class NotingChild(FakeChild):
        def opened(
            self, spec: ServerSpec, plan: LaunchPlan | None
        ) -> AbstractAsyncContextManager[FakeLink]:
            found.append(client.get())
            return super().opened(spec, plan)

    client.set("alice")
    async with home(NotingChild(ECHO)) as at:
        await at.children.obtain(at.lease())
    assert found == ["nobody"]


async def test_however_many_ask_at_once_a_child_is_started_once() -> None:
    fake = FakeChild(ECHO, answers={"initialize": SILENT})
    obtained: list[Child] = []
    async with home(fake) as at:
        slot = at.lease()
        fake.answers["initialize"] = FakeChild().answers["initialize"]

        async def obtain() -> None:
            obtained.append(await at.children.obtain(slot))

        async with anyio.create_task_group() as tasks:
            for _ in range(20):
                tasks.start_soon(obtain)
        assert len(fake.links) == 1
        assert set(obtained) == {slot.child}
        assert len(obtained) == 20


async def test_equal_keys_share_a_child_and_different_ones_do_not(tmp_path: object) -> None:
    async with home() as at:
        first, second = at.lease(ALICE), at.lease(BOB)
        assert first is second
        assert at.lease(BOB, roots=roots_at(tmp_path)) is not first
        assert at.lease(BOB, principal="somebody else") is not first
        assert at.lease(BOB, planned=plan_at(tmp_path)) is not first


async def test_an_unused_child_is_kept_for_a_while_and_then_ended() -> None:
    async with home() as at:
        slot = at.lease()
        await at.children.obtain(slot)
        at.children.release(slot, ALICE)
        at.clock.advance(599)
        at.children._end_if_unused(slot)  # pyright: ignore[reportPrivateUsage] - what the sweep does
        assert slot.is_kept
        at.clock.advance(1)
        with capture_logs() as logs:
            at.children._end_if_unused(slot)  # pyright: ignore[reportPrivateUsage] - what the sweep does
        await at.fake.ended()
        assert at.lease() is not slot
        assert [(one["event"], one["why"]) for one in logs] == [("ended", "nobody uses it")]


async def test_the_time_without_use_begins_with_the_last_calls_end() -> None:
    async with home() as at:
        slot = at.lease()
        await at.children.obtain(slot)
        at.children.release(slot, ALICE)
        at.clock.advance(300)
        slot.used_at = at.clock()
        at.clock.advance(599)
        at.children._end_if_unused(slot)  # pyright: ignore[reportPrivateUsage] - what the sweep does
        assert slot.is_kept
        at.clock.advance(1)
        at.children._end_if_unused(slot)  # pyright: ignore[reportPrivateUsage] - what the sweep does
        await at.fake.ended()


async def test_an_unused_child_is_kept_while_a_call_waits_until_it_may_ask() -> None:
    async with home() as at:
        slot = at.lease()
        child = await at.children.obtain(slot)
        at.children.release(slot, ALICE)
        child.answers.line.is_active = True
        given_up, one = RecordingAsker("a"), LinedUp("b", "unknown")
        child.answers.begin(given_up, admitted("unknown").call)
        child.answers.end(given_up, is_answered=False)
        assert not child.answers.line.admits(one)
        at.clock.advance(600)
        at.children._end_if_unused(slot)  # pyright: ignore[reportPrivateUsage] - what the sweep does
        assert slot.is_kept
        child.answers.line.step_out(one)
        at.children._end_if_unused(slot)  # pyright: ignore[reportPrivateUsage] - what the sweep does
        await at.fake.ended()


async def test_the_sweep_ends_what_is_unused() -> None:
    async with home() as at:
        slot = at.lease(spec=replace(SPEC, idle_stop=0.0))
        await at.children.obtain(slot)
        at.children.release(slot, ALICE)
        await at.fake.ended()
        assert not slot.is_kept


async def test_a_child_that_is_leased_again_is_not_ended() -> None:
    async with home() as at:
        slot = at.lease()
        child = await at.children.obtain(slot)
        at.children.release(slot, ALICE)
        at.clock.advance(599)
        assert at.lease(BOB) is slot
        at.clock.advance(10_000)
        at.children._end_if_unused(slot)  # pyright: ignore[reportPrivateUsage] - what the sweep does
        assert await at.children.obtain(slot) is child


async def test_a_child_that_somebody_else_uses_is_not_ended() -> None:
    async with home() as at:
        slot = at.lease(ALICE)
        at.lease(BOB)
        await at.children.obtain(slot)
        at.children.release(slot, ALICE, at_once=True)
        assert slot.unused_since is None
        assert slot.is_kept
        at.children.release(slot, BOB, at_once=True)
        await at.fake.ended()


async def test_a_place_that_was_never_used_is_forgotten() -> None:
    async with home() as at:
        slot = at.lease()
        at.children.release(slot, ALICE, at_once=True)
        assert at.lease() is not slot


async def test_calls_in_progress_finish_on_a_released_child() -> None:
    fake = FakeChild(ECHO, answers={"tools/call": SILENT})
    results: list[object] = []
    async with home(fake) as at:
        slot = at.lease()
        child = await at.children.obtain(slot)

        async def calling() -> None:
            results.append(await call(child, admitted(), RecordingAsker()))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(calling)
            asked = await fake.link.request("tools/call")
            at.children.release(slot, ALICE, at_once=True)
            assert fake.closed == 0
            fake.link.answer(asked["id"], {})
        assert len(results) == 1
        await fake.ended()


async def test_a_failed_child_is_started_again_by_the_next_call() -> None:
    async with home() as at:
        slot = at.lease()
        first = await at.children.obtain(slot)
        at.fake.link.crash()
        await at.fake.ended()
        assert slot.state == "down"
        at.clock.advance(PAUSE)
        second = await at.children.obtain(slot)
        assert second is not first
        assert len(at.fake.links) == 2


async def test_a_child_that_does_not_start_is_not_started_at_once_again() -> None:
    async with home(FakeChild(answers={"initialize": failure(-1, "broken")})) as at:
        slot = at.lease()
        assert "broken" in await at.failure_of(slot)
        await at.fake.ended()
        at.clock.advance(0.25)
        text = await at.failure_of(slot)
        assert text == ("server 'files' is not running: broken; it can be started again in 0.8 s")
        assert len(at.fake.links) == 1
        at.clock.advance(0.75)
        at.fake.answers = FakeChild(READ).answers
        await at.children.obtain(slot)
        assert at.children.known.last(slot) == Listing(tools=(READ,))


async def test_a_child_is_started_again_only_when_nothing_is_left_of_the_last_one() -> None:
    fake = FakeChild(ECHO, answers={"initialize": failure(-1, "broken")})
    fake.may_close = may_close = anyio.Event()
    async with home(fake) as at:
        slot = at.lease(planned=plan_at())
        assert "broken" in await at.failure_of(slot)
        fake.answers = FakeChild(ECHO).answers
        at.clock.advance(PAUSE)
        async with anyio.create_task_group() as calls:
            calls.start_soon(at.children.obtain, slot)
            await all_tasks_blocked()
            assert len(fake.links) == 1
            may_close.set()
        assert (slot.state, len(fake.links)) == ("ready", 2)


async def test_there_are_no_more_children_than_the_operator_wants() -> None:
    fake = FakeChild(ECHO, answers={"tools/call": SILENT})
    async with home(fake, max_children=2) as at:
        slots = [at.lease(SessionKey(str(n)), principal=str(n)) for n in range(3)]
        async with anyio.create_task_group() as calls:
            for number, slot in enumerate(slots[:2]):
                child = await at.children.obtain(slot)
                calls.start_soon(call, child, admitted(), RecordingAsker())
                await fake.links[number].request("tools/call")
            text = await at.failure_of(slots[2])
            assert text.startswith("server 'files' is not started: 2 children run already")
            assert "all start or serve calls (max_children: 2)" in text
            asked = fake.links[0].requests("tools/call")[0]
            fake.links[0].answer(asked["id"], {})
            await all_tasks_blocked()
            await at.children.obtain(slots[2])
            assert [slot.state for slot in slots] == ["idle", "ready", "ready"]
            calls.cancel_scope.cancel()


async def test_an_unused_child_makes_room_the_least_recently_used_first() -> None:
    async with home(max_children=2) as at:
        slots = [at.lease(SessionKey(str(n)), principal=str(n)) for n in range(3)]
        for number in (1, 0):
            await at.children.obtain(slots[number])
            at.children.release(slots[number], SessionKey(str(number)))
            at.clock.advance(1)
        await at.children.obtain(slots[2])
        await at.fake.ended()
        assert [slot.state for slot in (slots[0], slots[2])] == ["ready", "ready"]
        assert at.lease(SessionKey("0"), principal="0") is slots[0]
        assert at.lease(SessionKey("1"), principal="1") is not slots[1]


async def test_a_leased_idle_child_makes_room_last_and_is_started_again() -> None:
    async with home(max_children=2) as at:
        held, nobodys, new = (at.lease(SessionKey(n), principal=n) for n in "abc")
        await at.children.obtain(held)
        at.clock.advance(1)
        await at.children.obtain(nobodys)
        at.children.release(nobodys, SessionKey("b"))
        await at.children.obtain(new)
        await at.fake.ended()
        assert [slot.state for slot in (held, nobodys, new)] == ["ready", "down", "ready"]
        at.clock.advance(1)
        other = at.lease(SessionKey("d"), principal="d")
        await at.children.obtain(other)
        await at.fake.ended(2)
        assert at.lease(SessionKey("a"), principal="a") is held
        assert held.state == "idle"
        at.clock.advance(1)
        await at.children.obtain(held)
        assert held.state == "ready"


async def test_a_child_that_never_starts_is_tried_ever_more_seldom() -> None:
    async with home(FakeChild(answers={"initialize": failure(-1, "broken")})) as at:
        slot = at.lease()
        for number, pause in enumerate((1, 2, 4, 8, 16, 32, 60, 60), 1):
            assert "broken" in await at.failure_of(slot)
            await at.fake.ended(number)
            assert f"in {pause:.1f} s" in await at.failure_of(slot)
            at.clock.advance(pause)
        at.fake.answers = FakeChild(READ).answers
        await at.children.obtain(slot)
        assert slot.health.breaker == "half-open"
        with slot.health.trying():
            pass
        at.fake.link.crash()
        await at.fake.ended(9)
        assert slot.health.failures == 1
        await at.children.obtain(slot)


async def test_a_child_that_crashes_again_and_again_is_tried_by_one_call_at_a_time() -> None:
    async with home() as at:
        slot = at.lease()
        for number, pause in enumerate((0, 1, 2), 1):
            await at.children.obtain(slot)
            at.fake.link.crash("exited with code 7")
            await at.fake.ended(number)
            if number < 3:
                at.clock.advance(pause)
        text = await at.failure_of(slot)
        assert text == (
            "server 'files' is not running: exited with code 7; "
            "after 3 failures in a row, one call may try it again in 2.0 s"
        )
        assert (slot.health.breaker, slot.health.retry_at) == ("open", at.clock.now + 2)
        at.clock.advance(2)
        with slot.health.trying():
            await at.children.obtain(slot)
            with (
                pytest.raises(ChildError, match="one call is testing whether it works again"),
                slot.health.trying(),
            ):
                pass
        assert slot.health.breaker == "closed"


async def test_a_launch_that_fails_for_one_clients_roots_keeps_no_others_child_from_starting(
    tmp_path: object,
) -> None:
    async with home() as at:
        slot = at.lease(ALICE, launched(), roots_at(tmp_path), planned=plan_at(tmp_path))
        at.fake.refuses_to_open = ChildError("it cannot start: Argument list too long")
        for pause in (1, 2, 4):
            assert "too long" in await at.failure_of(slot)
            at.clock.advance(pause)
        assert slot.health.breaker == "open"
        at.fake.refuses_to_open = None
        other = at.lease(BOB, launched(), roots_at("/srv"), planned=plan_at("/srv"))
        assert other.health.breaker == "closed"
        await at.children.obtain(other)


async def test_one_session_has_no_more_children_than_the_operator_wants(tmp_path: object) -> None:
    fake = FakeChild(ECHO, answers={"tools/call": SILENT})
    async with home(fake, max_per_session=1) as at:
        old, new = at.lease(), at.lease(roots=roots_at(tmp_path))
        async with anyio.create_task_group() as calls:
            child = await at.children.obtain(old)
            calls.start_soon(call, child, admitted(), RecordingAsker(ALICE))
            await fake.link.request("tools/call")
            at.children.release(old, ALICE, at_once=True)
            assert await at.failure_of(new) == (
                "server 'files' is not started: this session uses 1 children already, "
                "and all start or serve calls (max_children_per_session: 1)"
            )
            await at.children.obtain(at.lease(BOB, principal="bob"))
            calls.cancel_scope.cancel()
        await at.children.obtain(new)


async def test_a_session_makes_room_with_what_it_alone_uses(tmp_path: object) -> None:
    async with home(max_per_session=1) as at:
        shared, own = at.lease(), at.lease(roots=roots_at(tmp_path))
        at.lease(BOB)
        await at.children.obtain(shared)
        assert "max_children_per_session" in await at.failure_of(own)
        at.children.release(shared, BOB)
        await at.children.obtain(own)
        assert shared.state == "idle"


async def test_listings_are_remembered_for_the_same_roots_and_not_for_ever(
    tmp_path: object,
) -> None:
    async with home() as at:
        first, second = at.lease(), at.lease(roots=roots_at(tmp_path))
        assert at.children.known.last(first) is None
        await at.children.obtain(first)
        at.children.release(first, ALICE, at_once=True)
        await at.fake.ended()
        assert at.children.known.last(at.lease()) == Listing(tools=(ECHO,))
        assert at.children.known.last(second) is None
        await at.children.obtain(second)
        assert at.children.known.last(at.lease()) is None, "there was room for one"


async def test_a_place_that_was_given_up_starts_nothing() -> None:
    async with home() as at:
        slot = at.lease()
        at.children.release(slot, ALICE, at_once=True)
        assert (
            await at.failure_of(slot)
            == "server 'files' was stopped: its roots or its config have changed"
        )
        assert at.fake.links == []


async def test_the_trouble_of_a_child_is_the_reason_of_its_failure() -> None:
    async with home() as at:
        slot = at.lease()
        assert slot.trouble is None
        await at.children.obtain(slot)
        assert slot.trouble is None
        at.fake.link.crash("exited with code 9")
        await at.fake.ended()
        assert slot.trouble == "exited with code 9"


async def test_a_failed_child_does_not_count_against_the_limit() -> None:
    async with home(max_children=1) as at:
        first, second = at.lease(principal="a"), at.lease(principal="b")
        await at.children.obtain(first)
        at.fake.link.crash()
        await at.fake.ended()
        await at.children.obtain(second)
        assert at.children.running_slots() == [second]


async def test_all_children_end_with_the_hub_and_none_starts_after() -> None:
    async with home() as at:
        slot = at.lease()
        await at.children.obtain(slot)
        other = at.lease(principal="other")
    assert at.fake.closed == 1
    assert "the hub is shutting down" in await at.failure_of(other)


def with_roots(slot: ChildSlot, roots: RootSet) -> ChildKey:
    return replace(slot.key, roots=roots)


async def test_a_remote_child_of_one_session_gets_other_roots_in_place(tmp_path: object) -> None:
    first, second = roots_at(tmp_path), roots_at("/")
    async with home() as at:
        slot = at.lease(roots=first)
        assert at.children.move(slot, with_roots(slot, second)) is None
        assert (slot.key.roots, at.fake.links) == (second, [])
        await at.children.obtain(slot)
        assert at.children.move(slot, with_roots(slot, first)) is None
        await at.fake.link.request("notifications/roots/list_changed")
        assert at.lease(roots=first) is slot, "it is found under its new key"
        assert await at.children.obtain(slot) is slot.child


async def test_a_process_is_told_of_other_roots_in_place(tmp_path: Path) -> None:
    spec, first, second = launched(), roots_at(tmp_path), roots_at(tmp_path, "/")
    async with home() as at:
        slot = at.lease(spec=spec, roots=first, planned=plan_at(tmp_path))
        child = await at.children.obtain(slot)
        planned = plan_at(tmp_path, "/")
        assert at.children.move(slot, replace(slot.key, roots=second, plan=planned)) is None
        await at.fake.link.request("notifications/roots/list_changed")
        assert await at.children.obtain(slot) is child
        assert slot.plan == plan_at(tmp_path), "it still runs as it was launched"
        child.stop()
        await at.fake.ended()
        await at.children.obtain(slot)
        assert [link.plan for link in at.fake.links] == [plan_at(tmp_path), planned]


async def test_a_child_that_is_not_open_yet_is_launched_as_planned_before_its_key_changed(
    tmp_path: Path,
) -> None:
    spec, first, second = launched(), roots_at(tmp_path), roots_at(tmp_path, "/")
    async with home() as at:
        slot = at.lease(spec=spec, roots=first, planned=plan_at(tmp_path))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(at.children.obtain, slot)
            while slot.child is None:
                await anyio.lowlevel.checkpoint()
            key = replace(slot.key, roots=second, plan=plan_at(tmp_path, "/"))
            assert at.children.move(slot, key) is None
        assert [link.plan for link in at.fake.links] == [slot.plan] == [plan_at(tmp_path)]


async def test_the_child_of_a_modern_client_is_found_with_the_roots_of_its_next_request(
    tmp_path: Path,
) -> None:
    spec, request = launched(share="auto"), SessionKey("a request")

    def key(*paths: object) -> ChildKey:
        client = ClientOfKey(request, ALICE, "", {})
        return key_of(spec, plan_at(*paths), roots_at(*paths), client)

    async with home() as at:
        children = at.children
        children.hold(ALICE)
        slot = children.lease(spec, key(tmp_path), request, RecordingLessee())
        child = await children.obtain(slot)
        children.release(slot, request, at_once=True)
        assert children.lease(spec, key(tmp_path, "/"), request, RecordingLessee()) is slot
        assert await children.obtain(slot) is child, "its client is still connected"
        children.release(slot, request)
        children.let_go(ALICE)
        await at.fake.ended()


async def test_a_child_that_has_no_roots_or_shall_have_none_does_not(tmp_path: object) -> None:
    rooted = roots_at(tmp_path)
    async with home() as at:
        for before, after in ((EMPTY, rooted), (rooted, EMPTY)):
            slot = at.lease(roots=before)
            await at.children.obtain(slot)
            assert at.children.move(slot, with_roots(slot, after)) is not None
            assert slot.key.roots == before
            assert at.fake.link.requests("notifications/roots/list_changed") == []


async def test_a_child_keeps_its_roots_while_calls_of_others_are_under_way(
    tmp_path: Path,
) -> None:
    first, second = roots_at(tmp_path), roots_at("/")
    async with home() as at:
        slot = at.lease(roots=first)
        child = await at.children.obtain(slot)
        moved = with_roots(slot, second)
        with in_flight(child.answers, RecordingAsker("somebody else")):
            assert at.children.move(slot, moved) == "other clients use it, too"
        with in_flight(child.answers, RecordingAsker(ALICE)):
            assert at.children.move(slot, moved) is None


@pytest.mark.parametrize("why", ["idle", "shared", "taken"])
async def test_another_child_does_not(tmp_path: object, why: str) -> None:
    roots, others = roots_at(tmp_path), roots_at("/")
    async with home() as at:
        slot = at.lease(planned=plan_at(tmp_path) if why == "idle" else None, roots=roots)
        if why == "shared":
            at.lease(BOB, roots=roots)
        if why == "taken":
            at.lease(BOB, roots=others)
        assert at.children.move(slot, with_roots(slot, others)) is not None
        assert slot.key.roots == roots


@pytest.mark.parametrize(
    ("kind", "declares"),
    [
        ("remote, with roots", True),
        ("remote, without roots", False),
        ("remote, unanswered", False),
        ("launched, in a private directory", True),
        ("launched, in a directory of its own", False),
    ],
)
async def test_roots_are_declared_to_a_child_that_gets_some(
    tmp_path: Path, kind: str, declares: bool
) -> None:
    rooted, planned = roots_at(tmp_path), plan_at(tmp_path)
    spec, made, roots = {
        "remote, with roots": (SPEC, None, rooted),
        "remote, without roots": (SPEC, None, EMPTY),
        "remote, unanswered": (replace(SPEC, answer_roots=False), None, rooted),
        "launched, in a private directory": (SPEC, replace(planned, cwd=None), EMPTY),
        "launched, in a directory of its own": (SPEC, planned, EMPTY),
    }[kind]
    async with home() as at:
        await at.children.obtain(at.lease(spec=spec, planned=made, roots=roots))
        sent = (await at.fake.link.request("initialize"))["params"]
        assert sent["capabilities"] == ({"roots": {"listChanged": True}} if declares else {})
        assert sent["clientInfo"] == INFO


async def test_what_a_client_can_do_is_declared_to_its_child() -> None:
    async with home() as at:
        client = ClientOfKey(ALICE, ALICE, "", {"sampling": {"x": 1}})
        key = key_of(SPEC, None, EMPTY, client)
        await at.children.obtain(at.children.lease(SPEC, key, ALICE, RecordingLessee()))
        sent = (await at.fake.link.request("initialize"))["params"]
        assert sent["capabilities"] == {"sampling": {"x": 1}}


async def test_one_child_that_hangs_does_not_hold_up_another() -> None:
    fake = FakeChild(ECHO)
    async with home(fake) as at:
        hanging, well = at.lease(principal="a"), at.lease(principal="b")
        handshake = fake.answers["initialize"]
        fake.answers["initialize"] = SILENT
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(at.children.obtain, hanging)
            await (await fake.connected()).request("initialize")
            fake.answers["initialize"] = handshake
            await at.children.obtain(well)
            assert (hanging.state, well.state) == ("starting", "ready")
            tasks.cancel_scope.cancel()


async def test_an_error_that_a_child_answers_is_not_the_end_of_it() -> None:
    async with home(FakeChild(ECHO, answers={"tools/call": failure(-1, "no")})) as at:
        slot = at.lease()
        child = await at.children.obtain(slot)
        with pytest.raises(RpcError):
            await call(child, admitted(), RecordingAsker())
        assert await at.children.obtain(slot) is child


def far(**login: Any) -> ServerSpec:
    target = RemoteTarget("https://far.example.com/mcp", login=RemoteLogin(**login))
    return ServerSpec(ServerName("far"), target)


async def test_each_child_is_opened_with_the_login_of_its_own_principal() -> None:
    opened: list[RemoteLogin | None] = []

    class LoginRecorder(FakeChild):
        def opened(
            self, spec: ServerSpec, plan: LaunchPlan | None
        ) -> AbstractAsyncContextManager[FakeLink]:
            assert isinstance(spec.target, RemoteTarget)
            opened.append(spec.target.login)
            return super().opened(spec, plan)

    async with home(LoginRecorder(ECHO)) as at:
        at.children.login_page = lambda server, whose: f"https://hub/{server}/{whose}"
        for principal in ("anna", "staff\nbob", "local"):
            await at.children.obtain(at.lease(spec=far(), principal=principal))
        found = [(one.owner, one.page) for one in opened if one is not None]
        assert found == [
            ("anna", "https://hub/far/anna"),
            ("bob", "https://hub/far/bob"),
            ("", None),
        ]


async def test_a_child_that_all_share_gets_no_login_that_is_not_for_all() -> None:
    async with home() as at:
        slot = at.lease(spec=replace(far(), share="all"), principal="anna")
        assert "set servers.far.auth.shared" in await at.failure_of(slot)


async def test_a_login_lets_the_children_of_its_owner_alone_start_at_once() -> None:
    async with home() as at:
        at.fake.refuses_to_open = ChildError("nobody is logged in")
        slots = {name: at.lease(spec=far(), principal=name) for name in ("anna", "bob")}
        for slot in slots.values():
            assert "nobody is logged in" in await at.failure_of(slot)
        at.fake.refuses_to_open = None
        at.children.logged_in("https://far.example.com/mcp", "anna")
        await at.children.obtain(slots["anna"])
        assert "can be started again in" in await at.failure_of(slots["bob"])
        (user,) = slots["anna"].users.values()
        assert isinstance(user, RecordingLessee)
        assert "notifications/tools/list_changed" in {one.method for one in user.heard}
        (other,) = slots["bob"].users.values()
        assert isinstance(other, RecordingLessee)
        assert other.heard == []


class Threadless(CatalogCache):
    """A cache where no thread can be started."""

    async def write(self) -> None:
        raise RuntimeError("can't start new thread")


async def test_a_cache_that_cannot_be_written_ends_nothing_else(tmp_path: Path) -> None:
    fake = FakeChild()
    children = ChildPool(
        open_child=fake.opened,
        info=INFO,
        flavour=Flavour.POSIX,
        max_children=1,
        clock=FakeClock(),
        chance=lambda: 0.0,
        cache=Threadless(CacheFiles(tmp_path)),
    )
    key = key_of(SPEC, None, EMPTY, ClientOfKey(ALICE, ALICE, "", {}))
    with capture_logs() as logged:
        async with children.running():
            await all_tasks_blocked()
            assert await children.obtain(children.lease(SPEC, key, ALICE, RecordingLessee()))
    assert [one["task"] for one in logged if one["event"] == "a task failed"] == [
        "Threadless.write"
    ]


@asynccontextmanager
async def starting(
    count: int, made: Callable[[str], ServerSpec] = launched
) -> AsyncGenerator[tuple[Home, list[ChildSlot]]]:
    """Yield the slots of so many servers that all start, and do not answer."""
    fake = FakeChild(ECHO, answers={"initialize": SILENT})
    async with home(fake, max_children=count) as at, anyio.create_task_group() as tasks:
        planned = plan_at() if made is launched else None
        slots = [at.lease(spec=made(f"{one}"), planned=planned) for one in range(count)]

        async def obtain(slot: ChildSlot) -> None:
            with suppress(ChildError):
                await at.children.obtain(slot)

        for slot in slots:
            tasks.start_soon(obtain, slot)
        await all_tasks_blocked()
        assert {slot.state for slot in slots} == {"starting"}
        yield at, slots
        tasks.cancel_scope.cancel()


def begun(slots: list[ChildSlot]) -> list[bool]:
    return [slot.child is not None and slot.child.peer is not None for slot in slots]


async def test_a_few_servers_start_at_a_time() -> None:
    async with starting(MOST_STARTS + 3) as (at, slots):
        assert begun(slots) == [True] * MOST_STARTS + [False] * 3
        at.fake.links[0].crash()
        await all_tasks_blocked()
        assert begun(slots) == [True] * (MOST_STARTS + 1) + [False] * 2
        assert slots[0].state == "down"


async def test_servers_that_hang_do_not_keep_others_from_starting() -> None:
    async with starting(MOST_STARTS + 1) as (at, slots):
        at.fake.answers.update(FakeChild().answers)
        await anyio.sleep(START_HOLDS)
        await at.children.obtain(slots[-1])
        assert {slot.state for slot in slots[:-1]} == {"starting"}


async def test_a_server_that_a_call_waits_for_starts_first() -> None:
    async with starting(MOST_STARTS + 3) as (at, slots):
        with slots[-1].trying():
            at.fake.links[0].crash()
            await all_tasks_blocked()
        assert begun(slots) == [True] * MOST_STARTS + [False, False, True]


async def test_a_call_waits_for_no_server_that_hangs() -> None:
    async with starting(3 * MOST_STARTS) as (at, slots), anyio.create_task_group() as tasks:
        at.fake.answers.update(FakeChild().answers)
        with slots[-1].trying():
            await at.children.obtain(slots[-1])
        assert begun(slots)[:-1] == [one < MOST_STARTS for one in range(3 * MOST_STARTS - 1)]
        at.fake.answers["initialize"] = SILENT

        async def call(slot: ChildSlot) -> None:
            with slot.trying(), suppress(ChildError):
                await at.children.obtain(slot)

        for slot in slots[:-1]:
            tasks.start_soon(call, slot)
        await all_tasks_blocked()
        assert sum(begun(slots[:-1])) == 2 * MOST_STARTS
        tasks.cancel_scope.cancel()


async def test_a_server_that_is_stopped_before_its_turn_is_not_launched() -> None:
    async with starting(MOST_STARTS + 1) as (at, slots):
        assert slots[-1].child is not None
        slots[-1].child.stop()
        assert slots[-1].trouble == "the hub stopped it"
        at.fake.links[0].crash()
        await all_tasks_blocked()
        assert not begun(slots)[-1]


async def test_what_waits_for_its_turn_ends_with_the_hub() -> None:
    async with starting(MOST_STARTS + 1) as (_, slots):
        pass
    assert {slot.state for slot in slots} == {"down"}


async def test_remote_servers_start_all_at_once() -> None:
    async with starting(MOST_STARTS + 3, remote) as (_, slots):
        assert all(begun(slots))
