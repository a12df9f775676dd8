import pytest

from hub.server.http import responses


@pytest.fixture(autouse=True)
def answers_are_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no response begin early on a slow machine, but where a test says so."""
    monkeypatch.setattr(responses, "OPEN_AFTER", 60.0)
