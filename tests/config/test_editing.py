"""Texts of all styles: installing adds one member, and uninstalling leaves what was there."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hub.config.editing import (
    EntryEditedError,
    installed,
    parsed,
    uninstalled,
    with_entry,
    without_entry,
)
from hub.config.source.documents import Form
from hub.errors import ConfigError

ENTRY: dict[str, Any] = {
    "command": "/usr/bin/roots-hub",
    "args": ["run", "--config", "/h/hub.yaml"],
}
fewer = settings(max_examples=settings().max_examples // 2)
"""For a build; `make fuzz` tries ever new ones."""
SECTION: dict[Form, str] = {"json": "mcpServers", "toml": "mcp_servers", "yaml": "extensions"}


def servers_of(raw: dict[str, Any], form: Form = "json") -> dict[str, Any]:
    return raw.get(SECTION[form]) or {}


def there_and_back(text: str, form: Form = "json", moved: tuple[str, ...] = ()) -> str:
    """Install and uninstall; return the text in between."""
    section = SECTION[form]
    before = parsed(text, form)
    new, record = installed(text, form, (section,), "roots-hub", ENTRY, moved)
    servers = {name: one for name, one in servers_of(before, form).items() if name not in moved}
    assert parsed(new, form) == {**before, section: {**servers, "roots-hub": ENTRY}}
    assert uninstalled(new, form, record) == text
    return new


def json_values() -> st.SearchStrategy[Any]:
    texts = st.text(st.sampled_from('ab{}[],:"\\/ é\n\t'), max_size=6)
    return st.recursive(
        st.none() | st.booleans() | st.integers(-9, 9) | texts,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
        max_leaves=6,
    )


SPACES = [" ", "\n", "\t", "\r\n", "  ", "", ""]
COMMENTS = ['// a , } "\n', "/* b */", "/* c\n d, */", "//\n", "// é\r\n"]


class Style:
    """Writes a value as JSON with spaces, comments and trailing commas where they may be."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw
        self._has_comments = draw(st.booleans())
        self._is_loose = draw(st.booleans())
        self._spaces = draw(st.sampled_from([SPACES, ["\n  ", "\n"], [" "], ["\r\n\t"], [""]]))

    def space(self) -> str:
        parts = [self._draw(st.sampled_from(self._spaces))]
        if self._has_comments and self._draw(st.booleans()):
            parts += [self._draw(st.sampled_from(COMMENTS)), self._draw(st.sampled_from(SPACES))]
        return "".join(parts)

    def written(self, value: Any) -> str:
        if isinstance(value, dict):
            inner = [
                f"{self.space()}{json.dumps(key)}{self.space()}:{self.space()}{self.written(one)}"
                for key, one in value.items()  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType] - any JSON
            ]
            return f"{{{self._joined(inner)}}}"
        if isinstance(value, list):
            return f"[{self._joined([self.space() + self.written(one) for one in value])}]"  # pyright: ignore[reportUnknownVariableType] - any JSON
        return json.dumps(value, ensure_ascii=self._draw(st.booleans()))

    def _joined(self, parts: list[str]) -> str:
        comma = "," if parts and self._is_loose and self._draw(st.booleans()) else ""
        return f"{self.space()},".join(parts) + self.space() + comma + self.space()


@st.composite
def json_texts(draw: st.DrawFn) -> str:
    others = draw(st.dictionaries(st.sampled_from("abcde"), json_values(), max_size=3))
    servers = draw(
        st.none()
        | st.dictionaries(st.sampled_from(["x", "y", "z"]), st.just({"command": "x"}), max_size=3)
    )
    if draw(st.booleans()):
        others["mcpServers"] = servers
    if draw(st.booleans()):
        others["f"] = draw(json_values())
    style = Style(draw)
    return f"{style.space()}{style.written(others)}{style.space()}"


@fewer
@given(json_texts(), st.booleans())
def test_json_of_any_style_is_as_it_was(text: str, moves: bool) -> None:
    servers = servers_of(parsed(text, "json"))
    there_and_back(text, moved=tuple(servers) if moves else ())


@fewer
@given(json_texts(), st.booleans())
def test_what_others_change_meanwhile_stays(text: str, moves: bool) -> None:
    raw = parsed(text, "json")
    moved = tuple(servers_of(raw)) if moves else ()
    new, record = installed(text, "json", ("mcpServers",), "roots-hub", ENTRY, moved)
    # Another program writes the file anew, in its own style, with changes of its own.
    changed: dict[str, Any] = {"new": 1, **parsed(new, "json")}
    changed["mcpServers"] = {**changed["mcpServers"], "later": {"command": "l"}}
    back = parsed(uninstalled(json.dumps(changed, indent=4), "json", record), "json")
    before = servers_of(raw)
    assert back == {**raw, "new": 1, "mcpServers": {**before, "later": {"command": "l"}}}


@fewer
@given(json_texts())
def test_an_entry_of_which_nothing_is_recorded_can_be_taken_out(text: str) -> None:
    raw = parsed(text, "json")
    new, _ = installed(text, "json", ("mcpServers",), "roots-hub", ENTRY, ())
    back = without_entry(new, "json", ("mcpServers",), "roots-hub")
    assert parsed(back, "json") == {**raw, "mcpServers": servers_of(raw)}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", '{\n  "mcpServers": {\n    "roots-hub": ENTRY\n  }\n}\n'),
        ("{}", '{\n  "mcpServers": {\n    "roots-hub": ENTRY\n  }\n}'),
        ('{"mcpServers":{}}', '{"mcpServers":{"roots-hub":ENTRY}}'),
        ('{"a": 1}\n', '{"a": 1, "mcpServers": {"roots-hub": ENTRY}}\n'),
        (
            '{\n\t"mcpServers": {\n\t\t"a": {} // mine\n\t}\n}\n',
            '{\n\t"mcpServers": {\n\t\t"a": {}, // mine\n\t\t"roots-hub": ENTRY\n\t}\n}\n',
        ),
        (
            '{\r\n    "mcpServers": {\r\n        "a": {}, // mine\r\n    },\r\n}\r\n',
            '{\r\n    "mcpServers": {\r\n        "a": {}, // mine\r\n'
            '        "roots-hub": ENTRY,\r\n    },\r\n}\r\n',
        ),
        (
            '{\n  "mcpServers": {\n    // none yet\n  }\n}',
            '{\n  "mcpServers": {\n    // none yet\n    "roots-hub": ENTRY\n  }\n}',
        ),
        (
            '{\n  "mcpServers": null\n}',
            '{\n  "mcpServers": {\n    "roots-hub": ENTRY\n  }\n}',
        ),
        ("// only this", '// only this\n{\n  "mcpServers": {\n    "roots-hub": ENTRY\n  }\n}\n'),
    ],
)
def test_the_entry_is_written_in_the_style_of_the_file(text: str, expected: str) -> None:
    new = there_and_back(text)
    start = new.index('"roots-hub":') + len('"roots-hub":')
    start += len(new[start:]) - len(new[start:].lstrip())
    end = start + json.JSONDecoder().raw_decode(new[start:])[1]
    assert new[:start] + "ENTRY" + new[end:] == expected


TOML = [
    "",
    'model = "x"\n',
    'model = "x"',
    'model = "x"\r\n\r\n[mcp_servers.a]\r\ncommand = "a" # mine\r\n\r\n# end\r\n',
    '[mcp_servers.a]\ncommand = "a"\n[mcp_servers.a.env]\nK = "v"\n\n# about next\n[next]\nx = 1\n',
    '[mcp_servers."a b"]\ncommand = """\n[not.a.table]\n"""\n\n\n[z]\ny = [\n  [1],\n  [2],\n]\n',
    "[mcp_servers]\n\n[[list]]\nx = 1\n",
    'mcp_servers.a.command = "a"\n[z]\n',
    "# only a comment",
]


@pytest.mark.parametrize("text", TOML)
def test_toml_is_as_it_was(text: str) -> None:
    there_and_back(text, "toml")


@pytest.mark.parametrize("text", [text for text in TOML if "[mcp_servers." in text])
def test_tables_of_toml_are_moved_and_put_back(text: str) -> None:
    moved = tuple(parsed(text, "toml")["mcp_servers"])
    there_and_back(text, "toml", moved)
    new, record = installed(text, "toml", ("mcp_servers",), "roots-hub", ENTRY, moved)
    later = f"{new}\n[later]\nx = 1\n"
    back = parsed(uninstalled(later, "toml", record), "toml")
    assert back == {**parsed(text, "toml"), "later": {"x": 1}}


def test_a_table_goes_where_its_siblings_are() -> None:
    new = there_and_back(TOML[4], "toml")
    assert new.index("[mcp_servers.roots-hub]") < new.index("# about next")


YAML = [
    "",
    "GOOSE_MODEL: x\n",
    "GOOSE_MODEL: x",
    "extensions: {}  # none\nx: 1\n",
    "extensions:\nx: 1\n",
    "extensions:\n  a:\n    cmd: x  # mine\n    args:\n    - y\n\n# more\nx: 1\n",
    "extensions:\r\n    a:\r\n        cmd: x\r\nx: 1",
    "--- \na: 1\n...\n",
    "x: |\n  text\n  extensions:\nextensions: {a: {cmd: x}}\n",
    'extensions:\n  a: {cmd: "x"}\n  b:\n    description: >\n      folded\n      text\n\n',
    '{\n\t"extensions": {\n\t\t"a": {}\n\t}\n}\n',
]


@pytest.mark.parametrize("text", YAML)
def test_yaml_is_as_it_was(text: str) -> None:
    there_and_back(text, "yaml")


@pytest.mark.parametrize("void", ["", " {}", " ~"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_comment_behind_an_empty_section_stays_there(void: str, end: str) -> None:
    new = there_and_back(f"extensions:{void}  # mine{end}# x{end}x: 1{end}", "yaml")
    assert new.startswith(f"extensions:  # mine{end}  roots-hub:{end}    command: ")
    assert f"]{end}# x{end}x: 1{end}" in new
    lines = without_entry(new, "yaml", ("extensions",), "roots-hub")
    assert lines == f"extensions: {{}}  # mine{end}# x{end}x: 1{end}"


def test_a_comment_below_a_server_stays_with_it() -> None:
    text = "servers:\n  a:\n    command: x\n    # needs the variable K\n\n# the end\n"
    new = with_entry(text, "yaml", ("servers",), "b", {"command": "y"})
    added = '  b:\n    command: "y"\n'
    assert new == text.replace("\n\n# the end", f"\n{added}\n# the end")


@pytest.mark.parametrize("text", [text for text in YAML if "\n  a" in text or "    a:" in text])
def test_extensions_are_moved_and_put_back(text: str) -> None:
    moved = tuple(parsed(text, "yaml")["extensions"])
    there_and_back(text, "yaml", moved)
    new, record = installed(text, "yaml", ("extensions",), "roots-hub", ENTRY, moved)
    back = parsed(uninstalled(f"{new}\nlater: 1\n", "yaml", record), "yaml")
    assert back == {**parsed(text, "yaml"), "later": 1}


@pytest.mark.parametrize("text", ["a: " + "[" * 5000, 'a: !!int ""', "a: !!bool maybe", "a: *b"])
def test_yaml_that_cannot_be_read_is_told(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parsed(text, "yaml")


@pytest.mark.parametrize("form", ["json", "toml", "yaml"])
def test_a_section_that_was_made_goes_again(form: Form) -> None:
    text, later = {
        "json": ('{\n  "a": 1\n}\n', '{\n  "b": 2,\n'),
        "toml": ("a = 1\n", "b = 2\n"),
        "yaml": ("a: 1\n", "b: 2\n"),
    }[form]
    new, record = installed(text, form, (SECTION[form],), "roots-hub", ENTRY, ())
    changed = new.replace("{\n", later, 1) if form == "json" else later + new
    back = uninstalled(changed, form, record)
    assert parsed(back, form) == {"a": 1, "b": 2}
    assert uninstalled(back, form, record) == back


@pytest.mark.parametrize("form", ["json", "toml", "yaml"])
def test_an_entry_that_was_edited_is_not_taken_out(form: Form) -> None:
    new, record = installed("", form, (SECTION[form],), "roots-hub", ENTRY, ())
    with pytest.raises(EntryEditedError) as caught:
        uninstalled(new.replace("/h/hub.yaml", "/mine.yaml"), form, record)
    assert caught.value.found == {**ENTRY, "args": ["run", "--config", "/mine.yaml"]}


def test_a_comma_alone_between_braces_stays_behind_the_entry() -> None:
    new, record = installed(text := '{"mcpServers": {,}}', "json", ("mcpServers",), "a", ENTRY, ())
    assert parsed(new, "json") == {"mcpServers": {"a": ENTRY}}
    assert uninstalled(new, "json", record) == text


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ('{"mcpServers": []}', "json"),
        ('{"mcpServers": "x"}', "json"),
        ('mcp_servers = {a = {command = "x"}}\n', "toml"),
        ("extensions: [a]\n", "yaml"),
        ("x: &all {extensions: {a: {}}}\n<<: *all\n", "yaml"),
    ],
)
def test_what_cannot_be_edited_safely_is_refused(text: str, form: Form) -> None:
    with pytest.raises(ConfigError, match="cannot be edited safely"):
        installed(text, form, (SECTION[form],), "roots-hub", ENTRY, ())
