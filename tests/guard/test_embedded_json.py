import pytest

from hub.guard.embedded_json import MAX_STRINGS, TooManyError, has_remarks, json_in, strings_in


@pytest.mark.parametrize(
    ("text", "inside"),
    [
        ("{}", "{}"),
        ("\ufeff [1] \n", "[1]"),
        ("// a\n/* b * c **/\t{", "{"),
        ("a {}", None),
        ("// a {}", None),
        ("/* a {}", None),
        ("", None),
        ("[WIP] x", None),
        ("[true]", "[true]"),
        ("[12] x", "[12] x"),
        ("{a}", None),
        ("{a: 1}", "{a: 1}"),
    ],
)
def test_what_can_be_json(text: str, inside: str | None) -> None:
    assert json_in(text) == inside


@pytest.mark.parametrize(
    ("text", "remarks"),
    [("{} // x", True), ("/*", True), ("# x", True), ("https://x/y", False), ("{}", False)],
)
def test_remarks(text: str, *, remarks: bool) -> None:
    assert has_remarks(text) is remarks


@pytest.mark.parametrize(
    ("text", "strings"),
    [
        ("{}", []),
        ('{"a": 1}', [("", "a")]),
        ('{"a": "b"', [("", "a"), ("a", "b")]),
        ("{a: 'b', c: \"d's\"}", [("a", "b"), ("a", ", c: "), ("c", "d"), ("c", "s")]),
        ('{"k": ["a", null, "b"', [("", "k"), ("k", "a"), ("k", "b")]),
        ('{"k" = "v"}', [("", "k"), ("k", " = "), ("k", "v")]),
        ('["a\\tb\\\n\\q"', [("", "a\\tb\\\n\\q"), ("", "a\tbq")]),
        ('["\\u{ffffffff}"', [("", "\\u{ffffffff}"), ("", "\ufffd")]),
    ],
)
def test_strings(text: str, strings: list[tuple[str, str]]) -> None:
    found = list(strings_in(text))
    assert [one for one in found if one in strings] == strings


def test_there_is_an_end_to_it() -> None:
    with pytest.raises(TooManyError):
        list(strings_in('"' * MAX_STRINGS))
