"""What the live tests share: their mark, and a tree that their clients share parts of."""

import os
from collections.abc import Generator
from pathlib import Path

import anyio
import pytest
from httpx2._config import DEFAULT_TIMEOUT_CONFIG

from tests.kit.ports import free_port
from tests.kit.trees import PROJECT, plant
from tests.kit.warm import open_process
from tests.live.programs import SOON, http_hub

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark everything here `live`."""
    below = f"{HERE}{os.sep}"
    for item in items:
        if str(item.path).startswith(below):
            item.add_marker(pytest.mark.live)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Plant the tree of `tests/kit/trees.py`; each of its files holds its own name."""
    top = plant(tmp_path_factory.mktemp("tree"), *PROJECT, "project/link => ../private")
    for file in PROJECT:
        (top / file).write_text(file)
    return top


@pytest.fixture(scope="module")
def url(tree: Path, config: str) -> Generator[str]:
    """Give the hub that all tests of a module use over HTTP; the module says with which config."""
    with http_hub("--config", config, cwd=tree) as served:
        yield served


@pytest.fixture(scope="module")
def resource() -> str:
    """Return the URL of a server that does not run yet."""
    return f"http://127.0.0.1:{free_port()}/mcp"


@pytest.fixture(scope="session", autouse=True)
def warm_hubs() -> Generator[None]:
    """Let the SDK's client, too, start hubs that are forked."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(anyio, "open_process", open_process)
        yield


@pytest.fixture(scope="session", autouse=True)
def patient_clients() -> Generator[None]:
    """Let the tests' own HTTP clients wait longer than the five seconds that are the default."""
    with pytest.MonkeyPatch.context() as patch:
        for step in DEFAULT_TIMEOUT_CONFIG.as_dict():
            patch.setattr(DEFAULT_TIMEOUT_CONFIG, step, SOON)
        yield
