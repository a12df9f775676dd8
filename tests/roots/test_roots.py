from pathlib import Path

import pytest

from hub.errors import RootError
from hub.paths.resolve import Entry, Flavour, parts_of
from hub.roots.roots import (
    EMPTY,
    MAX_NAME,
    MAX_ROOTS,
    MAX_URI,
    Announcement,
    Rejected,
    Root,
    RootCondition,
    RootPresence,
    RootSet,
    UnsafePaths,
    parse_announcement,
    root_from_path,
    root_set,
    sifted,
)
from hub.system.machine import OsDisk
from hub.values import Json
from tests.kit.fakes import FakeLinks
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


class RootsOnDisk:
    """Some roots on a disk that changes."""

    def __init__(self, *lines: str, roots: tuple[str, ...] = ("/team/a", "/team/b")) -> None:
        self.disk = FakeLinks(*(lines or ("/team/a/", "/team/b/", "/etc/")))
        parsed = [
            root_from_path(path, name=None, links=self.disk, flavour=POSIX, unsafe=None)
            for path in roots
        ]
        self.presence = RootPresence.of(parsed)

    def look(self) -> list[str]:
        self.presence = self.presence.refresh(self.disk, POSIX)
        return list(self.presence.present.paths)


def test_roots_that_were_just_parsed_are_present() -> None:
    shared = RootsOnDisk()
    assert shared.presence.present.paths == ("/team/a", "/team/b")
    assert shared.presence.absent == ()


def test_nothing_new_is_the_same_object() -> None:
    shared = RootsOnDisk()
    assert shared.presence.refresh(shared.disk, POSIX) is shared.presence


def test_a_root_that_vanishes_grants_nothing_until_the_same_folder_is_back() -> None:
    shared = RootsOnDisk()
    original = shared.disk.remove("/team/a")
    assert shared.look() == ["/team/b"]
    assert shared.presence.absent == (Rejected("file:///team/a", RootCondition.GONE.value),)
    shared.disk.entries["/team/a"] = original
    assert shared.look() == ["/team/a", "/team/b"]
    assert shared.presence.absent == ()


@pytest.mark.parametrize("seen_missing", [False, True])
def test_a_root_that_was_replaced_grants_nothing_until_the_original_is_back(
    seen_missing: bool,
) -> None:
    shared = RootsOnDisk()
    original = shared.disk.remove("/team/a")
    if seen_missing:
        assert shared.look() == ["/team/b"]
    shared.disk.plant("/team/a/")
    assert shared.look() == ["/team/b"]
    assert shared.presence.absent == (Rejected("file:///team/a", RootCondition.REPLACED.value),)
    assert shared.look() == ["/team/b"], "looking twice does not make it the original"
    shared.disk.entries["/team/a"] = original
    assert shared.look() == ["/team/a", "/team/b"]


@pytest.mark.parametrize("seen", [True, False])
def test_a_root_never_comes_back_through_a_link(seen: bool) -> None:
    shared = RootsOnDisk()
    shared.disk.remove("/team/a")
    if seen:
        assert shared.look() == ["/team/b"]
    shared.disk.plant("/team/a => /etc")
    assert shared.look() == ["/team/b"]
    shared.disk.entries["/team/a"] = shared.disk.entries["/etc"]
    assert shared.look() == ["/team/b"], "nor does the link's target in its place"


def test_a_link_above_a_root_moves_the_root() -> None:
    shared = RootsOnDisk("/team/a/", "/elsewhere/a/", roots=("/team/a",))
    shared.disk.plant("/team => /elsewhere")
    assert shared.look() == []
    assert shared.presence.roots[0][1] is RootCondition.REPLACED


def test_a_file_does_not_replace_a_directory_nor_the_reverse() -> None:
    shared = RootsOnDisk("/team/a/", "/team/b", roots=("/team/a", "/team/b"))
    for path, other in (("/team/a", "/team/a"), ("/team/b", "/team/b/")):
        shared.disk.remove(path)
        shared.look()
        shared.disk.plant(other)
    assert shared.look() == []
    assert {how for _, how in shared.presence.roots} == {RootCondition.REPLACED}


def test_a_root_that_cannot_be_looked_at_is_gone() -> None:
    shared = RootsOnDisk()
    shared.disk.unreadable.add("/team")
    assert shared.look() == []
    shared.disk.unreadable.clear()
    assert shared.look() == ["/team/a", "/team/b"]


def test_a_root_that_vanishes_between_the_two_looks_is_gone() -> None:
    class Racing(FakeLinks):
        looks = 0

        def entry(self, path: str) -> Entry | None:
            self.looks += path == "/team/a"
            return None if self.looks > 1 and path == "/team/a" else super().entry(path)

    shared = RootsOnDisk()
    racing = Racing()
    racing.entries = shared.disk.entries
    assert shared.presence.refresh(racing, POSIX).present.paths == ("/team/b",)


def test_roots_in_their_places_are_unmoved_and_others_are_not() -> None:
    shared = RootsOnDisk()
    assert shared.presence.is_unchanged(shared.disk, POSIX)
    original = shared.disk.remove("/team/a")
    assert not shared.presence.is_unchanged(shared.disk, POSIX)
    shared.look()
    assert shared.presence.is_unchanged(shared.disk, POSIX), "it is known to be gone"
    shared.disk.entries["/team/a"] = original
    assert not shared.presence.is_unchanged(shared.disk, POSIX), "it is back"


def test_a_root_that_cannot_be_looked_at_is_not_unmoved() -> None:
    shared = RootsOnDisk()
    shared.disk.remove("/team/a")
    shared.disk.remove("/team/b")
    shared.disk.remove("/team")
    shared.disk.plant("/team")
    assert not shared.presence.is_unchanged(shared.disk, POSIX)


def test_a_root_that_may_no_longer_be_looked_at_is_not_unmoved() -> None:
    shared = RootsOnDisk()
    shared.disk.unreadable.add("/team/b")
    assert shared.presence.is_unchanged(shared.disk, POSIX) is False


def test_roots_that_are_all_known_to_be_gone_are_unmoved_until_one_is_back() -> None:
    shared = RootsOnDisk(roots=("/team/a",))
    shared.disk.remove("/team/a")
    assert shared.look() == []
    assert shared.presence.is_unchanged(shared.disk, POSIX)
    shared.disk.plant("/team/a/")
    assert not shared.presence.is_unchanged(shared.disk, POSIX)
