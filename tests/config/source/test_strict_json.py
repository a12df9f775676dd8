import pytest

from hub.config.source.json_text import read_json
from hub.config.source.places import SyntaxMistakesError


def test_comments_and_trailing_commas_are_allowed() -> None:
    text = '{"a": ["//x", "/*", 1,], /* b */ "c": "d,}", // e\n}'
    assert read_json(text) == {"a": ["//x", "/*", 1], "c": "d,}"}
    assert read_json(" // nothing") is None


def test_a_number_knows_how_it_was_written() -> None:
    found = read_json('{"a": 1.10}')
    assert isinstance(found, dict)
    assert found["a"] == 1.1  # pyright: ignore[reportUnknownMemberType] - parsed JSON
    assert found["a"].written == "1.10"  # pyright: ignore[reportUnknownMemberType] - parsed JSON


@pytest.mark.parametrize(
    ("text", "at", "what", "fix"),
    [
        ('{"a": 1, "a": 2}', 9, "duplicate key 'a'", "Keep one"),
        ('{"a": {"b": 1, "b": 2}}}, "\\x": [', 15, "duplicate key 'b'", "Keep one"),
        ('{"a": 1 "b": 2}', 7, "a comma is missing", "Put a comma here."),
        ('{"a": 1\n"b": 2}', 7, "a comma is missing", "Put a comma here."),
        ('{"a" 1}', 4, "a `:` is missing after the key", 'Write "key": value.'),
        ("{a: 1}", 1, "a key in double quotes is expected", 'Write "a".'),
        ('{"a": True}', 6, "JSON has no word `True`", "Write true."),
        ('{"a": npx}', 6, "a value is expected", "Put the text in double quotes."),
        ('{"a": }', 6, "a value is expected", "Write a value"),
        ("{'a': 1}", 1, "a text has the wrong quotes", "Write double quotes"),
        ('{"a": "C:\\Users"}', 9, "a `\\` begins an escape", r"Write each \ twice."),
        ('{"a": "b\n}', 6, "a quote is not closed on its line", "Close it"),
        ('{"a": "b', 6, "a quote is not closed on its line", "Close it"),
        ('{"a": {"b": 1}', 14, "the text ends too early", "Close every"),
        ('{"a": 1}}', 8, "there is text after", "Take it out."),
        ('{"a": NaN}', 6, "has a number that cannot be read", "Put it in quotes."),
        ('{"a": ["x": 1]}', 10, "a `:` is not expected here", "Write lists"),
        ("version: 1", 0, "does not begin with {", "Name a YAML file .yaml"),
        ('{"a": 1} /* b', 9, "there is text after", "Take it out."),
        ('{"a": "b\\', 6, "a quote is not closed on its line", "Close it"),
        ("[" * 100_000, 0, "is nested too deeply", "Take brackets"),
        ('{"a": ' + "[" * 900 + "]" * 900 + "}", 0, "is nested too deeply", "Take brackets"),
    ],
)
def test_a_mistake_has_a_place_and_a_remedy(text: str, at: int, what: str, fix: str) -> None:
    with pytest.raises(SyntaxMistakesError) as raised:
        read_json(text)
    (mistake,) = raised.value.mistakes
    assert (mistake.at, mistake.what[: len(what)], mistake.fix[: len(fix)]) == (at, what, fix)
