from hub.server.http.bounds.failed_logins import KEPT, FailedLogins
from tests.kit.fakes import FakeClock


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
