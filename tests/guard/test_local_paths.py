from pathlib import Path

import pytest

from hub.guard.containment import PathTracer
from hub.guard.keys.vocabulary import Kind
from hub.guard.local_paths import LocalPaths, doubt_about
from hub.guard.policy import Policy
from hub.guard.text.readings import Reader
from tests.kit.trees import PROJECT, plant
from tests.kit.worlds import POSIX, context, share

WEAK, NEUTRAL, VIRTUAL = Kind.WEAK, Kind.NEUTRAL, Kind.VIRTUAL


def local_paths(tmp_path: Path, *, all_local: bool = True) -> LocalPaths:
    top = plant(tmp_path, *PROJECT)
    tracer = PathTracer(context(share(top / "project")), Policy(), needs_write=True)
    return LocalPaths(tracer, Reader({}, POSIX), posix=True, all_local=all_local)


@pytest.mark.parametrize(
    ("kind", "text", "value", "is_meant"),
    [
        (WEAK, "/none/x", "/none/x", True),
        (WEAK, "/9j/4AAQSkZJRgABAQ==", "/9j/4AAQSkZJRgABAQ==", False),
        (NEUTRAL, "/none/x", "/none/x", False),
        (NEUTRAL, "/etc/x", "/etc/x", True),
        (NEUTRAL, "/e[t]c/x", "/e[t]c/x", True),
        (NEUTRAL, "/", "/", True),
        (NEUTRAL, "/", "Berlin / DE", False),
        (NEUTRAL, "x/y", "x/y", True),
        (VIRTUAL, "/etc/x", "/etc/x", False),
        (VIRTUAL, "../x", "../x", True),
    ],
)
def test_which_texts_are_paths_of_this_machine(
    tmp_path: Path, kind: Kind, text: str, value: str, *, is_meant: bool
) -> None:
    assert local_paths(tmp_path).is_meant(text, kind, value) is is_meant


def test_with_paths_remote_absolute_paths_are_of_another_machine(tmp_path: Path) -> None:
    remote = local_paths(tmp_path, all_local=False)
    assert remote.is_elsewhere("/etc/x", "/etc/x")
    assert not remote.is_elsewhere("/etc/x", "file:///etc/x")
    assert not remote.is_elsewhere("etc/x", "etc/x")
    assert not remote.is_meant("/etc/x", WEAK, "/etc/x")


@pytest.mark.parametrize("start", ["/etc/", "../", "~/", "src/"])
def test_a_long_text_is_a_path_if_its_start_is_one(tmp_path: Path, start: str) -> None:
    assert local_paths(tmp_path).is_long_path(start + "x/" * 3000, NEUTRAL)
    assert not local_paths(tmp_path).is_long_path("none/" + "x/" * 3000, NEUTRAL)


def test_whether_a_text_can_be_judged_depends_on_its_kind() -> None:
    assert doubt_about("a\x1bb", Kind.PATH) == "it contains a control character"
    assert doubt_about("a\x1bb", NEUTRAL) is None
    assert doubt_about("expect://id", NEUTRAL) == "it opens something that is not a file"
