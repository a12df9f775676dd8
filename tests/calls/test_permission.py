import pytest
from msgspec.structs import replace

from hub.calls.permission import CLIENT, Change, Circumstances, allowed_by, changes_for
from hub.guard.containment import OUTSIDE
from hub.guard.decide import Refused
from hub.guard.own_files import OWN
from hub.guard.policy import DenyPatterns, Policy
from hub.paths.resolve import Entry, Flavour
from hub.roots.effective import EffectiveRoots, Source
from hub.roots.roots import RootSet, UnsafePaths
from hub.values import Call, Json
from tests.kit.fakes import FakeLinks
from tests.kit.rigs import launched
from tests.kit.worlds import share

DISK = FakeLinks("/home/u/code/app/a.py", "/home/u/docs/b.md", "/srv/data/", "/top.txt", "/etc/x")
DISK.entries["/"] = Entry("directory", 1, 1)
READ = Call("tools/call", "read", {}, {})


def at(  # noqa: PLR0913 - each bounds a call on its own
    source: Source = "client",
    *,
    here: tuple[str, ...] = (),
    announced: tuple[str, ...] | None = None,
    ceiling: tuple[str, ...] | None = None,
    own: tuple[str, ...] | None = None,
    policy: Policy | None = None,
    enforcing: bool = True,
    stale: bool = False,
    has_config: bool = True,
    has_file: bool = True,
) -> Circumstances:
    """Return what a call was refused under, on the disk of these tests."""

    def roots(paths: tuple[str, ...] | None) -> RootSet | None:
        return None if paths is None else share(*paths, links=DISK)

    return Circumstances(
        spec=launched("files", policy=policy or Policy(), ceiling=roots(own)),
        effective=EffectiveRoots(
            share(*here, links=DISK), source, enforcing=enforcing, stale=stale
        ),
        ceiling=roots(ceiling),
        announced=roots(announced),
        has_config=has_config,
        links=DISK,
        flavour=Flavour.POSIX,
        has_file=has_file,
    )


def told(
    circumstances: Circumstances, place: str, reason: str = OUTSIDE, call: Call = READ
) -> list[tuple[str, str, Json]]:
    """Return the changes for a call that was refused because of `place`."""
    refused = Refused("/path", place, reason, ())
    return [
        (one.key, one.op, one.value) for one in changes_for(refused, call, circumstances, (place,))
    ]


FILE, FOLDER = "/home/u/docs/b.md", "/home/u/docs"
CODE = ("/home/u/code",)


def test_a_client_with_roots_has_to_share_the_folder_too() -> None:
    assert told(at(here=CODE, announced=CODE), FILE) == [(CLIENT, "add", FOLDER)]


def test_what_does_not_exist_needs_the_nearest_folder_above_it() -> None:
    assert told(at(here=CODE, announced=CODE), f"{FOLDER}/new/x.md") == [(CLIENT, "add", FOLDER)]


def test_at_the_top_of_the_disk_the_file_alone_is_shared() -> None:
    assert told(at(here=CODE, announced=CODE), "/top.txt") == [(CLIENT, "add", "/top.txt")]
    assert told(at(here=CODE, announced=CODE), "/none") == []


@pytest.mark.parametrize("has_config", [True, False])
def test_the_ceiling_has_to_have_the_folder_as_well(*, has_config: bool) -> None:
    found = told(at(here=CODE, announced=CODE, ceiling=CODE, has_config=has_config), FILE)
    key = "roots.ceiling" if has_config else "--root"
    assert found == [(CLIENT, "add", FOLDER), (key, "add", FOLDER)]
    assert told(at(here=CODE, announced=CODE, ceiling=("/home/u",)), FILE) == found[:1]


def test_only_the_ceiling_is_in_the_way_of_a_folder_that_the_client_shares() -> None:
    found = told(at(here=CODE, announced=("/home/u",), ceiling=CODE), FILE)
    assert found == [("roots.ceiling", "add", FOLDER)]


@pytest.mark.parametrize("source", ["--root", "HUB_ROOTS"])
def test_roots_of_the_operator_are_added_where_they_came_from(source: Source) -> None:
    assert told(at(source, here=CODE), FILE) == [(source, "add", FOLDER)]


def test_a_fallback_gets_one_folder_more_and_a_detected_project_stays() -> None:
    added = ("roots.fallback", "add", FOLDER)
    assert told(at("config", here=CODE), FILE) == [added]
    kept = ("roots.fallback", "add", "/home/u/code")
    assert told(at("detected", here=CODE), FILE) == [kept, added]


def test_where_ceilings_alone_bound_a_client_no_fallback_helps() -> None:
    bounded = at("ceiling", here=CODE, ceiling=CODE)
    assert told(bounded, FILE) == [("roots.ceiling", "add", FOLDER)]
    assert told(at("config", enforcing=False), FILE) == []
    assert told(at("config", here=("/home/u",)), FILE) == []


def test_stale_roots_that_strict_has_taken_away_come_back_without_it() -> None:
    roots = ("/home/u",)
    assert told(at(announced=roots, stale=True), FILE) == [("roots.strict", "set", False)]
    assert told(at(announced=roots, here=roots, stale=True), FILE) == []
    assert told(at(announced=roots), FILE) == []


def test_a_servers_own_directories_get_one_more_or_give_way_to_the_clients() -> None:
    both = ("/home/u",)
    assert told(at(here=CODE, announced=both, own=CODE), FILE) == [
        ("servers.files.args", "add", FOLDER)
    ]
    apart = at(announced=("/home/u/docs",), own=CODE)
    assert told(apart, FILE) == [("servers.files.roots.args", "set", "replace")]


def test_without_a_file_the_directories_of_the_command_itself_get_one_more() -> None:
    for shared in ("/home/u", "/home/u/docs"):
        bounded = at(here=CODE, announced=(shared,), own=CODE, has_file=False)
        assert told(bounded, FILE) == [("the server's own arguments", "add", FOLDER)]


def test_without_a_config_no_key_of_one_is_named() -> None:
    policy = Policy(unsafe=UnsafePaths("/home/u", Flavour.POSIX))
    for place, found in (("/etc/x", []), (FILE, [("--root", "add", FOLDER)])):
        here = at("--root", here=CODE, ceiling=CODE, policy=policy, has_config=False)
        assert told(here, place) == found


def test_each_pattern_that_denies_a_path_has_to_go() -> None:
    policy = Policy(deny=DenyPatterns(("*.md", "*.txt", "docs/")))
    refused = "it matches the operator's deny patterns"
    found = told(at(here=("/home/u",), policy=policy), FILE, refused)
    assert found == [("roots.deny", "remove", "*.md"), ("roots.deny", "remove", "docs/")]


def test_settings_that_refuse_are_named_with_the_value_that_lifts_them() -> None:
    assert told(at(), FILE, "it is not safe for sharing") == [("roots.allow_unsafe", "set", True)]
    assert told(at(), FILE, "symbolic links are not followed here") == [
        ("servers.files.guard.symlinks", "set", "follow")
    ]
    assert told(at(), FILE, "it is read-only") == [
        ("roots.access", "add", {"path": FILE, "access": "write"})
    ]


def test_a_value_that_cannot_be_read_is_said_to_be_no_path_for_tools_alone() -> None:
    odd = "it has a control character"
    key = "servers.files.tools.overrides.read.arguments"
    assert told(at(), "a\x01", odd) == [(key, "add", {"/path": "ignore"})]
    assert told(at(), "a\x01", odd, Call("prompts/get", "read", {}, {})) == []
    whole = Refused("", "", "the call is too large", ())
    assert changes_for(whole, READ, at(), ()) == ()


def test_nothing_opens_the_hubs_own_files() -> None:
    assert told(at(here=CODE, announced=CODE), FILE, OWN) == []


def test_what_a_profile_may_refuse_is_looked_for_in_it_too() -> None:
    refused = Refused("/path", FILE, OUTSIDE, (), leads_to=FILE)
    ceiling, client = at(announced=(FOLDER,), ceiling=CODE), at(announced=CODE)
    assert allowed_by(refused, READ, ceiling) == f'roots.ceiling: add "{FOLDER}"'
    profiled = allowed_by(refused, READ, replace(ceiling, profile="robots"))
    assert profiled.endswith(f'"{FOLDER}"; or the same below profiles.robots')
    assert "profiles" not in allowed_by(refused, READ, replace(client, profile="robots"))


def test_a_change_is_told_once_however_many_paths_need_it() -> None:
    circumstances = at(here=CODE, announced=CODE)
    refused = Refused("/path", FILE, OUTSIDE, ())
    found = changes_for(refused, READ, circumstances, (FILE, FOLDER, "/srv/data"))
    assert [one.value for one in found] == [FOLDER, "/srv/data"]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (Change(CLIENT, "add", "/a"), "the client has to share /a, or a folder around it"),
        (Change("--root", "add", "/a"), "--root: add /a"),
        (Change("roots.strict", "set", False), "roots.strict: set false"),
        (Change("roots.deny", "remove", "*.md"), 'roots.deny: remove "*.md"'),
    ],
)
def test_a_change_is_one_line_for_the_operator(change: Change, text: str) -> None:
    assert change.text == text
