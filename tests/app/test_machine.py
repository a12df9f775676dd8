from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hub.app.machine import place_of, this_machine
from hub.config.models import HubConfig
from hub.paths.resolve import Flavour
from tests.kit.trees import plant


def read(**keys: Any) -> HubConfig:
    return HubConfig.model_validate({"version": 1, "servers": {"s": {"command": "x"}}, **keys})


def test_the_machine_is_the_one_this_process_runs_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    machine = this_machine({"A": "b"}, "linux")
    assert (machine.directory, machine.flavour) == (str(tmp_path), Flavour.POSIX)
    assert machine.environment == {"A": "b"}
    assert machine.links.entry(str(tmp_path)) is not None


@pytest.mark.parametrize(
    ("platform", "flavour"),
    [("darwin", Flavour.MACOS), ("win32", Flavour.WINDOWS), ("freebsd14", Flavour.POSIX)],
)
def test_the_platform_says_how_paths_are_written(platform: str, flavour: Flavour) -> None:
    assert this_machine({}, platform).flavour is flavour


def test_unsafe_places_are_found_at_the_real_path_of_the_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    top = plant(tmp_path, "real/.ssh/", "home => real")
    monkeypatch.setenv("HOME", f"{top}/home")
    machine = this_machine({})
    place = place_of(machine)
    assert place.unsafe is not None
    assert place.unsafe.refuses((*top.parts[1:], "real", ".ssh", "id"))
    assert not place.unsafe.refuses((*top.parts[1:], "real", "project"))
    lifted = place_of(machine, read(roots={"allow_unsafe": True})).unsafe
    assert lifted is not None
    assert not lifted.refuses((*top.parts[1:], "real", ".ssh", "id"))
    assert not lifted.refuses(())


def test_the_hubs_own_directories_are_shared_in_no_case(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    top = plant(tmp_path, "home/.local/state/roots-hub/key", "run/", "cache => elsewhere")
    monkeypatch.setenv("HOME", f"{top}/home")
    environment = {
        "HOME": f"{top}/home",
        "XDG_RUNTIME_DIR": f"{top}/run",
        "XDG_CACHE_HOME": f"{top}/cache",
        "XDG_STATE_HOME": "not/absolute",
    }
    for lifted in (True, False):
        config = read(roots={"allow_unsafe": lifted})
        unsafe = place_of(this_machine(environment), config).unsafe
        assert unsafe is not None
        for own in ("home/.local/state", "run", "cache", "elsewhere"):
            assert unsafe.refuses((*top.parts[1:], *own.split("/"), "roots-hub", "key")), own
            assert not unsafe.refuses((*top.parts[1:], *own.split("/"))), own


def test_a_home_that_cannot_be_looked_at_is_taken_as_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    top = plant(tmp_path, "home => home")
    monkeypatch.setenv("HOME", f"{top}/home")
    place = place_of(this_machine({}))
    assert place.unsafe is not None
    assert place.unsafe.refuses((*top.parts[1:], "home", ".ssh"))
