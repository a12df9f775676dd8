from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from hub.children.circuit_breaker import ChildHealth
from hub.children.clients import InputNeededError
from hub.errors import ChildError
from hub.jsonrpc.errors import RpcError
from hub.protocol.input_requests import NO_STATE
from tests.kit.fakes import FakeClock


def failing(times: int) -> tuple[ChildHealth, FakeClock]:
    clock = FakeClock()
    health = ChildHealth("files", clock, lambda: 0.0)
    for _ in range(times):
        health.fell()
    return health, clock


def test_what_comes_next_is_said() -> None:
    health, clock = failing(0)
    assert (health.outlook, health.retry_at) == ("the next call starts it again", None)
    health.fell()
    assert health.outlook == "it can be started again in 1.0 s"
    assert (health.looked(), health.retry_at) == (1.0, clock.now + 1)
    clock.advance(1)
    assert (health.looked(), health.retry_at) == (0.0, None)


def test_a_child_that_has_answered_is_started_again_at_once() -> None:
    health, clock = failing(0)
    health.came()
    clock.advance(5)
    health.fell()
    assert (health.failures, health.looked()) == (1, 0.0)
    health.fell()
    assert health.looked() == 2.0


def test_the_breaker_is_told_of_in_the_log() -> None:
    with capture_logs() as logs:
        health, clock = failing(3)
        clock.advance(4)
        with health.trying():
            pass
    assert [(entry["state"], entry["failures"]) for entry in logs] == [
        ("open", 3),
        ("half-open", 3),
        ("closed", 0),
    ]


@pytest.mark.parametrize(
    ("raised", "state"),
    [
        (RpcError(-1, "no"), "closed"),
        (InputNeededError({}, NO_STATE, lasts=1.0), "closed"),
        (ChildError("too slow"), "half-open"),
    ],
)
def test_an_error_of_the_child_is_an_answer_and_a_call_without_one_says_nothing(
    raised: Exception, state: str
) -> None:
    health, clock = failing(3)
    clock.advance(4)
    with pytest.raises(type(raised)), health.trying():
        raise raised
    assert health.breaker == state


def test_while_one_call_tries_no_other_does() -> None:
    health, clock = failing(3)
    with health.trying():
        pass
    assert health.breaker == "open"
    clock.advance(4)
    with health.trying(), pytest.raises(ChildError) as caught, health.trying():
        pass
    assert str(caught.value) == (
        "server 'files' has failed 3 times in a row, and one call is testing whether it works "
        "again; call again when that is answered"
    )


def test_a_child_is_well_while_nothing_watches_its_calls() -> None:
    assert ChildHealth().is_well
    assert not failing(20)[0].is_well
