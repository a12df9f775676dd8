import pytest

from hub.paths.resolve import Entry, Flavour
from hub.roots.roots import Rejected, RootCondition, RootPresence, root_from_path
from tests.kit.fakes import FakeLinks

POSIX = Flavour.POSIX


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


def test_a_root_that_vanishes_grants_nothing_and_comes_back_in_its_place() -> None:
    shared = RootsOnDisk()
    shared.disk.remove("/team/a")
    assert shared.look() == ["/team/b"]
    assert shared.presence.absent == (Rejected("file:///team/a", RootCondition.GONE.value),)
    shared.disk.plant("/team/a/")
    assert shared.look() == ["/team/a", "/team/b"]
    assert shared.presence.absent == ()
    assert shared.look() == ["/team/a", "/team/b"], "its new identity is the one that counts now"


def test_a_root_that_was_replaced_grants_nothing_until_the_original_is_back() -> None:
    shared = RootsOnDisk()
    original = shared.disk.remove("/team/a")
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
