import anyio
import pytest

from hub.server.http.auth.introspection import AT_ONCE as QUESTIONS
from hub.server.http.bounds.failed_logins import KEPT, FailedLogins
from tests.kit.fakes import FakeClock
from tests.kit.loops import all_tasks_blocked

HERE = "192.0.2.7"


def test_an_address_that_fails_too_often_has_to_wait() -> None:
    clock = FakeClock()
    failed = FailedLogins(clock, most=3)
    for _ in range(3):
        assert failed.refusal("192.0.2.7") is None
        failed.note("192.0.2.7")
        clock.advance(1)
    refused = failed.refusal("192.0.2.7")
    assert refused is not None
    assert (refused.status, refused.headers) == (429, {"retry-after": "58"})
    assert refused.text == "3 tokens from 192.0.2.7 were refused in a minute; try again in 58 s"
    assert failed.refusal("192.0.2.8") is None
    clock.advance(58)
    assert failed.refusal("192.0.2.7") is None


def test_many_addresses_do_not_push_out_the_one_that_fails_most() -> None:
    failed = FailedLogins(FakeClock(), most=3)
    for _ in range(3):
        failed.note("192.0.2.7")
    for number in range(2 * KEPT):
        failed.note(f"2001:db8:{number:x}::/64")
    assert failed.refusal("192.0.2.7") is not None


class Attempts:
    """Tokens that come at the same time from one address, and how many of them are looked at."""

    def __init__(self, failed: FailedLogins) -> None:
        self.failed = failed
        self.looked_at = self.waits = self.most = self.under_way = 0
        self.may_end = anyio.Event()

    async def one(self, *, is_wrong: bool) -> None:
        async with self.failed.attempt(HERE) as later:
            if later is not None:
                self.waits += 1
                return
            self.looked_at += 1
            self.under_way += 1
            self.most = max(self.most, self.under_way)
            await self.may_end.wait()
            self.under_way -= 1
            if is_wrong:
                self.failed.note(HERE)


@pytest.mark.parametrize(
    ("before", "is_wrong", "looked_at", "waits"),
    [(0, True, 3, 7), (2, True, 1, 9), (0, False, 10, 0), (2, False, 10, 0), (3, False, 0, 10)],
)
async def test_no_token_passes_the_limit_because_it_comes_beside_others(
    before: int, is_wrong: bool, looked_at: int, waits: int
) -> None:
    failed = FailedLogins(FakeClock(), most=3)
    for _ in range(before):
        failed.note(HERE)
    attempts = Attempts(failed)
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            for _ in range(10):
                tasks.start_soon(lambda: attempts.one(is_wrong=is_wrong))
            await all_tasks_blocked()
            async with failed.attempt("192.0.2.8") as later:
                assert later is None
            attempts.may_end.set()
    assert (attempts.looked_at, attempts.waits) == (looked_at, waits)
    assert attempts.most == max(0, 3 - before)


async def test_one_address_leaves_room_for_the_tokens_of_others() -> None:
    failed = FailedLogins(FakeClock())
    attempts = Attempts(failed)
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            for _ in range(3 * QUESTIONS):
                tasks.start_soon(lambda: attempts.one(is_wrong=False))
            await all_tasks_blocked()
            assert attempts.under_way <= QUESTIONS // 2
            attempts.may_end.set()
    assert attempts.looked_at == 3 * QUESTIONS


async def test_who_waits_for_others_and_goes_leaves_their_places_as_they_are() -> None:
    failed = FailedLogins(FakeClock(), most=1)
    attempts = Attempts(failed)
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: attempts.one(is_wrong=False))
            await all_tasks_blocked()
            with anyio.move_on_after(0):
                await attempts.one(is_wrong=True)
            assert (attempts.looked_at, attempts.waits) == (1, 0)
            attempts.may_end.set()
        await attempts.one(is_wrong=True)
    assert failed.refusal(HERE) is not None


async def test_a_token_of_an_address_that_was_forgotten_meanwhile_takes_nothing_back() -> None:
    failed = FailedLogins(FakeClock(), most=3)
    async with failed.attempt(HERE):
        for number in range(KEPT):
            for _ in range(2):
                failed.note(f"2001:db8:{number:x}::/64")
        for _ in range(3):
            failed.note(HERE)
    assert failed.refusal(HERE) is not None


async def test_who_waits_is_not_forgotten_with_its_address() -> None:
    failed = FailedLogins(FakeClock(), most=1)
    attempts = Attempts(failed)
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(lambda: attempts.one(is_wrong=False))
            await all_tasks_blocked()
            for number in range(KEPT):
                for _ in range(3):
                    failed.note(f"2001:db8:{number:x}::/64")
            attempts.may_end.set()
    assert attempts.looked_at == 3


async def test_those_who_wait_are_not_all_woken_for_each_that_ends() -> None:
    looks = 0

    def clock() -> float:
        nonlocal looks
        looks += 1
        return 0.0

    failed = FailedLogins(clock, most=2)
    attempts = Attempts(failed)
    async with anyio.create_task_group() as tasks:
        for _ in range(200):
            tasks.start_soon(lambda: attempts.one(is_wrong=False))
        await all_tasks_blocked()
        attempts.may_end.set()
    assert attempts.looked_at == 200
    assert looks < 200 * 20  # each waking each other: some 40,000
