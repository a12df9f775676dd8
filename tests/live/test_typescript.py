"""The TypeScript SDK's clients, of its first and its second line, before servers of both eras."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from tests.kit.warm import WARM
from tests.live.era_server import MANY, NAMES
from tests.live.programs import SOON, config_file, environment, era_servers, outside

PROGRAM = str(Path(__file__).parent / "typescript_client.mjs")
CLIENTS = [("one", "legacy"), ("two", "legacy"), ("two", "modern")]
SERVERS = ["legacy", "modern"]


@pytest.fixture(scope="module")
def node(npm_package: Callable[[str], str]) -> str:
    npm_package("@modelcontextprotocol/sdk")
    return npm_package("@modelcontextprotocol/client")


@pytest.fixture(scope="module")
def config(tree: Path) -> Generator[str]:
    with era_servers(cwd=tree) as running:
        yield config_file(tree, {era: running.launched(era, era, "many") for era in SERVERS})


@pytest.fixture(params=CLIENTS, ids="-".join)
def client(request: pytest.FixtureRequest) -> tuple[str, str]:
    """Name the line of the SDK, and the era its client speaks."""
    return request.param


@pytest.mark.parametrize("transport", ["run", "attach", "http"])
def test_a_typescript_client_uses_all_that_a_hub_offers(  # noqa: PLR0913, PLR0917 - each is a fixture
    node: str, client: tuple[str, str], transport: str, url: str, config: str, tree: Path
) -> None:
    line, era = client
    asked: dict[str, Any] = {
        "line": line,
        "era": era,
        "target": url if transport == "http" else [WARM.command(), transport, "--config", config],
        "env": environment(),
        "roots": [{"uri": (tree / "project").as_uri(), "name": "project"}],
        "outside": str(tree / "private/secret.txt"),
        "servers": SERVERS,
    }
    done = subprocess.run(  # noqa: S603 - ours
        [node, PROGRAM, json.dumps(asked)],
        capture_output=True,
        text=True,
        timeout=2 * SOON,
        check=False,
    )
    assert done.stdout, done.stderr
    by_server: dict[str, dict[str, Any]] = json.loads(done.stdout)
    assert [*by_server] == SERVERS
    for server, found in by_server.items():
        assert found.get("failed") is None
        assert found["server"] == "roots-hub"
        if line == "two":
            assert found["version"] == ("2026-07-28" if era == "modern" else "2025-11-25")
        hold_lists(found, server)
        hold_calls(found, tree)
        assert found["read"] == f"era://{server}/one"
        assert found["updated"] == [f"era://{server}/one"]
        # A modern client's lists come from another process than its calls to who asks for roots.
        assert found["shown"] or era == "modern"


def hold_lists(found: dict[str, Any], server: str) -> None:
    names = set(found["tools"]["names"])
    assert {"get-roots", *(f"{server}__{name}" for name in NAMES.split())} <= names
    assert sum(name.startswith(f"{server}__many_") for name in names) == MANY
    # The other server may not be there yet.
    assert set(found["resources"]) == {"one"}
    assert set(found["templates"]) == {"any"}
    assert f"{server}__first" in found["prompts"]


def hold_calls(found: dict[str, Any], tree: Path) -> None:
    project, secret = tree / "project", tree / "private/secret.txt"
    assert found["prompt"] == "first"
    assert found["refused"] == [True, outside(secret, project)]
    assert found["roots"] == [project.as_uri()]
    assert found["ask_model"]["content"] == {"type": "text", "text": "own words"}
    assert found["ask_form"] == {"action": "accept", "content": {"n": 7}}
    assert found["ask_url"]["action"] == "accept"
    assert found["asked"] == [["sample", 17], ["form", "How many?"], ["url", "Look here"]]
    assert found["steps"] == "done"
    # The SDK drops reports that it reads together with the answer; a cancelled call has none, and
    # is cancelled on its report.
    assert found["progress"] == [[1, 3], [2, 3], [3, 3]][: len(found["progress"])]
    assert (found["aborted"], found["cancelled"]) == (True, "cancelled")
    assert found["logs"] == ["error"]
