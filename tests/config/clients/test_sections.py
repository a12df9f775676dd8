import json
from pathlib import Path
from typing import Any

import pytest

from hub.config.clients.sections import (
    ClientConfig,
    EditorInput,
    client_config,
    inputs_in,
    inputs_missing,
    likely_section,
)
from hub.config.fields import LoadContext
from hub.config.source.documents import Document
from hub.errors import ConfigError


def found_in(raw: dict[str, Any], directory: str = "/w", **environment: str) -> ClientConfig | None:
    document = Document("x.json", json.dumps(raw), "json")
    return client_config(document, LoadContext(Path(directory), "/home/u", environment))


def read(raw: dict[str, Any], directory: str = "/w", **environment: str) -> ClientConfig:
    found = found_in(raw, directory, **environment)
    assert found is not None
    return found


STDIO = {"command": "x"}


@pytest.mark.parametrize(
    ("raw", "section"),
    [
        ({"mcpServers": {"a": STDIO}}, ("mcpServers",)),
        ({"context_servers": {"a": STDIO}}, ("context_servers",)),
        ({"mcp_servers": {"a": STDIO}}, ("mcp_servers",)),
        ({"servers": {"a": STDIO}, "inputs": []}, ("servers",)),
        ({"mcp": {"servers": {"a": STDIO}, "inputs": []}}, ("mcp", "servers")),
        ({"mcp.servers": {"a": STDIO}}, ("mcp.servers",)),
        ({"amp.mcpServers": {"a": STDIO}}, ("amp.mcpServers",)),
        ({"mcp": {"a": {"type": "local", "command": ["x"]}}}, ("mcp",)),
        ({"extensions": {"a": {"type": "stdio", "cmd": "x", "enabled": True}}}, ("extensions",)),
    ],
)
def test_each_program_has_its_servers_in_a_place_of_its_own(
    raw: dict[str, Any], section: tuple[str, ...]
) -> None:
    found = read(raw)
    assert found.section == section
    assert found.entries["a"].server["command"] == "x"
    assert found.entries["a"].place == (*section, "a")
    assert found.warnings == ()


@pytest.mark.parametrize(
    ("tools", "deny"),
    [
        ({"a_write": False, "a_read": True, "b_x": False, "bash": False}, ["write"]),
        ({"a_*": False}, ["*"]),
        ({"a*": False, "a_read": True}, ["*"]),
        ({"a": False}, ["*"]),
    ],
)
def test_tools_that_opencode_hides_stay_hidden(tools: dict[str, bool], deny: list[str]) -> None:
    found = read({"mcp": {"a": {"type": "local", "command": ["x"]}}, "tools": tools})
    assert found.entries["a"].server["tools"] == {"deny": deny}
    assert found.warnings == ()


def test_a_list_of_servers_has_their_names_inside() -> None:
    found = read({"name": "x", "mcpServers": [{"name": "a", **STDIO}, {"url": "https://x"}]})
    places = {name: one.place for name, one in found.entries.items()}
    assert places == {"a": ("mcpServers", 0), "server-2": ("mcpServers", 1)}


def test_claude_codes_own_file_has_servers_of_the_user_and_of_the_project() -> None:
    raw: dict[str, Any] = {
        "numStartups": 3,
        "mcpServers": {"a": STDIO, "b": STDIO},
        "projects": {
            "/w": {"mcpServers": {"b": {"command": "y"}}, "history": []},
            "/other": {"mcpServers": {"c": STDIO}},
        },
    }
    found = read(raw, "/w/below")
    assert {name: entry.server["command"] for name, entry in found.entries.items()} == {
        "a": "x",
        "b": "y",
    }
    assert found.entries["b"].place == ("projects", "/w", "mcpServers", "b")
    assert found.warnings == ("ignored: numStartups",)


@pytest.mark.parametrize(
    "raw",
    [
        {"version": 1, "servers": {"a": STDIO}},
        {"version": 1},
        {"mcp": {"x": 1}},
        {"extensions": {}},
        {"roots": {}},
    ],
)
def test_other_files_are_no_clients(raw: dict[str, Any]) -> None:
    assert found_in(raw) is None


def test_servers_that_are_turned_off_are_not_there() -> None:
    off: dict[str, Any] = {
        "b": {"command": "x", "disabled": True},
        "c": {"command": "x", "enabled": False},
        "d": {"command": "x", "isActive": False},
    }
    assert list(read({"mcpServers": {"a": STDIO, **off}}).entries) == ["a"]
    with pytest.raises(ConfigError, match=r"^x\.json: mcpServers: every server is disabled"):
        read({"mcpServers": off})


def test_a_section_that_is_a_text_is_an_error() -> None:
    with pytest.raises(ConfigError, match="mcpServers: must be a mapping"):
        read({"mcpServers": "a"})


def test_what_has_no_effect_is_told() -> None:
    others = {f"setting{n}": n for n in range(7)}
    entry: dict[str, Any] = {**STDIO, "trust": 1, "evn": {}}
    raw: dict[str, Any] = {"mcpServers": {"a": entry}, "roots": {}, **others}
    assert read(raw).warnings == (
        "roots: has no effect here, only in a hub.yaml",
        "ignored: setting0, setting1, setting2, setting3, setting4 and 2 more",
        "mcpServers.a: ignored: trust, evn (did you mean env?)",
    )


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("mcpservers", "mcpServers"),
        ("mcp-servers", "mcpServers"),
        ("mcpServer", "mcpServers"),
        ("MCP_SERVERS", "mcp_servers"),
        ("mcp_server", "mcp_servers"),
        ("context_server", "context_servers"),
    ],
)
def test_a_misspelt_section_is_recognised(key: str, meant: str) -> None:
    assert likely_section({key: {}}) == (key, meant)


def test_no_section_is_made_of_other_words() -> None:
    assert likely_section({"theme": "x", "roots": {}}) is None


def test_inputs_are_what_an_editor_asks_for() -> None:
    raw = {
        "inputs": [
            {"id": "key", "type": "promptString", "description": "The key", "password": True},
            {"id": "host", "type": "promptString", "default": "h.example"},
            {"id": "odd", "default": "{x}"},
            "x",
            {},
        ],
        "servers": {
            "a": {"command": "x", "args": ["${input:key}", "${input:host}", "${input:more}"]}
        },
    }
    document = Document("x.json", json.dumps(raw), "json")
    key = EditorInput("key", "The key", None, True)
    assert inputs_in(document) == [
        key,
        EditorInput("host", "", "h.example", False),
        EditorInput("odd", "", None, False),
    ]
    assert inputs_missing(document, {}) == [key, EditorInput("more")]
    assert inputs_missing(document, {"HUB_INPUT_KEY": "", "HUB_INPUT_MORE": ""}) == []
    args = read(raw).entries["a"].server["args"]
    assert args == ["${input:key}", "${input:host:-h.example}", "${input:more}"]


def test_a_section_without_a_value_has_no_servers() -> None:
    assert read({"mcpServers": None}).entries == {}


def test_a_file_that_opencode_reads_into_a_command_is_told() -> None:
    found = read({"mcp": {"a": {"type": "local", "command": ["x", "{file:~/k}"]}}})
    assert found.warnings == ("mcp.a: {file:...} is read in environment and headers alone",)
