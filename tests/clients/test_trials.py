"""A client that fails is told of for each feature, and one failure is not the next one's."""

from __future__ import annotations

import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.clients.features import FEATURES
from tests.clients.known import Known, Packages
from tests.clients.trials import ClientAndTransport, tried
from tests.live.programs import EraServers, era_servers

pytestmark = pytest.mark.live

PACKAGES = Packages(Path("/nowhere"), {})
REFUSING = """
import json, sys
print(json.dumps({"id": 0, "result": None}), flush=True)
sys.stdin.readline()
asked = json.loads(sys.stdin.readline())
print(json.dumps({"id": asked["id"], "error": f"no {asked['do']} today"}), flush=True)
sys.stdin.readline()
"""


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Generator[EraServers]:
    with era_servers(cwd=tmp_path_factory.mktemp("eras")) as running:
        yield running


def client(program: str) -> ClientAndTransport:
    def command(_: Packages) -> list[str]:
        return [sys.executable, "-c", program]

    return ClientAndTransport(Known("one", "Client One", "legacy", lambda _: "1", command), "stdio")


async def test_a_program_that_ends_has_no_feature(servers: EraServers) -> None:
    found = await tried(client("raise SystemExit('no licence')"), PACKAGES, FEATURES, servers)
    told = "before a legacy server: it does not connect: the client's program ended: no licence"
    assert found == dict.fromkeys(FEATURES, told)


async def test_a_feature_after_one_that_failed_is_tried_on_a_new_connection(
    servers: EraServers,
) -> None:
    features = ["in/out", "resources", "roots change"]
    found = await tried(client(REFUSING), PACKAGES, features, servers)
    assert found == {
        "in/out": "before a legacy server: no call today",
        "resources": "before a legacy server: no resources today",
        "roots change": "before a legacy server: no roots today",
    }
