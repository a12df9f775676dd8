from pathlib import Path

import pytest
from msgspec.structs import replace

from hub.guard.budget import TooMuchError
from hub.guard.containment import OUTSIDE, CallContext, PathTracer
from hub.guard.policy import DenyPatterns, Policy
from hub.paths.resolve import Entry, LinkReader, PathError
from hub.roots.roots import EMPTY, root_set
from hub.system.machine import OsDisk
from tests.kit.trees import PROJECT, plant
from tests.kit.worlds import POSIX, context, on_windows, share

NO_DIRECTORY = "it passes through something that is not a directory"
DENY_ENV = Policy(deny=DenyPatterns((".env",)))


class Unreadable(LinkReader):
    """A disk that does not answer."""

    def entry(self, path: str) -> Entry | None:
        raise PathError("the system cannot look it up")

    def target(self, path: str) -> str:
        raise AssertionError(path)


def of(world: CallContext, policy: Policy | None = None) -> PathTracer:
    return PathTracer(world, policy or Policy(), needs_write=True)


def objections(where: PathTracer, text: str, *, strict: bool) -> list[str | None]:
    return [evaluated.objection for evaluated in where.follow(text, "as given", strict=strict)]


def test_a_plain_path_is_followed_directory_by_directory(tmp_path: Path) -> None:
    top = plant(tmp_path, *PROJECT, "project/evil => ../private", "way => project")
    where = of(context(share(top / "project")))
    for inside in ("project", "project/a.txt", "way/src/new/x", "project/src/a.py"):
        assert where.objection(f"{top}/{inside}") is None
    for outside in ("project/evil/x", "private", "project2/x.txt"):
        assert where.objection(f"{top}/{outside}") == OUTSIDE
    assert where.objection(f"{top}/project/a.txt/x") == NO_DIRECTORY
    assert where.objection(f"{top}/docs/b.md/x") == OUTSIDE


def test_a_root_that_was_replaced_is_no_shortcut(tmp_path: Path) -> None:
    top = plant(tmp_path, *PROJECT)
    roots = share(top / "project")
    (top / "project").rename(top / "gone")
    (top / "project").symlink_to(top / "private")
    assert of(context(roots)).objection(f"{top}/project/secret.txt") == OUTSIDE


def test_a_relative_value_is_followed_from_everywhere_it_can_start(tmp_path: Path) -> None:
    top = plant(tmp_path, *PROJECT, "docs/evil => ../private", "docs/a.txt")
    where = of(context(share(top / "project", top / "docs"), top / "project"))
    assert objections(where, "src/a.py", strict=True) == [None, None]
    assert objections(where, "evil/x", strict=True) == [None, OUTSIDE]
    assert objections(where, "evil/x", strict=False) == [OUTSIDE]
    assert objections(where, "new/x", strict=False) == []
    assert objections(where, "src/../a.txt", strict=True) == [None, None, None, None]
    assert OUTSIDE in objections(where, "../x", strict=False)
    (refused, *_) = objections(where, "none/../a.txt", strict=True)
    assert refused == "it has '..' after a component that does not exist"
    (refused, *_) = objections(where, "README.md/x", strict=True)
    assert refused == NO_DIRECTORY


def test_a_relative_value_is_followed_from_each_directory_that_a_server_reads(
    tmp_path: Path,
) -> None:
    top = plant(tmp_path, *PROJECT, "way => private")
    inside = context(share(top / "project"), top / "project")
    for start in (f"{top}/private", f"{top}/way", f"{top}/private/"):
        where = of(replace(inside, starts=(start, f"{top}/project")))
        assert objections(where, "a.txt", strict=True) == [None, OUTSIDE]
        assert objections(where, "secret.txt", strict=False)[-1:] == [OUTSIDE]
        assert where.has("secret.txt")
    for nowhere in ("none", "project/a.txt", "project"):
        where = of(replace(inside, starts=(f"{top}/{nowhere}",)))
        assert objections(where, "a.txt", strict=True) == [None]


def test_a_directory_that_cannot_be_looked_up_may_be_read_from(tmp_path: Path) -> None:
    inside = context(share(tmp_path), str(tmp_path))
    where = of(replace(inside, starts=("/else",), links=Unreadable()))
    assert where.bases == (str(tmp_path), "/else")


def test_a_relative_value_is_looked_for_near_a_servers_own_folders(tmp_path: Path) -> None:
    """It is unknown whether the server reads from there: what is not there is not refused."""
    top = plant(tmp_path, *PROJECT, "private/a/x", "private/file")
    inside = context(share(top / "project"), top / "project")
    where = of(replace(inside, near=(f"{top}/private", f"{top}/docs/b.md", f"{top}/none")))
    for named in ("secret.txt", "./secret.txt", "a/new", "../private/file", "a/../file"):
        assert OUTSIDE in objections(where, named, strict=True)
    for named in (".", "./", "a.txt", "src/a.py", "new/a", "src/../a.txt"):
        assert set(objections(where, named, strict=True)) == {None}
    windows = of(replace(on_windows("D:\\R"), near=("E:\\data",)))
    assert OUTSIDE in objections(windows, "x", strict=True)


def test_a_relative_value_without_a_directory_is_outside(tmp_path: Path) -> None:
    assert objections(of(context(EMPTY)), "a", strict=True) == [OUTSIDE]
    assert objections(of(context(EMPTY)), "a/b", strict=False) == []
    assert objections(of(context(EMPTY, enforcing=False)), "a", strict=True) == []
    top = plant(tmp_path, *PROJECT)
    only_a_file = context(root_set(share(top / "project/a.txt").roots))
    assert objections(of(only_a_file), "a", strict=True) == [OUTSIDE]


def test_a_drive_means_nothing_here(tmp_path: Path) -> None:
    where = of(context(share(tmp_path)))
    assert objections(where, "C:\\x", strict=True) == [OUTSIDE]
    assert objections(where, "C:/x", strict=False) == []


def test_whether_something_is_there(tmp_path: Path) -> None:
    top = plant(tmp_path, "a")
    where = of(CallContext(share(top), None, {}, OsDisk(), POSIX))
    assert where.exists(f"{top}/a")
    assert not where.exists(f"{top}/b")
    assert not where.exists(f"{top}/{'b' * 300}")
    assert not where.exists(f"{top}/a/x")  # nothing is below a file
    unreadable = CallContext(share(top), None, {}, Unreadable(), POSIX)
    assert of(unreadable).exists(f"{top}/a")


def test_whether_a_name_is_at_the_top(tmp_path: Path) -> None:
    assert of(context(share(tmp_path))).is_top("etc")
    assert not of(context(share(tmp_path))).is_top("no-such-folder")
    assert of(on_windows("D:\\R")).is_top("Windows")


def test_which_paths_are_absolute(tmp_path: Path) -> None:
    assert of(context(share(tmp_path))).is_absolute("/a")
    assert not of(context(share(tmp_path))).is_absolute("a")
    assert not of(on_windows("C:\\R")).is_absolute("\\\\server\\share")


def test_deny_patterns_match_a_link_and_its_target(tmp_path: Path) -> None:
    top = plant(tmp_path, "p/.env", "p/alias => .env", "p/x", "q/.env => ../p/x")
    where = of(context(share(top / "p", top / "q"), top / "p"), DENY_ENV)
    denied = "it matches one of the operator's deny patterns"
    assert denied in objections(where, "alias", strict=True)
    assert denied in objections(where, f"{top}/q/.env", strict=True)
    assert denied not in objections(where, f"{top}/p/x", strict=True)
    assert denied in objections(where, "a/../.env", strict=False)


def test_patterns_have_no_case_on_windows() -> None:
    where = of(on_windows("C:\\R"), DENY_ENV)
    assert "it matches one of the operator's deny patterns" in objections(
        where, "C:\\R\\.ENV", strict=True
    )


def test_deny_patterns_apply_inside_a_granted_directory(tmp_path: Path) -> None:
    top = plant(tmp_path, "a/x", "b/x", "b/secret/x")
    (granted,) = share(top / "b").roots
    at = replace(context(share(top / "a")), granted=(granted,))
    plain = PathTracer(at, Policy(), needs_write=False)
    assert plain.objection(f"{top}/b/x") is None
    assert plain.objection(f"{top}/c") == OUTSIDE
    anchored = Policy(deny=DenyPatterns(("/secret",)))
    denying = PathTracer(at, anchored, needs_write=False)
    assert denying.objection(f"{top}/b/x") is None
    assert (
        denying.objection(f"{top}/b/secret/x") == "it matches one of the operator's deny patterns"
    )


def test_an_exhausted_budget_is_not_an_answer(tmp_path: Path) -> None:
    where = PathTracer(context(share(tmp_path)), Policy(), needs_write=False, most=0)
    for look in (where.has, where.folders_at):
        with pytest.raises(TooMuchError):
            look("x")
    assert where.objection(f"{tmp_path}/x") == TooMuchError().reason


def test_a_value_below_a_file_inside_opens_nothing(tmp_path: Path) -> None:
    top = plant(tmp_path, "project/x", "private/s", "project/leak => ../private/s")
    world = context(share(top / "project"), top / "project")
    tracer = PathTracer(world, Policy(), needs_write=True)

    def objections(text: str, *, strict: bool) -> set[str | None]:
        return {one.objection for one in tracer.follow(text, "", strict=strict)}

    assert objections("x/y", strict=False) == {None}
    assert objections("leak/y", strict=False) == {OUTSIDE}
    assert None not in objections("x/y", strict=True)
    assert objections("x/../../private/s", strict=False) == {OUTSIDE}
