import json
from pathlib import Path

import pytest

from hub.config.source.documents import Document, Form, form_of, read
from hub.errors import ConfigError


def document(text: str, form: Form = "yaml") -> Document:
    return Document("f", text, form)


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("yaml", "a:\n  b: [1, x]\n"),
        ("json", '{"a":\n  {"b": [1, "x",]} // c\n}'),
        ("toml", '[a]\nb = [1, "x"]\n'),
    ],
)
def test_each_form_is_read(form: Form, text: str) -> None:
    assert document(text, form).raw == {"a": {"b": [1, "x"]}}
    assert document(text, form).fault(("a", "b"), "w", "f").excerpt.startswith(" --> f:2:")


@pytest.mark.parametrize(
    ("source", "form"),
    [
        ("a.json", "json"),
        ("a.jsonc", "json"),
        ("a.toml", "toml"),
        ("a.yml", "yaml"),
        ("a", "yaml"),
        (" {", "json"),
    ],
)
def test_the_name_tells_the_form(source: str, form: str) -> None:
    assert form_of(source) == form


def test_a_fault_names_the_path_and_shows_the_line() -> None:
    fault = document("a:\n  b: {c: 1, dd: 22}\n").fault(("a", "b", "dd"), "is wrong", "Do it.")
    assert str(fault).splitlines() == [
        "f: a.b.dd: is wrong",
        "Do it.",
        " --> f:2:17",
        "  |",
        "2 |   … dd: 22",
        "  |         ^^",
    ]


def test_a_wrong_key_is_underlined_instead_of_its_value() -> None:
    fault = document("a:\n  b: 1\n").fault(("a", "b"), "is wrong", "Do it.", of_key=True)
    assert fault.excerpt.splitlines()[2:] == ["2 |   b: 1", "  |   ^"]


def test_what_is_nowhere_in_the_file_is_shown_by_what_is_around_it() -> None:
    fault = document("a:\n  b: 1\n").fault(("a", "x", "y"), "is wrong", "Do it.")
    assert fault.said == "f: a.x.y: is wrong"
    assert fault.excerpt.splitlines()[2:] == ["1 | a", "  | ^"]
    assert document("a: 1").fault(("x",), "is wrong", "Do it.").excerpt == ""


def test_a_short_spelling_is_the_place_of_its_only_key() -> None:
    fault = document("guard: of").fault(("guard", "mode"), "is wrong", "Write `mode: off`.")
    assert (fault.said, fault.fix) == ("f: guard: is wrong", "Write `guard: off`.")


@pytest.mark.parametrize(
    ("form", "text", "fix"),
    [
        ("yaml", "a: 1", "Write `a: b`, or `c: [x]`."),
        ("json", '{"a": 1}', 'Write `"a": "b"`, or `"c": [x]`.'),
        ("toml", "a = 1", 'Write `a = "b"`, or `c = [x]`.'),
    ],
)
def test_a_remedy_is_in_the_form_of_the_file(form: Form, text: str, fix: str) -> None:
    assert document(text, form).fault((), "w", "Write `a: b`, or `c: [x]`.").fix == fix


@pytest.mark.parametrize(
    ("text", "form", "said"),
    [
        ("a: 1\na: 2\na: 3\n", "yaml", "f: line 2, column 1: duplicate key 'a'"),
        ('{"a": 1, "a": 2, "a": 3}', "json", "f: line 1, column 10: duplicate key 'a'"),
    ],
)
def test_all_mistakes_of_the_syntax_are_told(text: str, form: Form, said: str) -> None:
    with pytest.raises(ConfigError) as raised:
        document(text, form)
    assert raised.value.faults[0].said == said
    assert len(raised.value.faults) == 2
    assert str(raised.value).endswith("\n\n2 mistakes.")


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("a = ", "line 1"),
        ("a = 1\nb 2", "line 2, column 3"),
        ("[a]\nb = 1\nb = 2", "line 3"),
        ('a = "x', "line 1"),
    ],
)
def test_a_mistake_in_toml_has_its_place(text: str, at: str) -> None:
    with pytest.raises(ConfigError) as raised:
        document(text, "toml")
    assert raised.value.faults[0].said.startswith(f"f: {at}")


@pytest.mark.parametrize(
    ("text", "form", "said"),
    [
        ("", "yaml", "f: is empty"),
        ("\ufeff" * 0 + "# x", "yaml", "f: is empty"),
        ("// x", "json", "f: is empty"),
        ("[]", "json", "f: must be a mapping"),
        ("a=1", "yaml", "f: must be a mapping"),
    ],
)
def test_a_file_without_keys_is_an_error(text: str, form: Form, said: str) -> None:
    with pytest.raises(ConfigError) as raised:
        document(text, form)
    assert raised.value.faults[0].said == said
    start = "Start with {" if form == "json" else "Start with `version: 1`"
    assert start in raised.value.faults[0].fix


def refused(tmp_path: Path, source: str) -> str:
    with pytest.raises(ConfigError) as raised:
        read(source, tmp_path)
    return str(raised.value)


def test_a_file_that_cannot_be_read_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "hub.yml").write_text("version: 1")
    assert refused(tmp_path, "hub.yaml") == "hub.yaml: no such file\nDid you mean hub.yml?"
    assert refused(tmp_path, "q").startswith("q: no such file\nName a file that exists")
    assert refused(tmp_path, "no/q").startswith("no/q: no such file\nName a file that exists")
    assert refused(tmp_path, ".") == ".: is a directory\nName the file in it: ./hub.yml"
    (tmp_path / "empty").mkdir()
    assert refused(tmp_path, "empty") == "empty: is a directory\nName the file in it."
    for odd in ("a\0b", "hub.yml/x", "x" * 300):
        assert refused(tmp_path, odd).startswith(f"{odd}: ")
        assert refused(tmp_path, odd).endswith(
            "\nName a file that exists, by --config or HUB_CONFIG."
        )


def test_only_utf_8_is_read(tmp_path: Path) -> None:
    (tmp_path / "bom.yaml").write_bytes(b"\xef\xbb\xbfa: 1\r\nb: 2\r\n")
    assert read("bom.yaml", tmp_path).raw == {"a": 1, "b": 2}
    (tmp_path / "latin.yaml").write_bytes(b"a: 1\nb: \xe9")
    assert "is not UTF-8: line 2 has a character" in refused(tmp_path, "latin.yaml")
    (tmp_path / "wide.yaml").write_bytes("a: 1".encode("utf-16"))
    assert refused(tmp_path, "wide.yaml") == (
        "wide.yaml: is not UTF-8 but UTF-16\nSave the file as UTF-8."
    )


def test_a_very_large_file_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "big.yaml").write_bytes(b"# " + b"x" * (1 << 20))
    assert refused(tmp_path, "big.yaml").startswith("big.yaml: is larger than 1 MiB\n")


def test_json_in_a_yaml_file_can_be_indented_with_tabs() -> None:
    found = document('{\n\t"a": {"b": 1}\n}')
    assert (found.raw, found.form) == ({"a": {"b": 1}}, "json")
    assert document('{"a": 1 # c\n}').form == "yaml"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("[a]\n[a]", "the table is there twice"),
        ("a = 1\na = 2", "the key is there twice"),
        ('a = "C:\\Users"', "a `\\` in double quotes"),
        ("a = npx", "a value is expected"),
        ("[a\n", "the name of a table is not closed"),
        ("a 1", "a `=` is missing"),
        ('a = "x\n', "a quote is not closed"),
        ("a = [1", "a `[` is not closed"),
    ],
)
def test_a_mistake_in_toml_is_told_in_plain_words(text: str, what: str) -> None:
    with pytest.raises(ConfigError) as raised:
        document(text, "toml")
    assert f": {what}" in raised.value.faults[0].said


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ('{"a": "' + '\\"' * 300_000, "json"),
        ('{"a": 1, ' + "/* " * 300_000, "json"),
        ('{"a": 1 ' + "a" * 300_000 + "}", "json"),
        ('{"a": 1 ' + "a-." * 100_000 + "}", "json"),
        ("a: [1 b: " + "a" * 300_000, "yaml"),
        ("a" * 300_000 + "\nb: 1", "yaml"),
        ('a = """' + '\\"' * 300_000, "toml"),
        ('a = "' + '\\"' * 300_000, "toml"),
        ("a = b" + "a" * 300_000, "toml"),
    ],
)
def test_a_mistake_in_a_long_line_is_told_before_the_test_is_given_up(
    text: str, form: Form
) -> None:
    """Calls may have written the file, and a running hub does nothing else while it is read."""
    with pytest.raises(ConfigError):
        Document("f", text, form)


@pytest.mark.long
def test_many_mistakes_in_json_are_told_before_the_test_is_given_up() -> None:
    keys = [f"s{number}" for number in range(20_000)]
    document = Document("f", json.dumps({"servers": dict.fromkeys(keys, 1)}), "json")
    faults = [document.fault(("servers", key), "is wrong", "Correct it.") for key in keys]
    assert [fault.excerpt for fault in faults if "^" not in fault.excerpt] == []
    assert faults[-1].excerpt.splitlines()[2].endswith('"s19999": 1')


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("a = " + "[" * 5000, "is nested too deeply"),
        ("a = {" * 2000, "is nested too deeply"),
        ("a = " + "1" * 5000, "has a number that cannot be read"),
    ],
)
def test_toml_that_python_cannot_read_is_a_mistake(text: str, what: str) -> None:
    with pytest.raises(ConfigError) as raised:
        Document("f", text, "toml")
    assert what in str(raised.value)
