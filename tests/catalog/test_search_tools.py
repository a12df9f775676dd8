"""What the meta tools are, and how their arguments are read."""

from __future__ import annotations

import json
from typing import Any, cast

import jsonschema
import pytest

from hub.catalog.search import Pattern, SearchError
from hub.catalog.search_tools import META_TOOLS, Inner, SearchQuery, read
from hub.values import JsonObject, ServerName

FILES = ServerName("files")
ASKED = {"serverName": "files", "toolName": "read"}


def tool(name: str) -> Any:
    return next(one for one in META_TOOLS if one["name"] == name)


def test_the_seeds_meta_tools_are_there() -> None:
    assert [one["name"] for one in META_TOOLS] == [
        "list-servers",
        "list-all-tools",
        "list-all-tools-in-server",
        "find-tools",
        "find-tools-in-server",
        "get-tool",
        "call-tool",
    ]


def test_their_definitions_are_short_and_describe_their_arguments() -> None:
    read_by_models = ("name", "description", "inputSchema")
    assert len(json.dumps([[one[key] for key in read_by_models] for one in META_TOOLS])) < 4000
    for one in META_TOOLS:
        for schema in (one["inputSchema"], one.get("outputSchema", {})):
            jsonschema.Draft202012Validator.check_schema(cast("Any", schema))


def test_only_calling_can_change_anything() -> None:
    changing = [
        one["name"] for one in META_TOOLS if not cast("Any", one)["annotations"]["readOnlyHint"]
    ]
    assert changing == ["call-tool"]
    assert "outputSchema" not in tool("call-tool"), "its result is that of another tool"


@pytest.mark.parametrize(
    ("name", "arguments", "asked", "servers"),
    [
        ("list-servers", {}, SearchQuery("list-servers"), ()),
        ("list-all-tools", {}, SearchQuery("list-all-tools"), None),
        (
            "list-all-tools-in-server",
            {"serverName": "files"},
            SearchQuery("list-all-tools-in-server", FILES),
            (FILES,),
        ),
        (
            "find-tools",
            {"pattern": "read"},
            SearchQuery("find-tools", pattern=Pattern.parse("read")),
            None,
        ),
        (
            "find-tools-in-server",
            {"serverName": "files", "pattern": "X", "searchIn": "name", "caseSensitive": True},
            SearchQuery(
                "find-tools-in-server",
                FILES,
                pattern=Pattern.parse("X", search_in="name", case_sensitive=True),
            ),
            (FILES,),
        ),
        ("get-tool", ASKED, SearchQuery("get-tool", FILES, "read"), (FILES,)),
    ],
)
def test_a_question_is_read_with_the_servers_it_is_about(
    name: str, arguments: JsonObject, asked: SearchQuery, servers: Any
) -> None:
    question = read(name, arguments)
    assert isinstance(question, SearchQuery)
    assert question == asked
    assert question.servers() == servers
    jsonschema.validate(arguments, tool(name)["inputSchema"])


@pytest.mark.parametrize("arguments", [{}, {"path": "/a"}])
def test_a_call_is_read_with_the_very_arguments(arguments: JsonObject) -> None:
    inner = read("call-tool", {**ASKED, "toolArgs": arguments})
    assert inner == Inner(FILES, "read", arguments)
    assert isinstance(inner, Inner)
    assert inner.arguments is arguments


@pytest.mark.parametrize("arguments", [{}, {"toolArgs": None}])
def test_a_call_may_have_no_arguments(arguments: JsonObject) -> None:
    assert read("call-tool", {**ASKED, **arguments}) == Inner(FILES, "read", None)


@pytest.mark.parametrize("name", ["get-roots", "read", "", "list_servers"])
def test_other_tools_are_not_search_tools(name: str) -> None:
    assert read(name, {"anything": 1}) is None


@pytest.mark.parametrize(
    ("name", "arguments", "text"),
    [
        ("list-servers", {"x": 1}, "list-servers does not take 'x': it takes no arguments"),
        (
            "call-tool",
            {**ASKED, "arguments": {}},
            "call-tool does not take 'arguments': it takes serverName, toolName, toolArgs",
        ),
        ("call-tool", {"toolName": "t"}, '"serverName" must be given, as a string'),
        ("call-tool", {"serverName": "s"}, '"toolName" must be given, as a string'),
        ("get-tool", {"serverName": "s", "toolName": 7}, '"toolName" must be given, as a string'),
        ("call-tool", {**ASKED, "toolArgs": "{}"}, '"toolArgs" must be an object'),
        ("call-tool", {**ASKED, "toolArgs": []}, '"toolArgs" must be an object'),
        ("find-tools", {}, '"pattern" must be given, as a string'),
        ("find-tools", {"pattern": ["a"]}, '"pattern" must be given, as a string'),
        ("find-tools", {"pattern": ""}, "The pattern is empty"),
        (
            "find-tools",
            {"pattern": "a", "searchIn": "title"},
            '"searchIn" must be one of name, description, both',
        ),
        ("find-tools", {"pattern": "a", "searchIn": {}}, '"searchIn" must be one of'),
        (
            "find-tools",
            {"pattern": "a", "caseSensitive": "no"},
            '"caseSensitive" must be true or false',
        ),
    ],
)
def test_wrong_arguments_are_named(name: str, arguments: JsonObject, text: str) -> None:
    with pytest.raises(SearchError) as raised:
        read(name, arguments)
    assert str(raised.value).startswith(text)
