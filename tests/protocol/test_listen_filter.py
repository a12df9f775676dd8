from __future__ import annotations

import pytest
from mcp.shared.subscriptions import SUBSCRIPTION_ID_META_KEY

from hub.protocol.listen_filter import (
    SUBSCRIPTION_ID_META,
    FilterError,
    ListenFilter,
    changes_of,
    filter_in,
)
from hub.values import Json, JsonObject

TOOLS = "notifications/tools/list_changed"
PROMPTS = "notifications/prompts/list_changed"
RESOURCES = "notifications/resources/list_changed"


def test_the_key_is_the_sdks() -> None:
    assert SUBSCRIPTION_ID_META == SUBSCRIPTION_ID_META_KEY


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ({}, ListenFilter()),
        ({"toolsListChanged": False, "promptsListChanged": None}, ListenFilter()),
        ({"unknown": {"a": 1}}, ListenFilter()),
        ({"toolsListChanged": True}, ListenFilter(frozenset({TOOLS}))),
        (
            {"promptsListChanged": True, "resourcesListChanged": True},
            ListenFilter(frozenset({PROMPTS, RESOURCES})),
        ),
        ({"resourceSubscriptions": []}, ListenFilter()),
        ({"resourceSubscriptions": ["b:", "a:", "b:"]}, ListenFilter(uris=("b:", "a:"))),
    ],
)
def test_a_filter_is_read_for_what_it_wants(fields: JsonObject, wanted: ListenFilter) -> None:
    assert filter_in(fields) == wanted
    assert filter_in(wanted.fields()) == wanted


def test_only_what_is_wanted_is_written() -> None:
    assert ListenFilter().fields() == {}
    assert ListenFilter(frozenset({TOOLS}), ("a:",)).fields() == {
        "toolsListChanged": True,
        "resourceSubscriptions": ["a:"],
    }


@pytest.mark.parametrize(
    "bad",
    [
        None,
        [],
        "x",
        7,
        {"toolsListChanged": 1},
        {"promptsListChanged": "yes"},
        {"resourceSubscriptions": "a:"},
        {"resourceSubscriptions": {"a:": True}},
        {"resourceSubscriptions": ["a:", 7]},
    ],
)
def test_anything_else_is_not_a_filter(bad: Json) -> None:
    with pytest.raises(FilterError, match="notifications"):
        filter_in(bad)


def test_what_a_server_declares_is_what_it_tells() -> None:
    declared: JsonObject = {
        "tools": {"listChanged": True},
        "prompts": {"listChanged": "yes"},
        "resources": [],
    }
    assert changes_of(declared) == ListenFilter(frozenset({TOOLS}))
    assert changes_of({}) == ListenFilter()
