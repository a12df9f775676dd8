import shutil
from pathlib import Path

import pytest

from hub.config.clients.entries import hub_command


def test_the_program_that_runs_is_named_in_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "roots-hub").touch()
    assert hub_command("./roots-hub") == [str(tmp_path / "roots-hub")]


@pytest.mark.parametrize("kind", ["archive-v0", "environments-v2"])
def test_a_program_of_uvx_is_started_by_uvx(kind: str) -> None:
    uvx = shutil.which("uvx") or "uvx"
    assert hub_command("/c/uv/x/bin/roots-hub", f"/c/uv/{kind}/x") == [uvx, "roots-hub"]


def test_else_this_python_runs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    python = str(tmp_path / "python")
    assert hub_command("/x/hub/__main__.py", python=python) == [python, "-m", "hub"]
