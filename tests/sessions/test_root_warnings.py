"""What the log says of clients for which no root is in force."""

from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from hub.roots.effective import OperatorRoots
from hub.sessions.client import Client
from hub.specs import ServerSpec
from tests.kit.rigs import launched, remote, rig, roots_at

WHY = "it shares no roots, and there is no fallback"


async def warnings(*specs: ServerSpec, shared: Any = (), **operator: Any) -> list[dict[str, Any]]:
    servers = {str(spec.name): spec for spec in specs}
    async with rig(servers, {}, operator=OperatorRoots(**operator)) as at:
        client = at.client(*shared)
        with capture_logs() as logs:
            for _ in range(2):
                await client.session.effective(client.outlet)
    for entry in logs:
        assert entry["session"] == client.session.key
    return [dict(entry) for entry in logs if entry["log_level"] == "warning"]


@pytest.mark.parametrize(
    ("specs", "event"),
    [
        ([remote("a"), launched("b")], f"this client is NOT restricted: {WHY}"),
        (
            [remote("a"), launched("b", "${roots}")],
            f"server 'b' gets no folder for this client: {WHY}; "
            "its paths are not checked at server 'a'",
        ),
        (
            [launched("a", "${root}"), launched("b", "${roots}")],
            f"servers 'a', 'b' get no folder for this client: {WHY}",
        ),
    ],
)
async def test_a_server_without_a_folder_is_not_called_unrestricted(
    specs: list[ServerSpec], event: str
) -> None:
    (told,) = await warnings(*specs)
    assert told["event"] == event
    assert "--root" in told["fix"]


async def test_a_client_cannot_hide_a_warning_behind_a_long_name() -> None:
    async with rig({"a": remote("a")}, {}) as at:
        with capture_logs() as logs:
            client = at.client()
            client.session.greeted(
                Client("legacy", "2025-11-25", {}, {"name": "x" * 100_000, "version": "1"})
            )
            await client.session.effective(client.outlet)
    (told,) = [entry for entry in logs if entry["log_level"] == "warning"]
    assert told["event"] == f"this client is NOT restricted: {WHY}"
    assert told["client"].startswith("x" * 100)
    assert all(len(str(entry)) < 1000 for entry in logs)


async def test_nothing_is_said_where_each_server_has_directories_of_its_own(tmp_path: Path) -> None:
    assert await warnings(launched("a", ceiling=roots_at(tmp_path))) == []


async def test_why_no_path_is_allowed_is_logged_once_with_what_to_do(tmp_path: Path) -> None:
    (told,) = await warnings(remote("a"), shared=[tmp_path / "gone"])
    assert told["event"] == "no path is allowed for this client"
    assert "1 folder, and it cannot be used" in told["reason"]
    assert "mount the folders" in told["fix"]
