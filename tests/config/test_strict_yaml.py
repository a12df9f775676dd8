import pytest

from hub.config.strict_yaml import read_yaml
from hub.errors import ConfigError


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


def test_a_merge_is_no_duplicate() -> None:
    text = """
a: &a {command: x, args: [a]}
b: {<<: *a, args: [b]}
"""
    said = read_yaml(text)
    assert said == {"a": {"command": "x", "args": ["a"]}, "b": {"command": "x", "args": ["b"]}}


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("version: 1\nversion: 1", "line 2, column 1: duplicate key 'version'"),
        ("a: {b: 1, c: 2, b: 3}", "line 1, column 17: duplicate key 'b'"),
        ("? {a: 1}\n: 1", "line 1, column 3: found unhashable key"),
        ("a: [1", "line 1, column 6: "),
        ("a: !!python/name:os.system x", "line 1, column 4: could not determine a constructor"),
        ("a: \x07", "not YAML: ReaderError"),
        ("a: 2026-13-01", "not YAML: ValueError"),
        ("a: " + "[" * 5000, "not YAML: RecursionError"),
    ],
)
def test_an_error_names_its_line_and_column(text: str, where: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_yaml(text)
    assert caught.value.where.startswith(where)


def test_a_tab_as_indent_is_an_error_that_asks_for_spaces() -> None:
    with pytest.raises(ConfigError) as raised:
        read_yaml("servers:\n\ta: 1")
    assert raised.value.where.startswith("line 2, column 1: ")
    assert raised.value.fix == "Indent with spaces."
