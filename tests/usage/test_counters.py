import pytest

from hub.usage.counters import LastMinute, LeakyBucket


def test_a_bucket_takes_what_fits_and_then_at_its_rate() -> None:
    bucket, now = LeakyBucket(), 100.0
    taken = 0
    for _ in range(1000):
        if not bucket.wait(now, rate=5, most=10):
            bucket.add(now, rate=5)
            taken += 1
        now += 0.1  # a hundred seconds in all
    assert taken == 10 + 5 * 100 - 1


def test_a_bucket_says_when_more_fits() -> None:
    bucket = LeakyBucket()
    for _ in range(3):
        assert bucket.wait(7.0, rate=0.5, most=3) == 0
        bucket.add(7.0, rate=0.5)
    assert bucket.wait(7.0, rate=0.5, most=3) == pytest.approx(2)
    assert bucket.wait(9.0, rate=0.5, most=3) == 0


def test_what_was_put_in_beyond_the_brim_has_to_be_waited_for() -> None:
    bucket = LeakyBucket()
    bucket.add(0.0, rate=10, amount=1000)
    assert bucket.wait(0.0, rate=10, most=100) == pytest.approx(90.1)
    assert bucket.wait(91.0, rate=10, most=100) == 0


def test_a_lower_limit_counts_with_the_next_question() -> None:
    bucket = LeakyBucket()
    for _ in range(5):
        bucket.add(0.0, rate=1)
    assert bucket.wait(0.0, rate=1, most=10) == 0
    assert bucket.wait(0.0, rate=1, most=2) == pytest.approx(4)


def test_no_minute_has_more_than_its_limit() -> None:
    minute, now, taken = LastMinute(), 0.0, list[float]()
    for _ in range(3000):
        if not minute.wait(now, 100):
            minute.add(now)
            taken.append(now)
        now += 0.1
    most = max(sum(at <= one < at + 60 for one in taken) for at in taken)
    assert most == 100
    assert len(taken) == 500, "it hardly gets less, either: a hundred in each 61 seconds"


def test_the_last_minute_says_when_there_is_room() -> None:
    minute = LastMinute()
    for at in (10.5, 20.2, 20.9):
        minute.add(at)
    assert minute.wait(30.0, 4) == 0
    assert minute.wait(30.0, 3) == 71 - 30.0
    assert minute.wait(30.0, 2) == 81 - 30.0
    assert minute.wait(71.0, 3) == 0
    assert minute.total(81.0) == 0
