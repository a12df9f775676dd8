from typing import Final

from hub.usage.principals import (
    KEPT,
    SOON,
    ClientUsage,
    PrincipalUsage,
    UsageByPrincipal,
    UsageLimits,
    underway,
)
from tests.kit.fakes import FakeClock


def usage_of(limits: UsageLimits) -> tuple[PrincipalUsage, FakeClock]:
    clock = FakeClock()
    return PrincipalUsage("anna", limits, clock), clock


def admitted(usage: ClientUsage) -> bool:
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
    with underway(usage):
        over = usage.in_flight_objection()
        assert over is not None
        assert over.seconds == SOON
    assert usage.in_flight_objection() is None


def test_who_has_no_limits_is_not_counted() -> None:
    usage = UsageByPrincipal(FakeClock())
    assert usage.of("anna") is None
    usage.follow(lambda name, _: UsageLimits(in_flight=1) if name == "anna" else None)
    assert usage.of("ben") is None
    assert usage.of("anna") is usage.of("anna")
    assert [one["principal"] for one in usage.all_shown()] == ["anna"]


def test_principals_that_use_nothing_are_forgotten() -> None:
    clock = FakeClock()
    usage = UsageByPrincipal(clock)
    limits = UsageLimits(calls_per_minute=1, in_flight=1)
    usage.follow(lambda _name, _profile: limits)
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
    usage.follow(lambda _name, _profile: limits)
    for number in range(3 * KEPT):
        one = usage.of(str(number))
        assert one is not None
        assert admitted(one)
    first = usage.of("0")
    assert first is not None
    assert not admitted(first)


# Limits within a profile


def usages_of(
    whole: UsageLimits | None, **within: UsageLimits
) -> tuple[UsageByPrincipal, FakeClock]:
    """Return what principals use who have these limits, in all and in each profile."""
    clock = FakeClock()
    usage = UsageByPrincipal(clock)
    usage.follow(lambda _, profile: whole if profile is None else within.get(profile))
    return usage, clock


def of(usage: UsageByPrincipal, principal: str, profile: str | None) -> ClientUsage:
    found = usage.of(principal, profile)
    assert found is not None
    return found


FEW: Final = UsageLimits(key="profiles.few.limits", profile="few", calls_per_minute=2)


def test_a_call_in_a_profile_counts_there_and_in_all() -> None:
    usage, _ = usages_of(UsageLimits(calls_per_minute=3), few=FEW)
    calls = [admitted(of(usage, "anna", "few")) for _ in range(3)]
    assert calls == [True, True, False]
    over = of(usage, "anna", "few").objection(is_call=True)
    assert over is not None
    assert "profiles.few.limits.calls_per_minute: 2 of anna" in over.why
    assert [admitted(of(usage, "anna", "many")) for _ in range(2)] == [True, False]
    over = of(usage, "anna", None).objection(is_call=True)
    assert over is not None
    assert "listen.limits.calls_per_minute: 3 of anna" in over.why
    assert [admitted(of(usage, "ben", "few")) for _ in range(3)] == [True, True, False]


def test_calls_count_in_all_also_when_the_idle_are_forgotten_between_the_parts() -> None:
    whole = UsageLimits(calls_per_minute=3)
    usage, _ = usages_of(whole, few=UsageLimits(key="x", profile="few", in_flight=9))
    for number in range(KEPT - 1):
        of(usage, f"nobody {number}", None)
    for _ in range(3):
        of(usage, "anna", "few").called()
    assert not admitted(of(usage, "anna", "few"))
    assert not admitted(of(usage, "anna", None))


def test_of_the_waits_of_both_limits_the_longer_one_is_told() -> None:
    second = UsageLimits(key="profiles.few.limits", profile="few", calls_per_second=1)
    usage, clock = usages_of(UsageLimits(calls_per_minute=1), few=second)
    assert admitted(of(usage, "anna", "few"))
    over = of(usage, "anna", "few").objection(is_call=True)
    assert over is not None
    assert (over.seconds, "listen.limits.calls_per_minute" in over.why) == (61, True)
    clock.advance(61)
    assert admitted(of(usage, "anna", "few"))


def test_bytes_and_calls_under_way_count_for_both() -> None:
    within = UsageLimits(key="x", profile="few", in_flight=1, bytes_per_minute=600)
    usage, _ = usages_of(UsageLimits(in_flight=2, bytes_per_minute=6000), few=within)
    with underway(of(usage, "anna", "few")):
        over = of(usage, "anna", "few").in_flight_objection()
        assert over is not None
        assert "x.in_flight: 1 of anna" in over.why
        with underway(of(usage, "anna", "many")):
            over = of(usage, "anna", "other").in_flight_objection()
            assert over is not None
            assert "listen.limits.in_flight: 2 of anna" in over.why
    assert of(usage, "anna", "few").in_flight_objection() is None
    of(usage, "anna", "few").carried(1200)
    assert of(usage, "anna", "few").objection(is_call=False) is not None
    assert of(usage, "anna", None).objection(is_call=False) is None
    shown = usage.shown("anna", "few"), usage.shown("anna")
    assert shown == (
        {
            "in_flight": {"limit": 1, "used": 0},
            "bytes_per_minute": {"limit": 600, "used": 1200},
        },
        {
            "in_flight": {"limit": 2, "used": 0},
            "bytes_per_minute": {"limit": 6000, "used": 1200},
        },
    )


def test_a_call_that_began_before_limits_changed_ends_after_it_all_the_same() -> None:
    usage, _ = usages_of(UsageLimits(in_flight=1), few=FEW)
    with underway(of(usage, "anna", "few")):
        usage.follow(None)
    usage.follow(lambda _name, _profile: UsageLimits(in_flight=1))
    assert of(usage, "anna", None).in_flight_objection() is None


def test_where_one_limit_holds_nothing_else_is_counted() -> None:
    usage, _ = usages_of(None, few=FEW)
    assert usage.of("anna", "many") is None
    assert usage.of("anna", None) is None
    assert of(usage, "anna", "few").parts == (usage.of("anna", "few"),)
    assert [(one["principal"], one["profile"]) for one in usage.all_shown()] == [("anna", "few")]
    usage.follow(None)
    assert usage.of("anna", "few") is None
    assert usage.all_shown() == []


def test_without_limits_nobodys_limits_are_looked_up() -> None:
    class PartsUnasked(UsageByPrincipal):
        def _part(self, principal: str, profile: str | None) -> PrincipalUsage | None:
            raise AssertionError("nothing is limited")

    assert PartsUnasked(FakeClock()).of("anna", "few") is None


def test_changed_limits_hold_for_a_principal_that_was_known_before() -> None:
    usage, _ = usages_of(UsageLimits(calls_per_second=1, burst=5))
    assert [admitted(of(usage, "anna", None)) for _ in range(2)] == [True, True]
    usage.follow(lambda _name, _profile: UsageLimits(calls_per_second=1, burst=3))
    assert [admitted(of(usage, "anna", None)) for _ in range(2)] == [True, False]
    usage.follow(lambda name, _profile: UsageLimits(in_flight=1) if name == "ben" else None)
    assert usage.of("anna", None) is None
