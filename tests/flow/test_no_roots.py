"""What a refused client is told where none of its roots can be used."""

from __future__ import annotations

from typing import Any

import pytest

from hub.values import JsonObject
from tests.kit.fakes import READ, FakeChild
from tests.kit.rigs import ROOTS
from tests.kit.scripted import ScriptedHub, scripted
from tests.server.test_modern import envelope, with_roots
from tests.server.test_stdio import pytestmark as pipes

pytestmark = pipes

SAID = (
    "Access denied: Path '/srv/x' is outside the allowed roots boundaries. Current roots: []. "
    "The client shares 1 folder, and it cannot be used on the hub's machine: "
    "file:///nowhere/project: Path is not accessible."
)
CALL: JsonObject = {"name": "read", "arguments": {"path": "/srv/x"}}
GONE: JsonObject = {"uri": "file:///nowhere/project"}


async def told(hub: ScriptedHub, era: str) -> list[str]:
    """Return the texts of two refusals; the second call's route is cached."""
    params: JsonObject = CALL
    if era == "legacy":
        client = await hub.greeted(ROOTS, [GONE])
    else:
        client = hub.client()
        responses: JsonObject = with_roots("file:///nowhere/project")
        params = {**CALL, "inputResponses": responses, "_meta": envelope()}
    results: list[Any] = [await client.request("tools/call", params) for _ in range(2)]
    assert all(result["isError"] for result in results)
    return [result["content"][0]["text"] for result in results]


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_refusal_says_why_every_root_was_rejected(era: str) -> None:
    async with scripted(FakeChild(READ)) as hub:
        assert await told(hub, era) == [SAID, SAID]
