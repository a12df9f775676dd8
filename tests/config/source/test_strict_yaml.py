import pytest

from hub.config.source.places import SyntaxMistakesError
from hub.config.source.strict_yaml import read_yaml


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", None),
        ("a: [1, off, ~]", {"a": [1, False, None]}),
        ("{b: {c: 1}, d: {c: 2}}", {"b": {"c": 1}, "d": {"c": 2}}),
        ("- a\n- a", ["a", "a"]),
    ],
)
def test_it_is_read_as_yaml_is(text: str, said: object) -> None:
    assert read_yaml(text) == said


def test_keys_and_the_texts_of_a_server_are_as_they_are_written() -> None:
    text = """
on: {1: x, no: y}
env: {V: 1.10, M: 0755, D: off, N: 1e3, W: 2026-01-01, T: "x", E: }
args: [8080, 1.10, yes, x]
port: 1.10
"""
    assert read_yaml(text) == {
        "on": {"1": "x", "no": "y"},
        "env": {
            "V": "1.10",
            "M": "0755",
            "D": "off",
            "N": "1e3",
            "W": "2026-01-01",
            "T": "x",
            "E": None,
        },
        "args": ["8080", "1.10", "yes", "x"],
        "port": 1.1,
    }


def test_a_merge_is_no_duplicate() -> None:
    text = """
a: &a {command: x, args: [a]}
b: {<<: *a, args: [b]}
"""
    said = read_yaml(text)
    assert said == {"a": {"command": "x", "args": ["a"]}, "b": {"command": "x", "args": ["b"]}}


BOMB = "a0: &a0 [a,a,a,a,a,a,a,a,a]\n" + "".join(
    f"a{at}: &a{at} [{','.join([f'*a{at - 1}'] * 9)}]\n" for at in range(1, 20)
)
"""A kilobyte that stands for 9 to the power of 20 values."""


@pytest.mark.parametrize(
    ("text", "at", "what", "fix"),
    [
        ("version: 1\nversion: 1", 11, "duplicate key 'version'", "Keep one of them."),
        ("a: {b: 1, c: 2, b: 3}", 16, "duplicate key 'b'", "Keep one"),
        ("servers:\n\ta: 1", 9, "a tab is used to indent", "Indent with spaces."),
        ("a: b: c", 4, "a `:` is not expected here", "Indent the line"),
        ("a:\n  b: 1\n c: 2", 11, "the indentation does not fit", "Indent all keys"),
        ("a\nb: 1", 0, "a `:` is missing after the key", "Write `a:`."),
        ("b:1\nc: 1", 0, "a space is missing after the `:`", "Write `b: ...`."),
        ("b: 1\nc\n  d: 1", 5, "a `:` is missing after the key", "Write `c:`."),
        ("a: {b: c: d}", 8, "a `:` is not expected here", "Put a text"),
        ("a: [1, 2\nb: 3", 3, "a `[` is not closed", "Close it with `]`."),
        ("a: [x, ${roots}]", 8, "a text with a `{` between brackets needs quotes", "Put it in"),
        ("a: {b: ${X}}", 8, "a text with a `{` between brackets needs quotes", "Put it in quotes"),
        ("a: {b: 1\n", 3, "a `{` is not closed", "Close it with `}`."),
        ('a: "b\nc: 1', 3, "a quote is not closed", "Close it."),
        ("a: - b", 3, "a list cannot begin here", "Write each `- ` on a line"),
        ('a: "C:\\Users"', 6, "a `\\` in double quotes", "Write each \\ twice"),
        ("a: [*]", 5, "a text that begins with `*`", "Put it in quotes"),
        ("a: ['-y' 'x']", 9, "a comma is missing", "Put a comma here."),
        ("a: 'it's'", 7, "there is text after the value", "Put the whole text in quotes"),
        ("a:\n- b\n-c\n", 7, "a space is missing after the `-`", "Write `- c`"),
        ("a: *b", 3, "a text that begins with `*`", "Put it in quotes"),
        ("a: @b", 3, "a text cannot begin with this", "Put the text in quotes."),
        ("a: !b c", 3, "a text that begins with `!`", "Put the text in quotes."),
        ("? {a: 1}\n: 1", 2, "braces within braces", "Put the text in quotes."),
        ("a: 1\n---\nb: 1", 5, "the file has a second document", "Take the line `---`"),
        ("a: \x07", 3, "has a character that YAML does not allow (U+0007)", "Take it out."),
        ("a: 2026-13-01", 3, "has a date that does not exist", "Correct it"),
        ("b: 1\na: 2026-01-01T25:00:00", 8, "has a date that does not exist", "Correct it"),
        ("a: " + "1" * 5000, 3, "has a number that cannot be read", "Put it in quotes"),
        ('a: !!int ""', 3, "is not what its tag (`!!`) says", "Take the tag out"),
        ("a: !!float x", 3, "is not what its tag (`!!`) says", "Take the tag out"),
        ("a: [!!bool maybe]", 4, "is not what its tag (`!!`) says", "Take the tag out"),
        ("a: !!timestamp x", 3, "is not what its tag (`!!`) says", "Take the tag out"),
        ("a: !!map x", 0, "has a value that is not what its tag (`!!`) says", "Take the tag"),
        ("a: " + "[" * 5000, 0, "is nested too deeply", "Take brackets out."),
        ("a: &a [b, *a]", 3, "stands for a value that contains it", "Write the value out."),
        (
            BOMB,
            216,
            "has more than 100000 values, with its aliases written out",
            "Use fewer aliases.",
        ),
        ("<<: 1", 4, "`<<` needs a mapping", "Put the text in quotes."),
    ],
)
def test_a_mistake_has_a_place_and_a_remedy(text: str, at: int, what: str, fix: str) -> None:
    with pytest.raises(SyntaxMistakesError) as raised:
        read_yaml(text)
    (mistake,) = raised.value.mistakes
    assert (mistake.at, mistake.what[: len(what)], mistake.fix[: len(fix)]) == (at, what, fix)


def test_all_duplicate_keys_are_found() -> None:
    with pytest.raises(SyntaxMistakesError) as raised:
        read_yaml("a: 1\na: 2\nb: {c: 1, c: 2}")
    assert len(raised.value.mistakes) == 2


def test_a_server_may_be_named_like_a_key_with_texts() -> None:
    found = read_yaml("servers: {headers: {timeout: 20, env: {V: 1.10}}}")
    assert found == {"servers": {"headers": {"timeout": 20, "env": {"V": "1.10"}}}}
