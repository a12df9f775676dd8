from __future__ import annotations

import pytest

from hub.sessions.client import Client
from hub.values import Json, JsonObject

APPS: JsonObject = {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]}}
USED: JsonObject = {"sampling": {"tools": {}}}


@pytest.mark.parametrize(("era", "modern"), [("legacy", False), ("modern", True)])
def test_a_client_of_the_modern_era_speaks_in_requests_that_stand_for_themselves(
    era: str, *, modern: bool
) -> None:
    client = Client("modern" if era == "modern" else "legacy", "2025-11-25", {}, {})
    assert client.is_modern is modern


@pytest.mark.parametrize(
    ("declared", "declares"),
    [({}, True), ({"x": True}, True), (True, True), ([], True), (None, False), (False, False)],
)
def test_a_capability_is_declared_by_whatever_does_not_deny_it(
    declared: Json, *, declares: bool
) -> None:
    client = Client("legacy", "2025-11-25", {"roots": declared}, {"name": "test"})
    assert client.declares("roots") is declares
    assert not client.declares("sampling")


@pytest.mark.parametrize(
    ("capabilities", "relayed"),
    [
        ({"sampling": {"tools": {}}, "elicitation": True}, {**USED, "elicitation": {}}),
        ({"sampling": None, "roots": {}, "experimental": {"x": {}}}, {}),
        ({"extensions": {**APPS, "y": {}}}, {"extensions": APPS}),
        ({"extensions": {"io.modelcontextprotocol/tasks": {}}}, {}),
        ({"extensions": True}, {}),
        ({"extensions": {"io.modelcontextprotocol/ui": None}}, {}),
    ],
)
def test_children_are_told_what_they_may_use_through_the_hub(
    capabilities: JsonObject, relayed: JsonObject
) -> None:
    assert Client("legacy", "2025-11-25", capabilities, {}).relayed() == relayed
