"""Finding tools by words, and telling of them in few."""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.catalog import search
from hub.catalog.merge import Catalog, Listing, Offer
from hub.catalog.names import MAX_LENGTH, Names
from hub.catalog.search import (
    MAX_PATTERN,
    MAX_WORDS,
    Pattern,
    SearchError,
    near,
    search_catalog,
    summary,
    tool_of,
    tools_of,
)
from hub.values import BuiltinRoute, JsonObject, ServerName

READ: JsonObject = {
    "name": "read_text_file",
    "title": "Reader",
    "description": "Reads a file as UTF-8.\nOnly inside the roots.",
}
FILES, GIT, LATE = ServerName("files"), ServerName("git"), ServerName("late")
META: JsonObject = {"name": "find-tools"}


def catalog(**more: Any) -> Catalog:
    """Return the catalog of two servers that have listings and one that has none."""
    listings = {
        GIT: Listing(tools=({"name": "git_log"}, {"name": "status"})),
        FILES: Listing(
            tools=(READ, {"name": "move_file"}, {**READ, "title": "again"}, {"name": 7}),
            prompts=({"name": "ask"},),
            resources=({"uri": "file:///a", "name": "a"},),
        ),
    }
    given = {"offers": {FILES: Offer(deny=("move_*",))}, **more}
    return search_catalog(listings, names=Names([FILES, GIT, LATE]), builtins=[META], **given)


@pytest.mark.parametrize(
    ("pattern", "matches"),
    [
        ("read", True),
        ("READ", True),
        ("text read", True),
        ("read image", False),
        ("read*file", True),
        ("utf*file", False),
        ("image|text", True),
        ("image | roots", True),
        ("image|video", False),
        ("read.*file", True),
        ("*", True),
        ("reader", True),
        ("^read", False),
        ("utf-8.", True),
        ("|read||", True),
    ],
)
def test_words_must_all_occur_in_one_of_the_alternatives(pattern: str, matches: bool) -> None:
    assert Pattern.parse(pattern).matches(READ) is matches


@pytest.mark.parametrize(
    ("where", "pattern", "matches"),
    [
        ("name", "text", True),
        ("name", "utf", False),
        ("description", "utf", True),
        ("description", "reader", True),
        ("description", "_text_", False),
        ("both", "_text_ utf", True),
    ],
)
def test_a_search_can_be_limited_to_names_or_texts(where: Any, pattern: str, matches: bool) -> None:
    assert Pattern.parse(pattern, search_in=where).matches(READ) is matches


def test_case_counts_only_if_asked_for() -> None:
    assert Pattern.parse("UTF", case_sensitive=True).matches(READ)
    assert not Pattern.parse("utf", case_sensitive=True).matches(READ)


@pytest.mark.parametrize("text", ["", "  ", "|", " | | "])
def test_an_empty_pattern_is_answered_with_the_syntax(text: str) -> None:
    with pytest.raises(SearchError, match=r"^The pattern is empty\. Words separated by spaces"):
        Pattern.parse(text)


def test_a_pattern_has_a_length_it_cannot_exceed() -> None:
    Pattern.parse("x" * MAX_PATTERN)
    with pytest.raises(SearchError, match="too long: at most 200"):
        Pattern.parse("x" * (MAX_PATTERN + 1))


def test_a_pattern_has_a_number_of_words_it_cannot_exceed() -> None:
    words = [f"w{number}" for number in range(MAX_WORDS + 1)]
    assert Pattern.parse("|".join(words[1:])).matches({"name": words[-1]})
    Pattern.parse(" ".join(words[1:] * 3))
    for spelled in (" ".join(words), "|".join(words), " ".join(words[2:]) + "|x|y z"):
        with pytest.raises(SearchError, match="too many words: at most 16"):
            Pattern.parse(spelled)


@pytest.mark.parametrize(
    "pattern", ["(a+)+$", "a*" * 100, "(a|a)*b", "a|" * 99 + "b", ".*" * 100, "*a*a*a*b " * 20]
)
def test_patterns_that_hang_regular_expressions_are_searched_at_once(pattern: str) -> None:
    """A backtracking search would not end before pytest's own time limit."""
    tool: JsonObject = {"name": "a" * 5000, "description": "a" * 1_000_000}
    searched = Pattern.parse(pattern[:MAX_PATTERN])
    assert {searched.matches(tool) for _ in range(300)} <= {True, False}


@given(st.text(max_size=MAX_PATTERN), st.text(), st.text(), st.booleans())
def test_any_pattern_gives_an_answer(text: str, name: str, about: str, exact: bool) -> None:
    try:
        pattern = Pattern.parse(text, case_sensitive=exact)
    except SearchError:
        assert len(text.replace("|", " ").split()) not in range(1, MAX_WORDS + 1)
    else:
        assert pattern.matches({"name": name, "description": about}) in {True, False}


@given(st.text("ab_", min_size=1, max_size=8), st.text("ab_", max_size=30))
def test_a_word_without_stars_matches_where_it_occurs(word: str, name: str) -> None:
    assert Pattern.parse(word).matches({"name": name}) is (word in name)


@pytest.mark.parametrize(
    ("tool", "about"),
    [
        (READ, "Reads a file as UTF-8."),
        ({"name": "t", "title": "Title"}, "Title"),
        ({"name": "t", "description": "\n  First.  \nSecond."}, "First."),
        ({"name": "t", "description": "word " * 100}, ("word " * 100)[:119].rstrip() + "…"),
        ({"name": "t"}, None),
        ({"name": "t", "description": " \n"}, None),
        ({"name": "t", "description": 7}, None),
    ],
)
def test_a_summary_is_the_name_and_the_first_line(tool: JsonObject, about: str | None) -> None:
    expected = {"toolName": tool["name"]} | ({} if about is None else {"description": about})
    assert summary(tool) == expected


def test_only_the_hubs_own_tools_are_public() -> None:
    made = catalog()
    assert made.tools == (META,)
    assert made.tool_routes == {"find-tools": BuiltinRoute("find-tools")}
    assert made.tool("files__read_text_file") is None


def test_resources_and_prompts_are_public_as_ever() -> None:
    made = catalog()
    assert [prompt["name"] for prompt in made.prompts] == ["files__ask"]
    assert [resource["uri"] for resource in made.resources] == ["file:///a"]


def test_names_that_collide_without_prefixes_do_no_harm() -> None:
    same = {FILES: Listing(tools=(READ,)), GIT: Listing(tools=(READ,))}
    made = search_catalog(same, names=Names([FILES, GIT], "never"), offers={}, builtins=[])
    assert [list(tools) for tools in made.own_tools.values()] == [["read_text_file"]] * 2


def test_a_very_long_name_is_shown_shortened_and_leads_to_the_tool() -> None:
    tool: JsonObject = {"name": "t" * 100_000}
    made = search_catalog(
        {FILES: Listing(tools=(tool,))}, names=Names([FILES], "auto"), offers={}, builtins=[]
    )
    (shown,) = made.own_tools[FILES]
    assert len(shown) <= MAX_LENGTH
    assert tool_of(made, FILES, shown).name == tool["name"]


def test_tools_are_found_by_their_servers_own_names_in_the_order_of_the_config() -> None:
    made = catalog()
    assert {server: list(tools) for server, tools in made.own_tools.items()} == {
        FILES: ["read_text_file"],
        GIT: ["git_log", "status"],
    }
    assert list(made.own_tools) == [FILES, GIT]
    route = tool_of(made, FILES, "read_text_file")
    assert (route.server, route.name) == (FILES, "read_text_file")
    assert route.definition is READ, "guards are kept by the child's own object"


@pytest.mark.parametrize(
    ("server", "tool", "text"),
    [
        ("fles", "x", "Unknown server 'fles' (did you mean 'files'?)"),
        ("zzz", "x", "Unknown server 'zzz' (list-servers shows the servers)"),
        ("late", "x", "The tools of server 'late' are not known"),
        ("git", "gitlog", "Unknown tool 'gitlog' of server 'git' (did you mean 'git_log'?)"),
        ("git", "git__status", "Unknown tool 'git__status' of server 'git' (did you mean 'status'"),
        ("git", "read_text_file", "Unknown tool 'read_text_file' of server 'git' (server 'files' "),
        ("git", "zzz", "Unknown tool 'zzz' of server 'git' (find-tools shows its tools)"),
        ("git", "z" * 9999, f"Unknown tool '{'z' * 100}…' of server 'git' (find-tools"),
    ],
)
def test_an_unknown_name_is_an_error_with_similar_names(server: str, tool: str, text: str) -> None:
    with pytest.raises(SearchError) as raised:
        tool_of(catalog(), ServerName(server), tool)
    assert str(raised.value).startswith(text)


@pytest.mark.parametrize("name", ["move_file", "move", "MOVE_FILE"])
def test_a_denied_tool_is_neither_there_nor_named(name: str) -> None:
    with pytest.raises(SearchError) as raised:
        tool_of(catalog(), FILES, name)
    assert "move_file" not in str(raised.value).partition("(")[2]
    assert "move_file" not in tools_of(catalog(), FILES)


def test_similar_names_are_spelled_alike_or_contain_the_name() -> None:
    known = ["read_text_file", "write_file", "Search", "find_by_search_term", "x"]
    assert near("read_text_flie", known) == ["read_text_file"]
    assert near("SEARCH", known) == ["Search", "find_by_search_term"]
    assert near("", known) == []
    assert len(near("tool_1", [f"tool_{number}" for number in range(50)])) == 3


def test_few_names_are_compared_exactly_however_many_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All other clients wait for the comparison."""
    compared: list[float] = []

    class CountedMatcher(SequenceMatcher[str]):
        def ratio(self) -> float:
            compared.append(super().ratio())
            return compared[-1]

    monkeypatch.setattr(search, "SequenceMatcher", CountedMatcher)
    known = [f"{'read_write_' * 7}{number}" for number in range(3000)]
    assert near(f"{'read_write_' * 7}2_34", [*known, "x"])[0] == f"{'read_write_' * 7}234"
    assert 0 < len(compared) < 100


def test_invisible_characters_of_a_tool_are_escaped_and_its_shown_name_finds_it() -> None:
    tool: JsonObject = {"name": "rm\u202eall", "description": "a\x1b[8mb"}
    made = search_catalog(
        {GIT: Listing(tools=(tool,))}, names=Names([GIT]), offers={}, builtins=[META]
    )
    (shown,) = tools_of(made, GIT)
    assert shown.isascii()
    route = tool_of(made, GIT, shown)
    assert route.name == "rm\u202eall"
    assert summary(route.definition) == {"toolName": shown, "description": "a\\x1b[8mb"}
