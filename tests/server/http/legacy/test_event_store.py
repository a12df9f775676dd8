from __future__ import annotations

from weakref import WeakSet

import pytest

from hub.server.http.bounds.bodies import MUCH
from hub.server.http.legacy.event_store import MAX_AGE, EventId, EventStore, Journal
from tests.kit.fakes import FakeClock


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(clock: FakeClock) -> EventStore:
    return EventStore(clock, max_bytes=100)


def chunks(journal: Journal, after: EventId) -> list[bytes]:
    return [event.chunk for event in journal.after(after)]


@pytest.mark.parametrize("text", ["", "7", "1-", "-1", "1-2-3", "a-1", "٣-1", "1-" + "9" * 16])
def test_an_id_that_is_not_ours_is_none(text: str) -> None:
    assert EventId.parse(text) is None


def test_an_id_reads_as_it_is_written() -> None:
    assert EventId.parse(str(EventId(3, 17))) == EventId(3, 17)
    assert str(EventId(3, 17)) == "3-17"


def test_what_a_stream_carried_after_an_event_is_told_in_order(store: EventStore) -> None:
    journal = store.journal()
    for stream, number in ((1, 1), (2, 1), (1, 2), (1, 3)):
        journal.add(EventId(stream, number), b"%d-%d" % (stream, number))
    assert chunks(journal, EventId(1, 1)) == [b"1-2", b"1-3"]
    assert chunks(journal, EventId(2, 1)) == []
    assert journal.has(EventId(2, 1))
    assert not journal.has(EventId(2, 2))


def test_one_session_keeps_so_many_events_and_bytes(clock: FakeClock) -> None:
    journal = EventStore(clock, max_session_events=3, max_session_bytes=10).journal()
    for number in range(5):
        journal.add(EventId(1, number), b"x")
    assert len(chunks(journal, EventId(1, -1))) == 3
    journal.add(EventId(1, 5), b"y" * 9)
    assert chunks(journal, EventId(1, -1)) == [b"x", b"y" * 9]
    journal.add(EventId(1, 6), b"z" * 11)
    assert chunks(journal, EventId(1, -1)) == []


def test_all_sessions_together_keep_so_much_and_the_oldest_goes_first(store: EventStore) -> None:
    one, other = store.journal(), store.journal()
    one.add(EventId(1, 1), b"a" * 50)
    other.add(EventId(1, 1), b"b" * 40)
    one.add(EventId(1, 2), b"c" * 20)
    assert chunks(one, EventId(1, 0)) == [b"c" * 20]
    assert chunks(other, EventId(1, 0)) == [b"b" * 40]
    one.add(EventId(1, 3), b"d" * 100)
    assert chunks(one, EventId(1, 0)) == [b"d" * 100]
    assert chunks(other, EventId(1, 0)) == []


def test_who_stores_most_gives_up_its_own_first(store: EventStore, clock: FakeClock) -> None:
    quiet, loud = store.journal("anna"), [store.journal("ben") for _ in range(3)]
    quiet.add(EventId(1, 1), b"a" * 30)
    for number, journal in enumerate(loud):
        journal.add(EventId(1, 1), b"%d" % number * 30)
    assert chunks(quiet, EventId(1, 0)) == [b"a" * 30]
    assert [chunks(journal, EventId(1, 0)) for journal in loud] == [[], [b"1" * 30], [b"2" * 30]]
    loud[0].add(EventId(1, 2), b"b" * 100)
    assert chunks(quiet, EventId(1, 0)) == [b"a" * 30]
    assert [chunks(journal, EventId(1, 0)) for journal in loud] == [[], [], []]
    quiet.add(EventId(1, 2), b"c" * 80)
    assert chunks(quiet, EventId(1, 0)) == [b"c" * 80]
    clock.now += MAX_AGE + 1
    store.expire()
    clock.now -= MAX_AGE + 1
    assert chunks(quiet, EventId(1, 0)) == []
    loud[0].add(EventId(1, 3), b"d" * 100)
    assert chunks(loud[0], EventId(1, 0)) == [b"d" * 100]


def test_of_many_small_events_several_are_given_up_at_once(clock: FakeClock) -> None:
    store = EventStore(clock, max_bytes=6400)
    journals = [store.journal() for _ in range(100)]
    for number in range(64):
        for journal in journals:
            journal.add(EventId(1, number), b"a")
    journals[0].add(EventId(1, 64), b"b")
    assert sum(len(journal.kept) for journal in journals) == 6400 - 6400 // 32
    assert min(journal.kept[0].serial for journal in journals) == 6400 // 32 + 1


def test_what_a_journal_dropped_itself_makes_no_other_give_up_anything(clock: FakeClock) -> None:
    store = EventStore(clock, max_bytes=100, max_session_events=1)
    one, other = store.journal(), store.journal()
    for number in range(3):
        one.add(EventId(1, number), b"a" * 40)
    other.add(EventId(1, 1), b"b" * 60)
    assert chunks(one, EventId(1, 0)) == [b"a" * 40]
    assert chunks(other, EventId(1, 0)) == [b"b" * 60]


def test_what_is_old_is_gone(store: EventStore, clock: FakeClock) -> None:
    one, other = store.journal(), store.journal()
    one.add(EventId(1, 1), b"a" * 60)
    clock.now += MAX_AGE / 2
    one.add(EventId(1, 2), b"b")
    clock.now += MAX_AGE / 2 + 1
    assert chunks(one, EventId(1, 0)) == [b"b"]
    assert not one.has(EventId(1, 1))
    other.add(EventId(1, 1), b"c" * 60)
    assert chunks(one, EventId(1, 0)) == [b"b"]


def test_a_session_that_is_over_leaves_room_for_others(store: EventStore) -> None:
    one, other = store.journal(), store.journal()
    one.add(EventId(1, 1), b"a" * 60)
    one.close()
    assert chunks(one, EventId(1, 0)) == []
    other.add(EventId(1, 1), b"b" * 60)
    other.add(EventId(1, 2), b"c" * 40)
    assert chunks(other, EventId(1, 0)) == [b"b" * 60, b"c" * 40]


def test_what_is_old_goes_without_anything_new(store: EventStore, clock: FakeClock) -> None:
    journal = store.journal()
    journal.add(EventId(1, 1), b"a")
    clock.now += MAX_AGE + 1
    store.expire()
    clock.now -= MAX_AGE + 1
    assert chunks(journal, EventId(1, 0)) == []


def test_sessions_that_are_over_are_let_go_of_although_an_older_one_goes_on(
    clock: FakeClock,
) -> None:
    store = EventStore(clock, max_session_events=4)
    quiet = store.journal()
    quiet.add(EventId(1, 1), b"a")
    held: WeakSet[Journal] = WeakSet()
    for _ in range(100):
        loud = store.journal()
        held.add(loud)
        for number in range(10):
            loud.add(EventId(1, number), b"b")
        loud.close()
        del loud
    assert quiet.has(EventId(1, 1))
    assert len(held) < 10
    clock.now += MAX_AGE + 1
    store.expire()
    assert not held


@pytest.mark.parametrize(("size", "given"), [(MUCH, 1), (MUCH - 1, 0)])
def test_the_memory_of_many_old_events_goes_back_to_the_system(
    clock: FakeClock, size: int, given: int
) -> None:
    given_back: list[None] = []
    store = EventStore(clock, give_back=lambda: given_back.append(None))
    store.journal().add(EventId(1, 1), b"x" * size)
    store.expire()
    assert not given_back
    clock.now += MAX_AGE + 1
    store.expire()
    store.expire()
    assert len(given_back) == given
