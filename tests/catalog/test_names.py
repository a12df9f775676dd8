import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hub.catalog.names import MAX_LENGTH, Names, NamesMode, join, shorten
from hub.values import ServerName

FILES, GIT = ServerName("files"), ServerName("git")

names = st.text(alphabet="ab_-.", min_size=1, max_size=8) | st.text(max_size=80)
servers = st.lists(
    st.text(alphabet="ab_", min_size=1, max_size=6) | st.text(min_size=1, max_size=64),
    min_size=2,
    max_size=4,
    unique=True,
)


def test_several_servers_are_prefixed_and_one_is_bare() -> None:
    assert Names(["files", "git"]).public(FILES, "read_file") == "files__read_file"
    assert Names(["files"]).public(FILES, "read_file") == "read_file"


@pytest.mark.parametrize(
    ("mode", "public"), [("auto", "x"), ("always", "files__x"), ("never", "x")]
)
def test_the_mode_decides_for_one_server(mode: NamesMode, public: str) -> None:
    assert Names(["files"], mode).public(FILES, "x") == public


def test_names_never_changes_no_name() -> None:
    assert Names(["files", "git"], "never").public(GIT, "a b" * 50) == "a b" * 50


def test_a_bare_hub_can_still_prefix_one_name() -> None:
    assert Names(["files"]).prefixed(FILES, "get-roots") == "files__get-roots"


def test_a_name_that_is_too_long_or_illegal_gets_a_stable_hash() -> None:
    long = join("files", "x" * 80)
    assert long == join("files", "x" * 80)
    assert long.startswith("files__xxx")
    assert len(long) == MAX_LENGTH
    assert long != join("files", "x" * 81)
    assert join("files", "a/b c") == shorten("files", "a/b c")
    assert join("files", "") != join("files", "_")


def test_a_name_that_looks_shortened_is_shortened_too() -> None:
    forged = shorten("files", "a/b").removeprefix("files__")
    assert join("files", forged) != shorten("files", "a/b")


def test_a_tool_cannot_be_taken_for_one_of_a_server_with_a_longer_name() -> None:
    a, ab = ServerName("a"), ServerName("a__b")
    both = Names([a, ab])
    assert both.public(ab, "c") == "a__b__c"
    assert both.public(a, "b__c") == shorten("a", "b__c")
    assert both.server_of(both.public(a, "b__c")) == a
    assert both.split("a__b__c") == (ab, "c")


def test_an_unknown_prefix_belongs_to_no_server() -> None:
    assert Names(["files", "git"]).split("other__x") is None
    assert Names(["files", "git"]).server_of("read_file") is None


def test_servers_with_illegal_names_stay_apart() -> None:
    odd = Names(["My Files", "My_Files", "x" * 60, "x" * 61])
    publics = {odd.public(server, "t") for server in odd.servers}
    assert len(publics) == 4
    assert "My_Files__t" in publics


def test_a_cut_name_does_not_end_where_a_separator_would_begin() -> None:
    a = ServerName("a")
    longer = Names([a, "a__" + "x" * 37])
    assert longer.server_of(longer.public(a, "x" * 50 + "_" * 30)) == a
    cut = Names([a, "a__xxx"])
    assert {cut.server_of(cut.public(a, f"xxx{'_' * n}{'y' * 70}")) for n in range(60)} == {a}


@given(servers, names)
@example(["a", "a_"], "_b")
@example(["_", "__"], "_")
@example(["a", "a__b"], "b__c")
def test_split_is_the_inverse_of_join(known: list[str], name: str) -> None:
    table = Names(known)
    for server in table.servers:
        public = table.public(server, name)
        assert re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", public)
        assert table.server_of(public) == server
        shortened = re.fullmatch(r".*_[0-9a-f]{10}", public)
        assert table.split(public) == (None if shortened else (server, name))


@given(servers, st.lists(names, unique=True, max_size=8))
def test_no_two_pairs_share_a_public_name(known: list[str], tools: list[str]) -> None:
    table = Names(known)
    publics = [table.public(server, tool) for server in table.servers for tool in tools]
    assert len(set(publics)) == len(publics)


# What clients know without prefix


@pytest.mark.parametrize("order", [["files", "git"], ["git", "files"]])
def test_the_first_servers_bare_names_are_aliases_wherever_it_stands(order: list[str]) -> None:
    both = Names(order, first="files")
    assert both.public(FILES, "read") == "files__read"
    assert both.alias(FILES, "read") == "read"
    assert both.alias(FILES, "re\u200bad") == Names(["files"]).public(FILES, "re\u200bad")
    assert both.owner_of_alias("read") == FILES
    assert both.alias(GIT, "read") is None


@pytest.mark.parametrize("name", ["git__status", "files__x"])
def test_a_name_with_a_servers_prefix_is_no_alias(name: str) -> None:
    both = Names(["files", "git"], first="files")
    assert both.alias(FILES, name) is None
    assert both.owner_of_alias(name) is None


@pytest.mark.parametrize(
    ("known", "mode", "first"),
    [
        (["files", "git"], "auto", None),
        (["files", "git"], "auto", "gone"),
        (["files", "git"], "always", "files"),
        (["files", "git"], "never", "files"),
        (["files"], "auto", "files"),
        (["files"], "always", "files"),
        (["git"], "auto", "files"),
        ([], "auto", "files"),
    ],
)
def test_otherwise_there_are_no_aliases(known: list[str], mode: NamesMode, first: str) -> None:
    assert Names(known, mode, first).alias_server is None


def test_the_only_server_has_no_bare_names_if_they_are_another_ones() -> None:
    assert Names(["git"], first="files").public(GIT, "status") == "git__status"
    assert Names(["git"], first="git").public(GIT, "status") == "status"
    assert Names(["git"], "never", "files").public(GIT, "status") == "status"


@given(servers, names)
def test_an_alias_is_never_the_listed_name_of_anything(known: list[str], name: str) -> None:
    table = Names(known, first=known[0])
    alias = table.alias(table.servers[0], name)
    assert alias is None or table.server_of(alias) is None
