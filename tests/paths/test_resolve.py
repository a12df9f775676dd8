import os
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.paths.resolve import (
    CachedDisk,
    Entry,
    Flavour,
    PathError,
    collapse,
    is_inside,
    parts_of,
    resolve,
)
from hub.system.machine import OsDisk
from tests.kit.fakes import RecordingDisk
from tests.kit.trees import PROJECT, grow, plant
from tests.kit.worlds import Directories

POSIX, MACOS, WINDOWS = Flavour.POSIX, Flavour.MACOS, Flavour.WINDOWS


class OneLink(Directories):
    """A disk with one link."""

    def __init__(self, path: str, target: str) -> None:
        self._path = path
        self._target = target

    def entry(self, path: str) -> Entry | None:
        return Entry("link" if path == self._path else "directory", 0, 0)

    def target(self, path: str) -> str:
        return self._target


def posix(raw: str, cwd: str | None = None) -> str:
    return resolve(raw, cwd=cwd, links=OsDisk(), flavour=POSIX)


def windows(raw: str, cwd: str | None = None) -> str:
    return resolve(raw, cwd=cwd, links=Directories(), flavour=WINDOWS)


@pytest.mark.parametrize(
    ("raw", "leads_to"),
    [
        ("project//src/./a.py/", "project/src/a.py"),
        ("project/src/../a.txt", "project/a.txt"),
        ("project/new/dir/f", "project/new/dir/f"),
        ("project/...", "project/..."),
        ("project/evil/secret.txt", "private/secret.txt"),
        ("project/c1/x", "private/x"),
        ("project/up/docs", "docs"),
        ("project/dangling", "project/not-yet"),
        ("project/in/../a.py", "project/src/a.py"),
        ("project/src/deep/../../../docs/b.md", "docs/b.md"),
    ],
)
def test_a_path_resolves_as_in_the_kernel(tmp_path: Path, raw: str, leads_to: str) -> None:
    top = plant(
        tmp_path,
        *PROJECT,
        f"project/evil => {tmp_path}/private",
        "project/c1 => c2",
        "project/c2 => ../private",
        "project/up => ..",
        "project/dangling => not-yet",
        "project/in => src/deep",
    )
    assert posix(f"{top}/{raw}") == f"{top}/{leads_to}"
    assert posix(raw, cwd=str(top)) == f"{top}/{leads_to}"


@pytest.mark.parametrize(
    ("raw", "sentence"),
    [
        ("", "an empty path names nothing"),
        ("a\x00b", "it contains a NUL character"),
        ("a/" * 3000, "it is longer than any path can be"),
        ("nope/../a.txt", "it has '..' after a component that does not exist"),
        ("project/loop/x", "it passes through too many symbolic links"),
        ("n" * 300, "the system cannot look it up: File name too long"),
        ("/proc/self/root", "/proc means something else in the process that opens it"),
        ("project/pl/a.txt", "/proc means something else in the process that opens it"),
        ("/dev/fd/0", "/dev/fd means something else in the process that opens it"),
        ("\udfff", "it contains a character that no path can have"),
    ],
)
def test_a_path_that_cannot_be_vouched_for_is_refused(
    tmp_path: Path, raw: str, sentence: str
) -> None:
    top = plant(tmp_path, *PROJECT, "project/loop => loop", "project/pl => /proc/self/cwd")
    with pytest.raises(PathError) as caught:
        posix(raw, cwd=str(top))
    assert caught.value.reason == sentence


def test_a_file_is_no_directory(tmp_path: Path) -> None:
    top = plant(tmp_path, *PROJECT)
    with pytest.raises(PathError, match="something that is not a directory"):
        posix("project/a.txt/x", cwd=str(top))


def test_an_empty_link_is_refused() -> None:
    with pytest.raises(PathError, match="empty symbolic link"):
        resolve("/a/b", cwd=None, links=OneLink("/a", ""), flavour=POSIX)


@pytest.mark.parametrize("cwd", [None, "relative"])
def test_a_relative_path_needs_an_absolute_directory(cwd: str | None) -> None:
    with pytest.raises(PathError):
        posix("a.txt", cwd=cwd)


def test_a_chain_longer_than_path_max_is_refused_and_never_guessed(
    tmp_path: Path,
) -> None:
    top = plant(tmp_path, "in/", "out/secret")
    here = str(top / "in")
    name = "d" * 240
    before = Path.cwd()
    os.chdir(here)
    try:
        for step in "abcdefghijklmnopqrst":
            Path(name).mkdir()
            Path(step).symlink_to(name)
            os.chdir(name)
    finally:
        os.chdir(before)
    (top / "in" / "escape").symlink_to("/".join("abcdefghijklmnopqrst") + "/" + "../" * 21 + "out")
    with pytest.raises(PathError, match="File name too long"):
        posix(f"{here}/escape/secret")


@pytest.mark.parametrize(
    ("raw", "leads_to"),
    [
        ("C:\\R\\project\\a.txt", "C:\\R\\project\\a.txt"),
        ("c:/R/./project//a", "C:\\R\\project\\a"),
        ("src\\..\\a", "C:\\R\\a"),
        ("C:\\..\\..\\a", "C:\\a"),
        ("C:\\", "C:\\"),
        ("C:\\R\\console.log", "C:\\R\\console.log"),
    ],
)
def test_a_windows_path_is_understood_anywhere(raw: str, leads_to: str) -> None:
    assert windows(raw, cwd="C:\\R") == leads_to


@pytest.mark.parametrize(
    "raw",
    [
        "\\Windows",
        "/mnt/c/x",
        "C:a.txt",
        "C:..\\x",
        "C:",
        "\\\\server\\share\\x",
        "//?/C:/x",
        "\\\\.\\pipe\\x",
        "C:\\R\\a.txt::$DATA",
        "C:\\R\\a.txt.",
        "C:\\R \\a",
        "C:\\R\\.. \\x",
        "C:\\R\\...\\x",
        "NUL",
        "C:\\R\\con.txt",
        "C:\\R\\COM1 .log",
        "C:\\R\\CONOUT$",
        "C:\\PROGRA~1\\x",
        "C:\\R\\*",
    ],
)
def test_a_windows_spelling_with_two_meanings_is_refused(raw: str) -> None:
    with pytest.raises(PathError):
        windows(raw, cwd="C:\\R")


def test_a_windows_link_may_have_a_target_on_another_drive() -> None:
    found = resolve("C:\\R\\l\\x", cwd=None, links=OneLink("C:\\R\\l", "D:\\data"), flavour=WINDOWS)
    assert found == "D:\\data\\x"


def test_parts_are_equal_where_the_platform_says_so() -> None:
    assert parts_of("/R/Caf\u00e9/", POSIX) == ("R", "Caf\u00e9")
    assert parts_of("/", POSIX) == ()
    assert parts_of("/R/caf\u00e9", MACOS) == parts_of("/r/Cafe\u0301", MACOS)
    assert parts_of("/var/p", MACOS) == parts_of("/private/var/p", MACOS)
    assert parts_of("/", MACOS) == ()
    assert parts_of("C:\\Users", WINDOWS) == parts_of("c:/users", WINDOWS)
    assert parts_of("C:\\stra\u00dfe", WINDOWS) != parts_of("C:\\strasse", WINDOWS)


@pytest.mark.parametrize("path", ["a/b", "/a/../b"])
def test_only_a_canonical_path_has_parts(path: str) -> None:
    with pytest.raises(PathError):
        parts_of(path, POSIX)


def test_containment_is_by_component() -> None:
    assert is_inside(("a", "b"), ("a", "b"))
    assert is_inside(("a", "b", "c"), ("a", "b"))
    assert not is_inside(("a", "bc"), ("a", "b"))
    assert not is_inside(("a",), ("a", "b"))


@pytest.mark.parametrize(
    ("raw", "cwd", "collapsed"),
    [
        ("/a/b/../c", None, "/a/c"),
        ("../x", "/a/b", "/a/x"),
        ("/../../x", None, "/x"),
        ("/a/..b", None, None),
        ("/a/b", None, None),
        ("../x", None, None),
    ],
)
def test_a_child_may_remove_dot_dot_before_it_looks(
    raw: str, cwd: str | None, collapsed: str | None
) -> None:
    assert collapse(raw, cwd=cwd, flavour=POSIX) == collapsed


NAMES = st.sampled_from(["a", "b", "c", "d"])
STEPS = st.lists(st.one_of(NAMES, st.sampled_from(["..", "."])), min_size=1, max_size=6)
NODES = st.tuples(st.lists(NAMES, min_size=1, max_size=3), st.one_of(st.none(), STEPS))


@given(nodes=st.lists(NODES, max_size=12), asked=st.lists(STEPS, min_size=1, max_size=10))
def test_resolve_agrees_with_the_kernel_on_any_tree(
    nodes: list[tuple[list[str], list[str] | None]], asked: list[list[str]]
) -> None:
    with TemporaryDirectory() as made:
        top = Path(made).resolve()
        grow(top, nodes)
        for steps in asked:
            raw = f"{top}/{'/'.join(steps)}"
            try:
                found = posix(raw)
            except PathError:
                continue
            assert found == os.path.realpath(raw)


def test_a_cache_asks_once(tmp_path: Path) -> None:
    top = plant(tmp_path, "a", "link => a")
    disk = RecordingDisk()
    links = CachedDisk(disk)
    for _ in range(3):
        assert links.entry(f"{top}/a") is not None
        assert links.entry(f"{top}/none") is None
        assert links.target(f"{top}/link") == "a"
    assert disk.asked == [f"{top}/a", f"{top}/none"]
