import gc
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hub.cli.command_line import hidden, lean
from tests.kit.trees import plant

NAME = "seldom"


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a directory with a module of that name, which can be imported."""
    monkeypatch.syspath_prepend(tmp_path)  # pyright: ignore[reportUnknownMemberType] - untyped
    monkeypatch.delitem(sys.modules, NAME, raising=False)
    (tmp_path / f"{NAME}.py").write_text("HERE = True\n")
    return tmp_path


def test_no_garbage_is_looked_for_and_all_that_is_loaded_stays() -> None:
    before = gc.get_freeze_count()
    try:
        with lean():
            assert not gc.isenabled()
        assert gc.isenabled()
        assert gc.get_freeze_count() > before
    finally:
        gc.unfreeze()


def test_garbage_is_looked_for_again_after_a_failure() -> None:
    with pytest.raises(LookupError), lean():
        raise LookupError
    gc.unfreeze()
    assert gc.isenabled()


@pytest.mark.usefixtures("path")
def test_a_hidden_module_is_as_if_it_were_not_installed() -> None:
    with hidden(NAME), pytest.raises(ModuleNotFoundError):
        __import__(NAME)


@pytest.mark.usefixtures("path")
def test_afterwards_a_module_can_be_imported() -> None:
    before = set(sys.modules)
    with pytest.raises(LookupError), hidden(NAME):
        raise LookupError
    assert set(sys.modules) == before
    assert __import__(NAME).HERE


@pytest.mark.usefixtures("path")
def test_a_module_that_is_loaded_is_not_hidden() -> None:
    loaded = __import__(NAME)
    with hidden(NAME):
        assert __import__(NAME) is loaded
    assert sys.modules[NAME] is loaded


@pytest.mark.live
def test_the_program_loads_no_rich_that_is_installed_and_others_still_can(tmp_path: Path) -> None:
    top = plant(tmp_path, "rich/")
    (top / "rich" / "__init__.py").write_text("print('rich is loaded')\n")
    (top / "rich" / "console.py").write_text("Console = 1\n")
    (top / "rich" / "traceback.py").write_text("Traceback = 1\n")
    code = """
from hub.cli.main import main
try:
    main(["--version"])
finally:
    print("the program is loaded")
    import rich.console
"""
    ran = subprocess.run(  # noqa: S603 - this Python
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(top)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.splitlines()[1:] == ["the program is loaded", "rich is loaded"]


@pytest.mark.live
@pytest.mark.parametrize(
    "command", [["run", "--no-config"], ["attach", "--alone"], ["wrap", "--", "cat"]]
)
def test_what_serves_clients_loads_neither_rich_nor_what_verifies_tokens(
    command: list[str], tmp_path: Path
) -> None:
    ran = subprocess.run(  # noqa: S603 - this Python
        [sys.executable, "-X", "importtime", "-m", "hub", *command],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    loaded = [line.rpartition("|")[2].strip() for line in ran.stderr.splitlines()]
    assert "hub.cli.command_line" in loaded
    assert [name for name in loaded if name.startswith(("rich.", "jwt"))] == []
