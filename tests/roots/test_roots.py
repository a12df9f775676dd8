from pathlib import Path

import pytest

from hub.errors import RootError
from hub.paths.resolve import Flavour, parts_of
from hub.roots.roots import (
    EMPTY,
    MAX_NAME,
    MAX_ROOTS,
    MAX_URI,
    Announcement,
    Rejected,
    Root,
    RootSet,
    UnsafePaths,
    parse_announcement,
    root_from_path,
    root_set,
    sifted,
)
from hub.system.machine import OsDisk
from hub.values import Json
from tests.kit.trees import PROJECT, plant

POSIX = Flavour.POSIX


def parse(result: Json, unsafe: UnsafePaths | None = None) -> Announcement | None:
    return parse_announcement(result, links=OsDisk(), flavour=POSIX, unsafe=unsafe)


def announce(*uris: str, unsafe: UnsafePaths | None = None) -> Announcement:
    announcement = parse({"roots": [{"uri": uri} for uri in uris]}, unsafe)
    assert announcement is not None
    return announcement


def root(path: str | Path, name: str | None = None) -> Root:
    return root_from_path(str(path), name=name, links=OsDisk(), flavour=POSIX, unsafe=None)


def covers(roots: RootSet, path: str | Path) -> bool:
    return roots.covers(parts_of(str(path), POSIX)) is not None


@pytest.mark.parametrize(
    "result", [None, [], {}, {"roots": "nope"}, {"roots": None}, "x", {"roots": {"uri": "x"}}]
)
def test_a_malformed_answer_is_none(result: Json) -> None:
    assert parse(result) is None


def test_an_empty_answer_shares_nothing() -> None:
    assert parse({"roots": []}) == Announcement(EMPTY, ())


def test_a_bad_entry_is_reported_and_the_others_stay(tmp_path: Path) -> None:
    top = plant(tmp_path, *PROJECT)
    result: Json = {
        "roots": [
            {"uri": "https://x/"},
            {"uri": f"file://{top}/project", "name": "Project"},
            "nonsense",
            {"name": "no uri"},
            {"uri": f"file://{top}/missing"},
            {"uri": "file://host/R"},
            {"uri": f"file://{top}/project/a.txt/x"},
            {"uri": f"file://{top}/docs", "name": 7},
        ]
    }
    announcement = parse(result)
    assert announcement is not None
    assert announcement.roots.paths == (f"{top}/project", f"{top}/docs")
    assert announcement.roots.uris == (f"file://{top}/project", f"file://{top}/docs")
    assert [root.name for root in announcement.roots.roots] == ["Project", ""]
    assert [rejected.reason for rejected in announcement.rejected] == [
        "Only file:// URIs are supported",
        "Only file:// URIs are supported",
        "Only file:// URIs are supported",
        "Path is not accessible",
        "Path is on another machine: host",
        "Path is not accessible: it passes through something that is not a directory",
    ]


def test_one_place_is_one_root_and_its_first_name_stays(tmp_path: Path) -> None:
    top = plant(tmp_path, *PROJECT, "again => project")
    result: Json = {
        "roots": [
            {"uri": f"file://{top}/again", "name": "first"},
            {"uri": f"file://{top}/project/src/..", "name": "second"},
        ]
    }
    announcement = parse(result)
    assert announcement is not None
    (only,) = announcement.roots.roots
    assert (only.path, only.name, only.uri) == (f"{top}/project", "first", f"file://{top}/again")


def test_a_name_too_long_for_an_environment_is_cut(tmp_path: Path) -> None:
    announcement = parse({"roots": [{"uri": tmp_path.as_uri(), "name": "n" * 140_000}]})
    assert announcement is not None
    assert announcement.roots.roots[0].name == "n" * MAX_NAME


def test_roots_past_the_limit_are_not_used(tmp_path: Path) -> None:
    names = [f"d{n}/" for n in range(MAX_ROOTS + 9)]
    top = plant(tmp_path, *names)
    announcement = announce(*(f"file://{top}/{name}" for name in names))
    assert len(announcement.roots.roots) == MAX_ROOTS
    assert [rejected.reason for rejected in announcement.rejected] == [
        "Only the first 256 roots are used"
    ]


def test_as_many_roots_as_the_limit_are_all_used(tmp_path: Path) -> None:
    names = [f"d{n}/" for n in range(MAX_ROOTS)]
    top = plant(tmp_path, *names)
    announcement = announce(*(f"file://{top}/{name}" for name in names))
    assert (len(announcement.roots.roots), announcement.rejected) == (MAX_ROOTS, ())


def test_of_a_root_with_a_very_long_uri_the_beginning_is_kept(tmp_path: Path) -> None:
    spelled = f"file://{plant(tmp_path, 'a/')}{'/.' * MAX_URI}/a"
    announcement = announce(spelled)
    assert announcement.roots == EMPTY
    assert announcement.rejected == (
        Rejected(spelled[:MAX_URI], f"Its URI has over {MAX_URI} characters"),
    )


def test_a_root_covers_what_is_below_it(tmp_path: Path) -> None:
    top = plant(tmp_path, *PROJECT, "root[1]/", "root1/")
    roots = announce(f"file://{top}/project", f"file://{top}/root[1]").roots
    assert covers(roots, top / "project")
    assert covers(roots, top / "project/src/a.py")
    assert not covers(roots, top / "project2/x.txt")
    assert not covers(roots, top / "root1")
    assert not covers(EMPTY, top)


def test_a_file_as_a_root_covers_only_itself(tmp_path: Path) -> None:
    top = plant(tmp_path, *PROJECT)
    roots = announce(f"file://{top}/project/a.txt").roots
    assert covers(roots, top / "project/a.txt")
    assert not covers(roots, top / "project/README.md")
    assert not covers(roots, top / "project/a.txt/x")


@pytest.mark.parametrize(
    ("path", "refused"),
    [
        ("/", True),
        ("/etc", True),
        ("/etc/ssl", True),
        ("/etcetera", False),
        ("/usr/bin", True),
        ("/System/x", True),
        ("/home/u", False),
        ("/home/u/.ssh", True),
        ("/home/u/.ssh/id_rsa", True),
        ("/home/u/.sshx", False),
        ("/home/u/..foo", False),
    ],
)
def test_places_that_are_not_safe_for_sharing(path: str, *, refused: bool) -> None:
    assert UnsafePaths("/home/u", POSIX).refuses(parts_of(path, POSIX)) is refused


@pytest.mark.parametrize(
    ("path", "touched"),
    [
        ("/", True),
        ("/etc/ssl", True),
        ("/etcetera", False),
        ("/home", True),
        ("/home/u", True),
        ("/home/u/.ssh", True),
        ("/home/u/.ssh/id_rsa", True),
        ("/home/u/docs", False),
        ("/srv", False),
    ],
)
def test_a_place_touches_those_that_are_unsafe_above_and_below_it(
    path: str, *, touched: bool
) -> None:
    assert UnsafePaths("/home/u", POSIX).touches(parts_of(path, POSIX)) is touched


def test_a_drive_touches_what_is_unsafe_though_nothing_on_the_list_is_there() -> None:
    unsafe = UnsafePaths(None, Flavour.WINDOWS)
    assert unsafe.touches(parts_of("D:\\", Flavour.WINDOWS))
    assert not unsafe.touches(parts_of("D:\\work", Flavour.WINDOWS))


def test_unsafe_places_on_other_platforms() -> None:
    windows = UnsafePaths("C:\\Users\\u", Flavour.WINDOWS)
    assert windows.refuses(parts_of("C:\\", Flavour.WINDOWS))
    assert windows.refuses(parts_of("c:\\windows\\system32", Flavour.WINDOWS))
    assert windows.refuses(parts_of("C:\\Users\\u\\.aws", Flavour.WINDOWS))
    assert not windows.refuses(parts_of("C:\\Users\\u", Flavour.WINDOWS))
    macos = UnsafePaths(None, Flavour.MACOS)
    assert macos.refuses(parts_of("/private/etc", Flavour.MACOS))


def test_an_unsafe_root_is_rejected_however_it_is_spelled(tmp_path: Path) -> None:
    top = plant(tmp_path, "home/.ssh/id_rsa", "elsewhere/", "innocent => home/.ssh")
    (top / "home/.aws").symlink_to("../elsewhere")
    announcement = announce(
        "file:///",
        f"file://{top}/home/.aws",
        f"file://{top}/innocent",
        f"file://{top}/home/x/../.ssh",
        f"file://{top}/home/.ssh/../.ssh",
        unsafe=UnsafePaths(f"{top}/home", POSIX),
    )
    assert announcement.roots == EMPTY
    assert [rejected.reason for rejected in announcement.rejected] == [
        "Path is not safe for sharing",
        "Path is not safe for sharing",
        "Path is not safe for sharing",
        "Path is not accessible: it has '..' after a component that does not exist",
        "Path is not safe for sharing",
    ]


def test_roots_that_were_fit_are_rejected_by_another_list(tmp_path: Path) -> None:
    top = plant(tmp_path, "home/.ssh/", "elsewhere/", "work/")
    (top / "home/.aws").symlink_to("../elsewhere")
    uris = [f"file://{top}/{name}" for name in ("home/.ssh", "work", "home/.aws", "none")]
    before = announce(*uris)
    assert before.roots.paths == (f"{top}/home/.ssh", f"{top}/work", f"{top}/elsewhere")
    unsafe = UnsafePaths(f"{top}/home", POSIX)
    after = sifted(before, flavour=POSIX, unsafe=unsafe)
    assert after.roots.paths == (f"{top}/work",)
    assert [(one.uri, one.reason) for one in after.rejected] == [
        (uris[3], "Path is not accessible"),
        (uris[0], "Path is not safe for sharing"),
        (uris[2], "Path is not safe for sharing"),
    ]
    assert sifted(before, flavour=POSIX, unsafe=None) == before
    assert sifted(after, flavour=POSIX, unsafe=None) == before
    assert sifted(after, flavour=POSIX, unsafe=unsafe) == after


def test_an_operators_root_gets_its_uri_and_name_from_its_path(tmp_path: Path) -> None:
    top = plant(tmp_path, "my docs/")
    made = root(top / "my docs")
    assert (made.uri, made.name) == (f"file://{top}/my%20docs", "my docs")
    assert root(top / "my docs", "Docs").name == "Docs"


def test_an_operators_bad_root_says_why(tmp_path: Path) -> None:
    with pytest.raises(RootError, match="Path is not accessible"):
        root(tmp_path / "missing")
    with pytest.raises(RootError, match="no directory to start from"):
        root("relative")
    with pytest.raises(RootError, match="Path is not accessible"):
        root("/dev/null")


def test_a_ceiling_narrows(tmp_path: Path) -> None:
    top = plant(tmp_path, "a/b/c/", "d/")
    client = root_set([root(top / "a/b"), root(top / "d")])
    assert client.within(root_set([root(top / "a")])).paths == (f"{top}/a/b",)
    assert client.within(root_set([root(top / "a/b/c")])).paths == (f"{top}/a/b/c",)
    assert client.within(root_set([root(top)])) == client
    assert client.within(EMPTY) == EMPTY
