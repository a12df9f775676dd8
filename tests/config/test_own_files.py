from __future__ import annotations

import pytest
from msgspec.structs import replace

from hub.app.machine import this_machine
from hub.config.own_files import catalog_directory, own_directories, own_files
from hub.paths.resolve import Flavour
from hub.system.machine import Machine


def machine(flavour: Flavour, **environment: str) -> Machine:
    return replace(this_machine(environment), flavour=flavour)


@pytest.mark.parametrize(
    ("flavour", "environment", "directory"),
    [
        (Flavour.POSIX, {"HOME": "/h"}, "/h/.cache/roots-hub/catalogs"),
        (Flavour.POSIX, {"HOME": "/h", "XDG_CACHE_HOME": "/c"}, "/c/roots-hub/catalogs"),
        (Flavour.POSIX, {"HOME": "/h", "XDG_CACHE_HOME": "c"}, "/h/.cache/roots-hub/catalogs"),
        (Flavour.MACOS, {"HOME": "/h"}, "/h/Library/Caches/roots-hub/catalogs"),
        (Flavour.MACOS, {"HOME": "/h", "XDG_CACHE_HOME": "/c"}, "/c/roots-hub/catalogs"),
    ],
)
def test_servers_lists_are_kept_where_no_call_comes(
    flavour: Flavour, environment: dict[str, str], directory: str
) -> None:
    at = machine(flavour, **environment)
    assert str(catalog_directory(at)) == directory
    sealed = [place.path for place in own_files(at).secret]
    assert directory.removesuffix("/catalogs") in sealed


def test_on_windows_they_are_beside_the_hubs_records() -> None:
    at = machine(Flavour.WINDOWS, LOCALAPPDATA="C:\\Users\\u\\AppData\\Local")
    found = catalog_directory(at)
    assert found is not None
    assert str(found).startswith(own_directories(at)[0])


@pytest.mark.parametrize("flavour", list(Flavour))
def test_without_a_home_there_is_no_such_place(flavour: Flavour) -> None:
    assert catalog_directory(machine(flavour)) is None
