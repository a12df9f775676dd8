"""The pretended file system that the seeds' paths are in."""

from pathlib import Path

import pytest

from tests.kit.hubs import pretend


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Let `/home/user/project` and its like exist for the hubs of a test; returns what is `/`."""
    return pretend(monkeypatch, tmp_path)
