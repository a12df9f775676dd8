from pathlib import Path

import pytest


def quiet(*_: object, **__: object) -> None:
    """Leave the logs to pytest."""


@pytest.fixture
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty home directory; the working directory is below it, at `code/work`."""
    for variable in ("HUB_CONFIG", "XDG_CONFIG_HOME", "CODEX_HOME", "CLAUDE_CONFIG_DIR"):
        monkeypatch.delenv(variable, raising=False)
    home = tmp_path.resolve() / "home"
    (home / "code" / "work").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(home / "code" / "work")
    return home
