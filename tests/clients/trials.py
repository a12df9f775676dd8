"""Tries the features with one client over one transport: a hub of its own, servers of both eras.

The program that has the servers may be the same for all: each hub launches its own of them.
"""

from __future__ import annotations

import subprocess
from collections.abc import AsyncGenerator, Generator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import anyio

from tests.clients.driven import ClientError, DrivenClient, driven
from tests.clients.features import FEATURES, FORM, WORDS, Trial, Wrong
from tests.clients.inspector import InspectorClient
from tests.clients.known import Known, Packages, Target
from tests.kit.trees import PROJECT as FILES
from tests.kit.trees import plant
from tests.kit.warm import ROOTS_HUB
from tests.live.programs import EraServers, config_file, environment, http_hub

SERVERS = ("legacy", "modern")
"""The eras that the servers behind the hub speak."""
PATIENCE = 90.0
"""Seconds that a feature may take."""

Outcome = str | None
"""What went wrong with a feature, or None."""
Step = tuple[str, str]
"""A server and a feature."""


@dataclass(frozen=True, eq=False)
class ClientAndTransport:
    """A client and the transport it uses."""

    known: Known
    transport: str

    def __str__(self) -> str:
        return f"{self.known.name}, {self.known.era}, {self.transport}"

    def tried(self) -> list[str]:
        """Return the features that the client has."""
        return [feature for feature in FEATURES if feature not in self.known.lacks]


def pairs_of(clients: Iterable[Known]) -> list[ClientAndTransport]:
    """Return each client with each of its transports."""
    return [
        ClientAndTransport(known, transport) for known in clients for transport in known.transports
    ]


async def tried(
    pair: ClientAndTransport, packages: Packages, features: Iterable[str], servers: EraServers
) -> dict[str, Outcome]:
    """Try features before a server of each era; what fails with one of them has failed."""
    outcomes: dict[str, Outcome] = {}
    steps = [(server, feature) for server in SERVERS for feature in features]
    with TemporaryDirectory() as directory:
        tree = plant(Path(directory), *FILES)
        config = config_file(tree, {era: servers.launched(era, era) for era in SERVERS})
        with _hub_of(pair, config, tree) as hub:
            found = await _taken(_Place(pair, packages, hub, tree), steps)
    for (server, feature), outcome in found.items():
        told = outcome and f"before a {server} server: {outcome}"
        outcomes[feature] = outcomes.get(feature) or told
    return outcomes


@dataclass(frozen=True)
class _Place:
    pair: ClientAndTransport
    packages: Packages
    hub: Target
    tree: Path


@contextmanager
def _hub_of(pair: ClientAndTransport, config: str, tree: Path) -> Generator[Target]:
    match pair.transport:
        case "stdio":
            yield [ROOTS_HUB, "run", "--config", config]
        case "attach":
            # SDKs start servers without XDG_RUNTIME_DIR: that hub would be among the user's own.
            runtime = tree / "runtime"
            runtime.mkdir(mode=0o700)
            roots_hub = ["env", f"XDG_RUNTIME_DIR={runtime}", ROOTS_HUB]
            try:
                yield [*roots_hub, "attach", "--config", config]
            finally:
                stop = [*roots_hub, "stop", "--config", config]
                subprocess.run(stop, stdout=subprocess.DEVNULL, check=True)  # noqa: S603 - our own
        case _:
            with http_hub("--config", config, cwd=tree) as url:
                yield url


async def _taken(place: _Place, steps: Sequence[Step]) -> dict[Step, Outcome]:
    """Try each feature with each server; after one that failed, the next has a new connection."""
    outcomes: dict[Step, Outcome] = {}
    left = iter(steps)
    while len(outcomes) < len(steps):
        try:
            async with _connected(place) as client:
                for step in left:
                    server, feature = step
                    outcomes[step] = await _outcome(feature, Trial(client, server, place.tree))
                    if outcomes[step]:
                        break
        except ClientError as error:
            unknown = [step for step in steps if step not in outcomes]
            return outcomes | dict.fromkeys(unknown, f"it does not connect: {error}")
    return outcomes


async def _outcome(feature: str, trial: Trial) -> Outcome:
    try:
        with anyio.fail_after(PATIENCE):
            await FEATURES[feature](trial)
    except TimeoutError:
        return f"nothing came within {PATIENCE:.0f} seconds"
    except (Wrong, ClientError) as error:
        return str(error)
    return None


@asynccontextmanager
async def _connected(place: _Place) -> AsyncGenerator[DrivenClient]:
    known, packages, tree = place.pair.known, place.packages, place.tree
    job: Mapping[str, Any] = {
        "target": known.target(packages, place.hub),
        # A client before mcp-remote speaks the handshake era, whichever mcp-remote speaks.
        "era": known.era if known.through is None else "legacy",
        "env": environment(MCP_REMOTE_CONFIG_DIR=str(tree / "mcp-remote")),
        "roots": [(tree / "project").as_uri()],
        "words": WORDS,
        "form": FORM,
        **({"is_overtaken": True} if known.is_overtaken else {}),
    }
    command = known.command(packages)
    if known.is_inspector:
        # It has no features that need more than it can do.
        yield cast("DrivenClient", InspectorClient(command, job, tree))
    else:
        async with driven(command, job, tree / "driver.log") as client:
            yield client
