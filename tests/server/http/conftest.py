import pytest

from hub.server.http import resumption


@pytest.fixture(autouse=True)
def answers_are_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no response begin early on a slow machine, but where a test says so."""
    monkeypatch.setattr(resumption, "OPEN_AFTER", 60.0)
