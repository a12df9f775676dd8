from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.legible import legible, legible_entry, on_one_line, shortened
from hub.values import JsonObject

HIDDEN = [
    *("\x00", "\x07", "\x1b", "\x7f", "\x9b", "\u061c", "\u200b", "\u200e", "\u200f"),
    *(
        "\u202a",
        "\u202e",
        "\u2060",
        "\u2066",
        "\u2069",
        "\ufeff",
        "\U000e0041",
        "\U000e0101",
        "\ud800",
    ),
]


@pytest.mark.parametrize("hidden", HIDDEN)
def test_invisible_characters_are_escaped(hidden: str) -> None:
    spelled = hidden.encode("unicode_escape").decode()
    assert legible(f"é{hidden}b\n") == f"é{spelled}b\n"
    assert on_one_line(f"é{hidden}b\n") == f"é{spelled}b\\n"
    assert legible(hidden) == spelled


@pytest.mark.parametrize(
    "text",
    [
        "two\nlines\r\nand a\ttab",
        "e\u0301 ünï 文件 ελ",
        "\U0001f468\u200d\U0001f469\u200d\U0001f467 family",
        "\u2764\ufe0f heart",
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",  # Persian needs the joiner
        "C:\\path\\x1b",
        "",
    ],
)
def test_ordinary_text_is_unchanged(text: str) -> None:
    assert legible(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\u200db", "a\\u200db"),
        ("\u200cb", "\\u200cb"),
        ("é\u200c\u200d", "é\u200c\\u200d"),
        ("é\ufe00\ufe01\ufe02", "é\ufe00\\ufe01\\ufe02"),
        ("\ufe00x", "\\ufe00x"),
        ("a\rb", "a\\rb"),
    ],
)
def test_joiners_are_escaped_where_no_script_needs_them(text: str, shown: str) -> None:
    assert legible(text) == shown


@given(st.text())
def test_nothing_that_moves_a_terminal_is_left(text: str) -> None:
    kinds = {
        unicodedata.category(char) for char in legible(text) if char not in "\n\t\r\u200c\u200d"
    }
    assert not kinds & {"Cc", "Cs", "Zl", "Zp"}
    assert on_one_line(text).isprintable()
    assert legible(legible(text)) == legible(text)


def test_an_entry_with_nothing_hidden_is_the_very_same() -> None:
    entry: JsonObject = {
        "name": "a",
        "description": "fine\n",
        "inputSchema": {"anyOf": [{"title": "T"}, 1]},
    }
    assert legible_entry(entry) is entry


@given(st.text(st.characters(codec=None) | st.sampled_from('\\ubfnrt"\x00\x08\r\x1b\x7f')))
def test_what_is_hidden_is_found_in_any_entry(text: str) -> None:
    entry: JsonObject = {"name": "a", "inputSchema": {"properties": {"b": {"title": text}}}}
    assert legible_entry(entry) == {
        "name": "a",
        "inputSchema": {"properties": {"b": {"title": legible(text)}}},
    }


def test_texts_are_looked_for_at_any_depth() -> None:
    entry: JsonObject = {
        "inputSchema": {"anyOf": [{"items": [{"description": "\x1b"}]}, {"title": ["\x1b"]}]}
    }
    shown = {"inputSchema": {"anyOf": [{"items": [{"description": "\\x1b"}]}, {"title": ["\x1b"]}]}}
    assert legible_entry(entry) == shown


@pytest.mark.parametrize("name", ["default", "const", "enum", "examples", "example", "properties"])
@pytest.mark.parametrize("key", ["properties", "patternProperties", "$defs", "definitions"])
def test_no_name_of_a_property_hides_its_description(key: str, name: str) -> None:
    value: JsonObject = {"title": "\x1b"}
    entry: JsonObject = {key: {name: {"description": "\x1b", "default": value}}}
    assert legible_entry(entry) == {key: {name: {"description": "\\x1b", "default": value}}}


def test_a_long_text_is_cut_and_says_how_much_was_left_out() -> None:
    assert shortened("four", 4) == "four"
    assert shortened("x" * 2500, 4) == "xxxx... (2,496 characters left out)"
