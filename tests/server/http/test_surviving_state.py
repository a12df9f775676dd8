from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from hub.app.machine import this_machine
from hub.jsonrpc.errors import RpcError
from hub.protocol.input_requests import CallState
from hub.server.http.adoption import LASTS, SessionIds, SurvivingState, surviving_state
from hub.system.machine import Machine
from tests.kit.fakes import FakeClock
from tests.server.http.test_session_ids import CLIENT

KEY, OTHER = "k" * 40, "o" * 40
NOW = time.time()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    environment: Mapping[str, str] = {"XDG_STATE_HOME": str(tmp_path / "state")}
    return replace(this_machine(environment), wall_clock=FakeClock(NOW))


def process(machine: Machine, *keys: str, serves: str = "here 127.0.0.1 1") -> SurvivingState:
    return surviving_state(machine, keys=keys, replica=None, adopts=(), serves=serves)


def test_a_hub_without_keys_keeps_one_of_its_own(machine: Machine) -> None:
    id_ = process(machine).ids.made_for(CLIENT, "local")
    assert process(machine).ids.opened(id_, "local") == CLIENT
    elsewhere = process(machine, serves="here 127.0.0.1 2")
    assert elsewhere.ids.opened(id_, "local") is None
    assert process(machine, KEY).ids.opened(id_, "local") is None


def test_keys_are_alike_on_every_machine_and_may_be_changed(tmp_path: Path) -> None:
    ids: list[SessionIds] = []
    for number, keys in enumerate(((KEY,), (OTHER, KEY), (OTHER,))):
        environment = {"XDG_STATE_HOME": str(tmp_path / str(number))}
        ids.append(process(this_machine(environment), *keys, serves=str(number)).ids)
    old, both, new = ids
    assert both.opened(old.made_for(CLIENT, "local"), "local") is not None
    assert new.opened(both.made_for(CLIENT, "local"), "local") is not None
    assert new.opened(old.made_for(CLIENT, "local"), "local") is None


def test_what_is_used_up_stays_so(machine: Machine) -> None:
    first = process(machine)
    id_ = first.ids.made_for(CLIENT, "local")
    first.ids.end(id_, "local")
    state = first.seals.seal(CallState(consent="x"), "call", lasts=60)
    first.seals.spend(first.seals.open(state, "call"), "local")
    after = process(machine)
    assert after.ids.opened(id_, "local") is None
    with pytest.raises(RpcError, match="used before"):
        after.seals.open(state, "call")


def test_a_state_that_was_not_used_opens_in_the_next_process(machine: Machine) -> None:
    state = process(machine).seals.seal(CallState(consent="x"), "call", lasts=60)
    assert process(machine).seals.open(state, "call").call_state == CallState(consent="x")
    with pytest.raises(RpcError, match="not made for this call"):
        process(machine, serves="elsewhere").seals.open(state, "call")


@pytest.mark.parametrize("way", ["link", "readable", "damaged"])
def test_a_key_that_is_not_the_hubs_alone_is_told_once_and_not_used(
    machine: Machine, tmp_path: Path, way: str
) -> None:
    process(machine)
    key = tmp_path / "state/roots-hub/http-key"
    if way == "link":
        key.rename(tmp_path / "elsewhere")
        key.symlink_to(tmp_path / "elsewhere")
    elif way == "readable":
        key.chmod(0o644)
    else:
        key.write_text("short")
    with capture_logs() as logs:
        ids = process(machine).ids
        again = process(machine).ids
    assert [line["event"].partition(":")[0] for line in logs] == [
        "HTTP sessions end with this process"
    ] * 2
    assert again.opened(ids.made_for(CLIENT, "local"), "local") is None


def test_records_of_hubs_that_are_long_gone_are_removed(machine: Machine, tmp_path: Path) -> None:
    state = tmp_path / "state/roots-hub"
    process(machine)
    old, fresh, other = (state / name for name in ("http-ended-1", "http-used-2", "trusted.json"))
    for path in (old, fresh, other):
        path.write_text("")
    for path, age in ((old, LASTS + 1), (fresh, LASTS - 1), (other, 10 * LASTS)):
        os.utime(path, times=(NOW - age, NOW - age))
    process(machine)
    assert [path.exists() for path in (old, fresh, other)] == [False, True, True]
