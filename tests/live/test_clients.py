"""The clients that the tests have anyway, in short: `make clients` tries more, with more.

The Inspector is in test_inspector.py; lists, logs and changes with the TypeScript SDK are in
test_typescript.py.
"""

from __future__ import annotations

from collections.abc import Generator

import pytest

from tests.clients.known import KNOWN, at_hand
from tests.clients.trials import ClientAndTransport, pairs_of, tried
from tests.live.programs import EraServers, era_servers

CHOSEN = {("typescript-1", "legacy"), ("typescript-2", "modern"), ("python-2", "modern")}
SHORT = [known for known in KNOWN if (known.key, known.era) in CHOSEN]
# For a client stdio is what attach is, and what the Python SDK does over it is in test_eras.py.
PAIRS = [one for one in pairs_of(SHORT) if one.known.key != "python-2" or one.transport != "stdio"]
LONG = {"8 MiB answer", "8 MiB request"}


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Generator[EraServers]:
    with era_servers(cwd=tmp_path_factory.mktemp("eras")) as running:
        yield running


@pytest.mark.parametrize("pair", PAIRS, ids=str)
async def test_a_client_has_all_its_features(pair: ClientAndTransport, servers: EraServers) -> None:
    packages = at_hand()
    if pair.known.version(packages) is None:
        pytest.skip(f"npm packages are not installed: no {pair.known.name}")
    features = [feature for feature in pair.tried() if feature not in LONG]
    assert await tried(pair, packages, features, servers) == dict.fromkeys(features)
