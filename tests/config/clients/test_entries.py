from typing import Any

import pytest

from hub.config.clients.entries import read_entry


def server(**entry: Any) -> dict[str, Any]:
    found = read_entry(entry)
    assert found.problems == []
    return found.server


def test_h14_entries_are_taken_as_they_are() -> None:
    entry = {"command": "npx", "args": ["-y", "x"], "env": {"A": "b"}, "cwd": "/srv"}
    assert server(**entry) == entry
    entry = {"url": "https://x/", "headers": {"A": "b"}}
    assert server(**entry) == entry


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({"type": "stdio", "command": "x", "url": "https://x/"}, {"command": "x"}),
        ({"type": "http", "url": "u"}, {"url": "u", "transport": "http"}),
        ({"type": "streamable-http", "url": "u"}, {"url": "u", "transport": "http"}),
        ({"type": "streamableHttp", "url": "u"}, {"url": "u", "transport": "http"}),
        ({"type": "streamable_http", "uri": "u"}, {"url": "u", "transport": "http"}),
        ({"type": "sse", "url": "u", "command": "x"}, {"url": "u", "transport": "sse"}),
        ({"transport": "sse", "url": "u", "args": []}, {"url": "u", "transport": "sse"}),
        ({"type": "remote", "url": "u"}, {"url": "u"}),
        ({"url": "u"}, {"url": "u"}),
        ({"serverUrl": "u"}, {"url": "u"}),
        ({"httpUrl": "u", "url": "v"}, {"url": "u", "transport": "http"}),
        ({"command": "x", "headers": {}, "env": None}, {"command": "x"}),
        ({"type": "local", "command": "x"}, {"command": "x"}),
        (
            {"command": "x", "startup_timeout_ms": 20500},
            {"command": "x", "start_timeout": 20.5},
        ),
        ({"source": "custom", "command": "x", "settings": {}}, {"command": "x"}),
        (
            {"type": "local", "command": ["x", "y"], "environment": {"A": "b"}},
            {"command": "x", "args": ["y"], "env": {"A": "b"}},
        ),
        (
            {"command": {"path": "x", "args": ["y"], "env": {"A": "b"}}},
            {"command": "x", "args": ["y"], "env": {"A": "b"}},
        ),
        (
            {"name": "g", "type": "stdio", "cmd": "x", "args": [], "env_keys": ["K"], "envs": {}},
            {"command": "x", "args": [], "env": {"K": "${K}"}},
        ),
        (
            {"enabled": True, "config": {"type": "stdio", "cmd": "x", "available_tools": []}},
            {"command": "x"},
        ),
        ({"transport": {"type": "sse", "url": "u"}}, {"url": "u", "transport": "sse"}),
        (
            {"command": "x", "env_vars": ["A", {"name": "B", "source": "local"}]},
            {"command": "x", "env": {"A": "${A}", "B": "${B}"}},
        ),
        (
            {
                "url": "u",
                "bearer_token_env_var": "T",
                "http_headers": {"A": "b"},
                "env_http_headers": {"C": "D"},
                "startup_timeout_sec": 10,
                "tool_timeout_sec": 20.5,
            },
            {
                "url": "u",
                "headers": {"Authorization": "Bearer ${T}", "A": "b", "C": "${D}"},
                "start_timeout": 10,
                "timeout": 20.5,
            },
        ),
        (
            {"url": "u", "requestOptions": {"headers": {"A": "b"}}},
            {"url": "u", "headers": {"A": "b"}},
        ),
    ],
)
def test_the_spellings_of_clients_are_understood(
    entry: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert server(**entry) == expected


@pytest.mark.parametrize("way", [{"command": "x"}, {"url": "u"}])
def test_tools_that_a_client_hides_stay_hidden(way: dict[str, Any]) -> None:
    assert server(**way, disabledTools=["a"]) == {**way, "tools": {"deny": ["a"]}}
    assert server(**way, enabled_tools=["a"], disabled_tools=["b"]) == {
        **way,
        "tools": {"allow": ["a"], "deny": ["b"]},
    }
    assert server(**way, includeTools=["a"], excludeTools=["b"]) == {
        **way,
        "tools": {"allow": ["a"], "deny": ["b"]},
    }
    assert server(**way, excludeTools=["a"], disabledTools=["b"]) == {
        **way,
        "tools": {"deny": ["a", "b"]},
    }
    assert server(**way, tools=["*"]) == {**way, "tools": {"allow": ["*"]}}


@pytest.mark.parametrize(
    ("entry", "path", "what", "fix"),
    [
        ("x", (), "must be a mapping", 'Write {"command": "...", "args": []}.'),
        ({}, (), "has neither a command nor a url", "Write the server's own `command`"),
        ({"comand": "x"}, ("comand",), "unknown key", "Write `command`."),
        ({"severUrl": "x"}, ("severUrl",), "unknown key", "Write `serverUrl`."),
        ({"command": []}, (), "has neither", "Write the server's own"),
        ({"command": "x", "url": "u"}, (), "has both a command and a url", "Take one of them"),
        ({"type": "stdio", "url": "u"}, (), "has no command", "Add its `command`."),
        ({"type": "http", "command": "u"}, (), "has no url", "Add its `url`."),
        ({"type": "ws", "url": "u"}, ("type",), "unknown transport", "Write stdio or http or sse"),
        ({"type": 7, "url": "u"}, ("type",), "unknown transport", "Write stdio"),
        ({"transport": "x", "url": "u"}, ("transport",), "unknown transport", "Write stdio"),
        ({"source": "extension"}, ("source",), "only the editor knows", "Write the server's own"),
        ({"enabled": True, "settings": {}}, ("source",), "only the editor knows", "Write the"),
        (
            {"url": "u", "bearer_token_env_var": "sk-0123"},
            ("bearer_token_env_var",),
            "must be the name of a variable",
            "Write the variable's name, not its value.",
        ),
        ({"url": "u", "env_http_headers": {"A": 3}}, ("env_http_headers", "A"), "must be", "Write"),
        ({"cmd": "x", "env_keys": ["a b"]}, ("env_keys", 0), "must be the name", "Write"),
        ({"cmd": "x", "env_vars": "A"}, ("env_vars",), "must be a list", "Name the variables"),
        (
            {"command": "x", "disabled": "true"},
            ("disabled",),
            "must be true or false",
            "Write true",
        ),
        (
            {"url": "u", "disabledTools": "x"},
            ("disabledTools",),
            "must be a list",
            "Name the tools",
        ),
    ],
)
def test_an_entry_that_cannot_be_used_says_why(
    entry: Any, path: tuple[str, ...], what: str, fix: str
) -> None:
    (problem,) = read_entry(entry).problems
    assert problem.path == path
    assert problem.what.startswith(what)
    assert problem.fix.startswith(fix)


@pytest.mark.parametrize(
    ("entry", "ours", "theirs"),
    [
        ({"command": "x"}, ("args", 0), ("args", 0)),
        ({"command": ["x", "y"]}, ("args", 0), ("command", 1)),
        ({"command": ["x", "y"]}, ("command",), ("command", 0)),
        ({"command": {"path": "x", "args": ["y"]}}, ("command",), ("command", "path")),
        ({"command": {"path": "x", "args": ["y"]}}, ("args", 0), ("command", "args", 0)),
        ({"serverUrl": "u"}, ("url",), ("serverUrl",)),
        ({"config": {"cmd": "x"}}, ("command",), ("config", "cmd")),
        ({"cmd": "x", "envs": {"A": "b"}}, ("env", "A"), ("envs", "A")),
        ({"cmd": "x", "env_keys": ["A"]}, ("env", "A"), ("env_keys", 0)),
        ({"cmd": "x", "env": {"A": "b"}, "env_keys": ["A"]}, ("env", "A"), ("env", "A")),
        ({"command": "x", "config": {"command": "y"}}, ("command",), ("command",)),
        (
            {"url": "u", "headers": {"A": "x"}, "env_http_headers": {"A": "B"}},
            ("headers", "A"),
            ("headers", "A"),
        ),
        (
            {"url": "u", "bearer_token_env_var": "A"},
            ("headers", "Authorization"),
            ("bearer_token_env_var",),
        ),
        ({"url": "u", "env_http_headers": {"A": "B"}}, ("headers", "A"), ("env_http_headers", "A")),
    ],
)
def test_a_place_is_named_as_the_file_spells_it(
    entry: dict[str, Any], ours: tuple[str | int, ...], theirs: tuple[str | int, ...]
) -> None:
    assert read_entry(entry).theirs(ours) == theirs


def test_what_is_built_into_a_program_is_told_and_no_server() -> None:
    found = read_entry({"type": "builtin", "name": "developer", "enabled": True})
    assert found.is_off
    assert found.warnings == [
        "left out: it is built into its program, which alone can start it",
    ]


def test_an_env_file_is_said_not_to_be_read() -> None:
    found = read_entry({"command": "x", "envFile": ".env"})
    assert found.warnings == ["envFile is not read: write its variables into env"]
