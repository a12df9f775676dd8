from __future__ import annotations

from contextlib import ExitStack

import anyio
import pytest

from hub.jsonrpc.requests import LIGHT, MAX_UNREAD, MAX_UNSENT, MAX_WEIGHT, UNSAID, InboundRequests
from hub.values import Json
from tests.kit.loops import all_tasks_blocked


@pytest.mark.parametrize("ends", ["sent", "closed"])
@pytest.mark.parametrize(("others", "weight"), [(MAX_UNSENT - 1, 0), (0, MAX_UNREAD + 1)])
async def test_a_sender_that_does_not_read_its_answers_has_to_wait(
    others: int, weight: int, ends: str
) -> None:
    inbound = InboundRequests()
    await inbound.wait_for_room()
    was_let_in = anyio.Event()

    async def wait() -> None:
        await inbound.wait_for_room()
        was_let_in.set()

    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            with ExitStack() as unread, inbound.sending(weight):
                for _ in range(others):
                    assert inbound.has_room
                    unread.enter_context(inbound.sending())
                assert not inbound.has_room
                tasks.start_soon(wait)
                await all_tasks_blocked()
                assert not was_let_in.is_set()
                if ends == "closed":
                    inbound.close()
                    await was_let_in.wait()
            await was_let_in.wait()


async def test_it_is_idle_once_every_request_has_ended() -> None:
    inbound = InboundRequests()
    await inbound.idle()
    inbound.begun()
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(inbound.idle)
            await all_tasks_blocked()
            assert not inbound.is_idle
            inbound.ended()
    assert inbound.is_idle


async def test_it_is_not_idle_while_a_response_is_unsent() -> None:
    inbound = InboundRequests()
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            with inbound.sending():
                assert not inbound.is_idle
                tasks.start_soon(inbound.idle)
                await all_tasks_blocked()
    assert inbound.is_idle


class Cancellable:
    """A request that notes in a list that it was given up."""

    can_be_cancelled = True

    def __init__(self, name: str, given_up: list[str]) -> None:
        self._name = name
        self._given_up = given_up

    def cancel(self, reason: str = UNSAID) -> None:
        self._given_up.append(self._name)
        self.reason = reason


@pytest.mark.parametrize(("id_", "expected"), [(1, ["1"]), ("1", ["one"]), (True, []), (1.0, [])])
def test_a_request_is_taken_back_by_its_very_id(id_: Json, expected: list[str]) -> None:
    inbound, given_up = InboundRequests(), list[str]()
    inbound.enter(1, Cancellable("1", given_up))
    inbound.enter("1", Cancellable("one", given_up))
    inbound.cancel({"requestId": id_})
    assert given_up == expected


def test_a_cancelled_request_gets_the_reason() -> None:
    inbound = InboundRequests()
    for id_, said, heard in ((1, "enough", "enough"), (2, None, UNSAID)):
        underway = Cancellable(f"{id_}", [])
        inbound.enter(id_, underway)
        inbound.cancel({"requestId": id_, "reason": said})
        assert underway.reason == heard


def test_on_close_the_latest_requests_are_cancelled_first() -> None:
    inbound, given_up = InboundRequests(), list[str]()
    for name in "abc":
        inbound.enter(name, Cancellable(name, given_up))
    inbound.close()
    assert given_up == ["c", "b", "a"]


async def test_more_is_read_once_enough_of_what_was_asked_is_answered() -> None:
    third = MAX_WEIGHT // 3
    inbound, given_up = InboundRequests(), list[str]()
    asked = [Cancellable(f"call {id_}", given_up) for id_ in range(4)]
    for id_, (one, size) in enumerate(
        zip(asked, (2 * third, 2 * third, LIGHT, 9 * third), strict=True)
    ):
        if id_ != 3:  # a request that is not under way any more counts for nothing
            inbound.add(id_, one)
        inbound.add_size(id_, size)
    assert not inbound.accepts(4)
    await inbound.wait_for_room()  # no answer waits
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(inbound.room_for_more)
            await all_tasks_blocked()
            inbound.leave(2, asked[2])
            await all_tasks_blocked()
            assert not inbound.accepts(4)
            inbound.leave(0, asked[0])
    assert inbound.accepts(4)
