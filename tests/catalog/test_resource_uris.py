from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.catalog.names import MAX_WAYS, UriTemplate, is_wrapped, possible_values, unwrapped, wrapped
from hub.errors import RouteError


def test_a_wrapped_uri_names_its_server() -> None:
    assert wrapped("notes", "memo://a/b c") == "hub+notes://memo%3A%2F%2Fa%2Fb%20c"
    assert wrapped("My_Notes", "x") == "hub++4dy+5f+4eotes://x"
    assert is_wrapped("HUB+notes://x")
    assert not is_wrapped("hub://x")


def test_a_scheme_that_a_client_lowered_is_still_known() -> None:
    assert unwrapped("notes", "Hub+Notes://x") == "x"
    assert unwrapped("Notes", "hub+notes://x") is None
    assert unwrapped("notes", "hub+notes:x") is None


@given(st.text(), st.text(st.characters(exclude_categories=())), st.text())
def test_wrapping_loses_nothing(server: str, uri: str, other: str) -> None:
    assert unwrapped(server, wrapped(server, uri)) == uri
    assert other == server or unwrapped(other, wrapped(server, uri)) is None


@pytest.mark.parametrize(
    ("template", "uri", "values"),
    [
        ("memo://all", "memo://all", ()),
        ("memo://all", "memo://al", None),
        ("memo://{id}", "memo://1", ("1",)),
        ("memo://{id}", "memo://", ("",)),
        ("memo://{id}", "memo://1/2", None),
        ("memo://{id}", "other://1", None),
        ("file:///{+path}", "file:///a/b%20c", ("a/b%20c",)),
        ("db://{table}/row/{id}", "db://t/row/7", ("t", "7")),
        ("db://{table}/row/{id}.json", "db://t/row/7.json", ("t", "7")),
        ("db://{table}/row/{id}.json", "db://t/raw/7.json", None),
        ("db://{+table}{?q,limit}", "db://t?q=1", ("", "t?q=1")),
        ("aa{x}aa", "aaa", None),
        ("{+x}", "anything://at/all", ("anything://at/all",)),
    ],
)
def test_a_template_finds_its_values(
    template: str, uri: str, values: tuple[str, ...] | None
) -> None:
    parsed = UriTemplate.parse(template)
    assert parsed.match(uri) == values
    assert values is None or parsed.filled(values) == uri


@pytest.mark.parametrize(
    ("template", "uri", "values"),
    [
        ("memo://all", "memo://all", []),
        ("memo://{id}", "other://1", []),
        ("memo://{a}/{b}", "file:///x/y", []),
        ("memo://note-{id}", "MEMO://NOTE-%2Fetc", ["%2Fetc"]),
        ("memo://{a}-{b}", "memo://x-y-z", ["x", "x-y", "y-z", "z"]),
        ("memo://{id}.md", "memo://x.md", ["x"]),
        ("memo://{a}{?b}", "memo://x?b=1", ["x?b=1"]),
        ("memo://a{.b}", "memo://a.x", [".x", "x"]),
        ("{+x}", "any://at", ["any://at"]),
        ("{a}{b}", "", []),
        ("Memo://N-{a}", "Memo://N-\u0130", ["\u0130"]),  # its lower case has another length
    ],
)
def test_a_server_may_match_in_another_way(template: str, uri: str, values: list[str]) -> None:
    assert list(possible_values([UriTemplate.parse(template)], uri)) == values


def test_the_last_of_very_many_places_counts() -> None:
    template = UriTemplate.parse("memo://{a}-{b}")
    values = list(possible_values([template], "memo://" + "-" * 500 + "x"))
    assert values[-1] == "x"
    assert len(values) < 40


def test_what_many_templates_repeat_is_looked_for_once() -> None:
    uri = "memo://" + "-" * 7000
    alike = [UriTemplate.parse(f"memo://{{a{n}}}" + "{b}-" * 20) for n in range(5000)]
    assert [*possible_values(alike, uri)] == [*possible_values(alike[:1], uri)]


IN_PAIRS = "".join(map("".join, permutations("abcdefghij", 2)))


@pytest.mark.parametrize("literals", [IN_PAIRS * 9, [f"{n}-" for n in range(MAX_WAYS + 1)]])
def test_a_uri_that_may_have_very_many_values_is_not_asked_for(literals: list[str]) -> None:
    template = UriTemplate.parse("memo://{x}" + "{x}".join(literals))
    with pytest.raises(RouteError, match="too many ways"):
        possible_values([template], "memo://" + IN_PAIRS * 20)


def test_a_templates_variables_are_named_without_what_is_said_of_them() -> None:
    parsed = UriTemplate.parse("a://{+x*}/{y:3,z}{?q}")
    assert list(parsed.variables()) == ["x", "y", "z", "q"]


def test_a_wrapped_template_is_unwrapped_byte_for_byte() -> None:
    own = UriTemplate.parse("file:///docs/{name}.md{?raw}")
    public = own.wrapped("b")
    assert public.text() == "hub+b://file%3A%2F%2F%2Fdocs%2F{name}.md{?raw}"
    values = public.match("hub+b://file%3A%2F%2F%2Fdocs%2Fa%20b.md?raw=1")
    assert values is not None
    assert own.filled(values) == "file:///docs/a%20b.md?raw=1"


@given(st.text(alphabet="ab{}+/?:", max_size=12), st.text(alphabet="ab/?:", max_size=12))
def test_a_match_always_spells_the_uri(template: str, uri: str) -> None:
    parsed = UriTemplate.parse(template)
    assert parsed.text() == template
    values = parsed.match(uri)
    assert values is None or parsed.filled(values) == uri
