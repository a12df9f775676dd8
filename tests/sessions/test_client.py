from __future__ import annotations

import pytest

from hub.sessions.client import Client
from hub.values import Json


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


def test_what_is_declared_is_told_as_objects() -> None:
    client = Client("legacy", "2025-11-25", {"a": {"x": 1}, "b": True, "c": None, "d": {}}, {})
    assert client.declared(("a", "b", "c", "e")) == {"a": {"x": 1}, "b": {}}
