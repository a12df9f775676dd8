"""Try the clients that people use, and print the table: `python -m tests.clients [CLIENT...]`.

With `--write` the table of docs/clients.md is replaced, too.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio

from tests.clients.known import KNOWN, Known, Packages, made
from tests.clients.table import table
from tests.clients.trials import ClientAndTransport, Outcome, pairs_of, tried
from tests.conftest import PROJECT
from tests.live.programs import EraServers, era_servers

PAGE = PROJECT / "docs/clients.md"
BEGIN, END = "<!-- begin of the table -->\n", "<!-- end of the table -->\n"


async def main(keys: list[str], *, write: bool) -> int:
    packages = made()
    found: dict[ClientAndTransport, dict[str, Outcome]] = {}
    pairs = pairs_of(_chosen(keys))
    with TemporaryDirectory() as directory, era_servers(cwd=Path(directory)) as servers:
        for pair in pairs:
            found[pair] = await _tried(pair, packages, servers)
    shown = table(found, packages)
    print(shown)  # noqa: T201 - what it is run for
    if write:
        before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
        after = rest.partition(END)[2]
        PAGE.write_text(f"{before}{BEGIN}\n{shown}\n{END}{after}", encoding="utf-8")
    failed = any(any(outcomes.values()) for outcomes in found.values())
    return 1 if failed else 0


def _chosen(keys: list[str]) -> list[Known]:
    keys_there = dict.fromkeys(known.key for known in KNOWN)
    if unknown := [key for key in keys if key not in keys_there]:
        raise SystemExit(
            f"tests.clients: no client {', '.join(unknown)}\nThere are: {', '.join(keys_there)}"
        )
    return [known for known in KNOWN if not keys or known.key in keys]


async def _tried(
    pair: ClientAndTransport, packages: Packages, servers: EraServers
) -> dict[str, Outcome]:
    if pair.known.version(packages) is None:
        raise SystemExit(
            f"tests.clients: {pair.known.name} is not installed in {packages.root}\n"
            "`make clients` installs it"
        )
    outcomes = await tried(pair, packages, pair.tried(), servers)
    print(f"{pair}:", file=sys.stderr)  # noqa: T201
    for feature, outcome in outcomes.items():
        print(f"    {feature}: {outcome or 'ok'}", file=sys.stderr, flush=True)  # noqa: T201
    return outcomes


if __name__ == "__main__":
    words = sys.argv[1:]
    chosen = [word for word in words if word != "--write"]
    if "--write" in words and chosen:
        raise SystemExit("tests.clients: --write is for the whole table\nName no client with it")
    sys.exit(anyio.run(lambda: main(chosen, write="--write" in words)))
