"""What a hub remembers of its config file: its state, and the folders that clients were granted."""

from __future__ import annotations

from pathlib import Path

import pytest

from hub.sessions.operator import ConfigFile, ConfigState
from tests.kit.fakes import FakeChild
from tests.kit.rigs import remote, rig
from tests.kit.trees import plant
from tests.kit.worlds import share


@pytest.fixture
def top(tmp_path: Path) -> Path:
    return plant(tmp_path, "a/", "b/", "c/")


def test_folders_are_remembered_once_and_up_to_a_limit(top: Path) -> None:
    file = ConfigFile("hub.yaml", max_granted=2)
    both = share(top / "a", top / "b")
    for roots in (share(top / "a"), both, both):
        file.grant(roots)
    assert file.granted == (f"{top}/a", f"{top}/b")
    assert not file.is_overflowing
    file.grant(share(top / "c"))
    assert file.is_overflowing
    assert len(file.granted) == 2


def test_without_a_config_file_nothing_is_remembered(top: Path) -> None:
    file = ConfigFile()
    file.grant(share(top / "a"))
    assert file.granted == ()
    assert ConfigState().shown() is None


async def test_what_a_client_shares_is_remembered_when_it_has_gone(top: Path) -> None:
    async with rig({"files": remote()}, {"files": FakeChild()}) as at:
        file = at.services.config_file
        file.state = ConfigState("hub.yaml")
        client = at.client(top / "a")
        await client.session.effective(client.outlet)
        assert file.granted == (f"{top}/a",)
        client.session.close()
        assert file.granted == (f"{top}/a",)
