import os
from pathlib import Path

import pytest

from hub.paths.resolve import DeadEndError, Entry, PathError
from hub.system.machine import CACHE, STATE, OsDisk, own_directory
from tests.kit.trees import plant


@pytest.mark.parametrize(
    ("environment", "state", "cache"),
    [
        ({"HOME": "/h"}, "/h/.local/state/roots-hub", "/h/.cache/roots-hub"),
        (
            {"HOME": "/h", "XDG_STATE_HOME": "/s", "XDG_CACHE_HOME": "/c"},
            "/s/roots-hub",
            "/c/roots-hub",
        ),
        (
            {"HOME": "/h", "XDG_STATE_HOME": "s", "XDG_CACHE_HOME": "c"},
            "/h/.local/state/roots-hub",
            "/h/.cache/roots-hub",
        ),
    ],
)
def test_the_hubs_own_directories_are_where_the_environment_says(
    environment: dict[str, str], state: str, cache: str
) -> None:
    assert own_directory(environment, *STATE) == state
    assert own_directory(environment, *CACHE) == cache


def test_the_kernel_says_what_is_there(tmp_path: Path) -> None:
    top = plant(tmp_path, "dir/", "file", "link => dir")
    links = OsDisk()
    kinds = [
        getattr(links.entry(f"{top}/{name}"), "kind", None) for name in ("dir", "file", "link")
    ]
    assert kinds == ["directory", "file", "link"]
    assert links.target(f"{top}/link") == "dir"
    found = os.lstat(top / "file")
    assert links.entry(f"{top}/file") == Entry("file", found.st_dev, found.st_ino)
    assert getattr(links.entry("/dev/null"), "kind", None) == "other"


def test_only_what_does_not_exist_is_none(tmp_path: Path) -> None:
    top = plant(tmp_path, "file")
    links = OsDisk()
    assert links.entry(f"{top}/missing") is None
    for path in (f"{top}/file/x", f"{top}/{'n' * 300}", "\x00", "\udfff"):
        with pytest.raises(PathError):
            links.entry(path)
    with pytest.raises(PathError):
        links.target(f"{top}/file")


def test_a_name_that_is_too_long_is_a_dead_end_but_a_path_that_is_too_long_is_none(
    tmp_path: Path,
) -> None:
    links = OsDisk()
    with pytest.raises(DeadEndError, match="File name too long"):
        links.entry(f"{tmp_path}/{'n' * 256}")
    with pytest.raises(PathError, match="File name too long") as caught:
        links.entry(f"{tmp_path}/{'n/' * 3000}n")
    assert not isinstance(caught.value, DeadEndError)


@pytest.mark.parametrize("path", ["/a\0", "/\ud800"])
def test_a_path_with_a_character_that_none_can_have_is_an_error(path: str) -> None:
    links = OsDisk()
    for ask in (links.entry, links.target, links.names):
        with pytest.raises(PathError, match="a character that no path can have"):
            ask(path)
