from hub.usage.limits import UsageLimits
from hub.usage.principals import KEPT, SOON, PrincipalUsage, UsageByPrincipal
from tests.kit.fakes import FakeClock


def usage_of(limits: UsageLimits) -> tuple[PrincipalUsage, FakeClock]:
    clock = FakeClock()
    return PrincipalUsage("anna", limits, clock), clock


def admitted(usage: PrincipalUsage) -> bool:
    if usage.objection(is_call=True) is not None:
        return False
    usage.called()
    return True


def test_the_longest_wait_is_told() -> None:
    usage, clock = usage_of(UsageLimits(calls_per_second=1, calls_per_minute=2))
    assert admitted(usage)
    over = usage.objection(is_call=True)
    assert over is not None
    assert (over.seconds, "calls_per_second: 1 of anna" in over.why) == (1, True)
    clock.advance(1)
    assert admitted(usage)
    over = usage.objection(is_call=True)
    assert over is not None
    assert (over.seconds, "calls_per_minute: 2 of anna" in over.why) == (60, True)


def test_an_hour_of_trying_gets_the_average_and_the_burst() -> None:
    usage, clock = usage_of(UsageLimits(calls_per_second=3, burst=10))
    got = 0
    for _ in range(3600 * 8):
        got += admitted(usage)
        clock.advance(1 / 8)
    assert abs(got - (10 + 3 * 3600)) <= 1


def test_what_goes_beyond_the_bytes_is_paid_for_later() -> None:
    usage, clock = usage_of(UsageLimits(bytes_per_minute=600))
    assert usage.objection(is_call=False) is None
    usage.carried(6600)
    over = usage.objection(is_call=False)
    assert over is not None
    assert over.seconds == 601
    clock.advance(601)
    assert usage.objection(is_call=False) is None


def test_calls_under_way_leave_room_when_they_end() -> None:
    usage, _ = usage_of(UsageLimits(in_flight=1))
    with usage.underway():
        over = usage.in_flight_objection()
        assert over is not None
        assert over.seconds == SOON
    assert usage.in_flight_objection() is None


def test_who_has_no_limits_is_not_counted() -> None:
    usage = UsageByPrincipal(FakeClock())
    assert usage.of("anna") is None
    usage.follow(lambda name: UsageLimits(in_flight=1) if name == "anna" else None)
    assert usage.of("ben") is None
    assert usage.of("anna") is usage.of("anna")
    assert [one["principal"] for one in usage.all_shown()] == ["anna"]


def test_principals_that_use_nothing_are_forgotten() -> None:
    clock = FakeClock()
    usage = UsageByPrincipal(clock)
    limits = UsageLimits(calls_per_minute=1, in_flight=1)
    usage.follow(lambda _: limits)
    busy = usage.of("busy")
    assert busy is not None
    busy.begin()
    for number in range(20 * KEPT):
        one = usage.of(str(number))
        assert one is not None
        assert admitted(one)
        clock.advance(1)
    assert len(usage.all_shown()) <= KEPT
    assert usage.of("busy") is busy


def test_who_just_used_up_its_limit_is_not_forgotten_with_it() -> None:
    clock = FakeClock()
    usage = UsageByPrincipal(clock)
    limits = UsageLimits(calls_per_minute=1)
    usage.follow(lambda _: limits)
    for number in range(3 * KEPT):
        one = usage.of(str(number))
        assert one is not None
        assert admitted(one)
    first = usage.of("0")
    assert first is not None
    assert not admitted(first)
