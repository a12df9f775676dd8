from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import anyio
import pytest
from structlog.testing import capture_logs

from hub.jsonrpc.deadlines import Deadlines
from hub.server.http.bounds.connections import (
    EVERY,
    MOST,
    MOST_UNPROVEN,
    MOST_UNREAD,
    MOST_UNREAD_AT_ONCE,
    Connections,
    Limits,
    RefusalLog,
)
from hub.server.http.bounds.forwarded import Proxies, network_of
from tests.kit.loops import virtual_time

PROXIES = ["10.0.0.1", network_of("2001:db8::5")]


class One:
    """A connection that remembers whether it was closed."""

    def __init__(self, among: Connections, address: str = "192.0.2.1") -> None:
        self.among = among
        self.owner = self.address = address
        self.closed = False
        self.unread = self.slow = False
        self.since = 0.0
        self.size = 0
        self.connection = self
        self.is_in = among.add(self)

    def is_slow(self, patience: float, rate: float) -> bool:
        return self.slow

    def has_unread(self) -> bool:
        return self.unread

    def expire(self) -> None:
        raise AssertionError("not in time")

    def unread_for_too_long(self) -> None:
        raise AssertionError("not in time")

    def evict(self) -> None:
        self.closed = True
        self.among.unread_bytes -= self.size
        for kind in (self.among.line, self.among.body, self.among.unread, self.among.idle):
            kind.end(self)

    def proven(self, kind: Deadlines | None = None) -> One:
        self.among.prove(self)
        if kind is not None:
            kind.begin(self)
        return self


@contextmanager
def limited(connections: int, unproven: int = 100, of_one: int = 100) -> Generator[Connections]:
    limits = Limits(connections=connections, unproven=unproven, unproven_of_one=of_one)
    yield Connections(limits, RefusalLog(), Proxies(["10.0.0.0/8", "2001:db8::5"]))


async def test_the_oldest_of_an_address_makes_room_for_the_newest() -> None:
    with limited(100, of_one=2) as among:
        first, second, third = One(among), One(among), One(among)
        other = One(among, "192.0.2.9")
        assert [one.closed for one in (first, second, third, other)] == [True, False, False, False]


@pytest.mark.parametrize("address", PROXIES)
async def test_a_proxy_has_many_clients(address: str) -> None:
    with limited(100, of_one=2) as among:
        assert not any(one.closed for one in [One(among, address) for _ in range(9)])


async def test_who_has_the_most_makes_room_for_others() -> None:
    with limited(100, unproven=4) as among:
        many = [One(among) for _ in range(3)]
        other = [One(among, "192.0.2.9") for _ in range(2)]
        assert [one.closed for one in many + other] == [True, False, False, False, False]


async def test_who_was_let_in_stays() -> None:
    with limited(100, unproven=2) as among:
        proven = [One(among).proven() for _ in range(5)]
        silent = [One(among) for _ in range(3)]
        assert not any(one.closed for one in proven)
        assert [one.closed for one in silent] == [True, False, False]


async def test_those_that_wait_the_longest_make_room() -> None:
    with limited(8) as among:
        bodies = [One(among).proven(among.body) for _ in range(4)]
        idle = [One(among).proven(among.idle) for _ in range(4)]
        new = One(among)
        assert new.is_in
        assert [one.closed for one in bodies] == [True, False, False, False]
        assert not any(one.closed for one in [*idle, new])


async def test_new_clients_have_places_beside_idle_ones() -> None:
    with limited(16) as among:
        idle = [One(among).proven(among.idle) for _ in range(16)]
        idle[3].unread = True
        new = [One(among), One(among)]
        assert [at for at, one in enumerate(idle) if one.closed] == [0, 3]
        assert not any(one.closed for one in new)


async def test_where_all_are_in_use_there_is_no_room() -> None:
    with limited(8) as among:
        busy = [One(among).proven() for _ in range(8)]
        refused = One(among)
        assert not refused.is_in
        assert len(among) == 8
        among.remove(busy[0])
        assert One(among).is_in


async def test_an_address_that_has_more_than_half_of_all_keeps_no_other_out() -> None:
    with limited(8) as among:
        busy = [One(among).proven() for _ in range(8)]
        others = [One(among, "192.0.2.9").proven() for _ in range(5)]
        assert [one.is_in for one in others] == [True, True, True, True, False]
        assert [one.closed for one in busy] == [True] * 4 + [False] * 4
        assert not any(one.closed for one in others)
        assert not One(among).is_in


@pytest.mark.parametrize("few", [2, 3, 4])
async def test_no_few_addresses_keep_all_others_out(few: int) -> None:
    with limited(24) as among:
        busy = [One(among, f"192.0.2.{at % few}").proven() for at in range(24)]
        new = [One(among, "198.51.100.7").proven() for _ in range(4)]
        assert all(one.is_in for one in new)
        assert not any(one.closed for one in new)
        assert sum(one.closed for one in busy) == 4
        assert len(among) == 24


async def test_who_uses_few_keeps_them_where_many_addresses_use_all() -> None:
    with limited(32) as among:
        busy = [One(among, f"192.0.2.{at % 16}").proven() for at in range(32)]
        assert not One(among, "198.51.100.7").is_in
        assert not any(one.closed for one in busy)


async def test_empty_connections_on_a_full_hub_keep_few_newcomers_out() -> None:
    with limited(800) as among:
        busy = [One(among, f"192.0.2.{at % 2}").proven() for at in range(800)]
        new: list[One] = []
        for _ in range(100):
            new.append(One(among, "198.51.100.7"))
            for _ in range(30):
                One(among, "203.0.113.1")
            assert len(among) <= 900
            new[-1].proven()
        assert not any(one.closed for one in new)
        assert sum(one.closed for one in busy) == 100
        assert len(among) <= 900


async def test_who_has_shown_nothing_yet_ends_nobodys_request() -> None:
    with limited(8) as among:
        busy = [One(among).proven() for _ in range(8)]
        silent = [One(among, "192.0.2.9") for _ in range(4)]
        assert not any(one.closed for one in busy)
        assert [one.closed for one in silent] == [True, True, True, False]
        silent[3].proven()
        assert [one.closed for one in busy] == [True] + [False] * 7
        assert len(among) == 8


async def test_what_is_unused_by_now_makes_room_before_what_is_used() -> None:
    with limited(16) as among:
        busy = [One(among, f"192.0.2.{at % 2}").proven() for at in range(16)]
        new = [One(among, "198.51.100.7") for _ in range(2)]
        among.idle.begin(busy[5])
        new[0].proven()
        assert [at for at, one in enumerate(busy) if one.closed] == [5]
        new[1].proven()
        assert [at for at, one in enumerate(busy) if one.closed] == [0, 5]
        assert not any(one.closed for one in new)


class Counting(Proxies):
    """Proxies that count how often they are asked for."""

    asked = 0

    def includes(self, address: str) -> bool:
        self.asked += 1
        return super().includes(address)


async def test_a_newcomer_costs_the_same_however_many_addresses_there_are() -> None:
    proxies = Counting(["10.0.0.0/8"])
    among = Connections(Limits(connections=900, unproven=100), RefusalLog(), proxies)
    for at in range(900):
        own = f"198.51.{at // 256}.{at % 256}"
        One(among, "10.0.0.1" if at < 300 else "192.0.2.1" if at < 500 else own).proven()
    proxies.asked = 0
    new = [One(among, one).proven() for one in ("203.0.113.1", "203.0.113.2", "10.0.0.1")]
    assert [one.is_in for one in new] == [True, True, False]
    assert proxies.asked < 50


async def test_what_others_keep_open_is_not_closed_while_one_address_has_most() -> None:
    with limited(8) as among:
        others = [One(among, "192.0.2.9").proven(among.idle) for _ in range(2)]
        busy = [One(among).proven() for _ in range(6)]
        assert not One(among).is_in
        new = One(among, "192.0.2.9")
        assert new.is_in
        assert not One(among).is_in
        assert not any(one.closed for one in [*others, *busy])
        new.proven()
        assert not any(one.closed for one in [*others, new])
        assert [one.closed for one in busy] == [True] + [False] * 5


async def test_what_who_has_most_keeps_open_is_closed_before_what_it_uses() -> None:
    with limited(8) as among:
        other = One(among, "192.0.2.9").proven(among.idle)
        other.unread = True
        busy = [One(among).proven() for _ in range(6)]
        idle = One(among).proven(among.idle)
        assert One(among, "192.0.2.9").proven().is_in
        assert [one.closed for one in (other, idle)] == [False, True]
        assert not any(one.closed for one in busy)


@pytest.mark.parametrize("address", PROXIES)
async def test_all_connections_of_a_proxy_may_be_in_use(address: str) -> None:
    with limited(8) as among:
        busy = [One(among, address).proven() for _ in range(8)]
        assert not One(among).is_in
        assert not any(one.closed for one in busy)


async def test_a_body_that_comes_too_slowly_makes_room() -> None:
    with limited(8) as among:
        bodies = [One(among, address).proven(among.body) for address in ("a", "b", "c", "c")]
        assert not among.drop_slow_body(lambda _: True)
        for one in bodies[:3]:
            one.slow = True
        assert among.drop_slow_body(lambda owner: owner == "c")
        assert among.drop_slow_body(lambda _: True)
        assert [one.closed for one in bodies] == [True, False, True, False]


async def test_what_is_not_read_is_bounded() -> None:
    with limited(8) as among:
        slow = One(among).proven(among.unread)
        new = One(among).proven(among.unread)
        among.unread_by(MOST_UNREAD, 0)
        new.since = 1.0
        among.unread_by(1, 1.0)
        assert not slow.closed
        among.unread_by(1, 5.5)
        assert slow.closed
        assert not new.closed


async def test_who_lets_most_wait_pays_for_it() -> None:
    with limited(8) as among:
        small, large = (One(among).proven(among.unread) for _ in range(2))
        small.size, large.size = 1000, MOST_UNREAD
        large.since = 1.0
        among.unread_by(small.size, 0)
        among.unread_by(large.size, 6.0)
        assert [small.closed, large.closed] == [False, True]


async def test_much_more_is_not_kept_for_a_moment_even() -> None:
    with limited(8) as among:
        slow = One(among).proven(among.unread)
        new = One(among).proven(among.unread)
        slow.size = MOST_UNREAD_AT_ONCE
        among.unread_by(slow.size, 0)
        assert not slow.closed
        among.unread_by(1, 0)
        assert slow.closed
        assert not new.closed


@pytest.mark.parametrize(
    ("files", "connections", "unproven"),
    [(None, MOST, MOST_UNPROVEN), (1 << 20, MOST, MOST_UNPROVEN), (1024, 682, 511), (8, 8, 6)],
)
def test_limits_follow_how_many_files_may_be_open(
    files: int | None, connections: int, unproven: int
) -> None:
    limits = Limits.of_files(files)
    assert (limits.connections, limits.unproven) == (connections, unproven)
    assert 1 <= limits.unproven_of_one < unproven


@virtual_time
async def test_the_first_is_logged_and_the_others_are_counted() -> None:
    with capture_logs() as lines:
        log = RefusalLog()
        for _ in range(100):
            log.note("request refused: 401", "192.0.2.1", "no token")
        log.note("connection closed", "192.0.2.2")
        assert [line["event"] for line in lines] == ["request refused: 401", "connection closed"]
        assert (lines[0]["address"], lines[0]["reason"]) == ("192.0.2.1", "no token")
        await anyio.sleep(EVERY)
        assert (lines[2]["event"], lines[2]["further"]) == ("request refused: 401", 99)


@virtual_time
async def test_after_a_while_one_is_the_first_again() -> None:
    with capture_logs() as lines:
        log = RefusalLog()
        log.note("refused", "a")
        await anyio.sleep(EVERY + 1)
        log.note("refused", "b")
    assert [line["address"] for line in lines] == ["a", "b"]
