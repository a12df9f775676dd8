"""How soon a new hub lists the tools of ten servers: `python -m bench.first_lists [ROUNDS]`.

Each row is the time from the start of the hub's process to its answer to `tools/list`, over stdio,
for a client with a root. The rows take turns: with the lists of the servers in the hub's cache and
without, and where one of the ten hangs.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from bench.cases import folder_in
from bench.figures import Table, Target, machine
from bench.piped import Piped, WrongAnswerError
from bench.programs import CHILD, exit_on_sigterm, hub_config, hub_on_stdio

ROUNDS = 7
SERVERS = 10
HANGS = "hangs"
"""The file whose presence makes the last server hang."""
COLD, WARM = "nothing in the cache", "all in the cache"
COLD_HANGING, WARM_HANGING = f"{COLD}, one hangs", f"{WARM}, one hangs now"
NEVER = "all others in the cache, one has always hung"
WITHIN = {COLD_HANGING: 1000, WARM: 350, WARM_HANGING: 350, NEVER: 350}
"""Milliseconds that the median of a row should have at most."""


class FirstLists:
    """A config of ten servers; each measurement starts a hub with a cache of its own."""

    def __init__(self, stack: ExitStack) -> None:
        # Installed programs have their byte code.
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        self._root = folder_in(stack)
        self._folder = self._root.parent
        wait = 'if [ -e "$0" ]; then exec sleep 3600; fi; exec "$@"'
        last = ["/bin/sh", "-c", wait, str(self._folder / HANGS), *CHILD]
        servers = {f"s{number}": CHILD for number in range(SERVERS - 1)}
        self._argv = hub_on_stdio(hub_config(self._folder, {**servers, "last": last}))
        self.table = Table("tools/list of ten servers, from process start", "ms", COLD)
        for name in (WARM, NEVER):
            self._set_hanging(name == NEVER)
            self._list(self._cache(name))
            # The list was answered; the hub writes the rest when it ends.

    def round(self) -> None:
        """Measure each row once."""
        rows: dict[str, Callable[[], float]] = {
            COLD: partial(self._measured, None, hangs=False),
            WARM: partial(self._measured, WARM, hangs=False),
            COLD_HANGING: partial(self._measured, None, hangs=True),
            WARM_HANGING: partial(self._measured, WARM, hangs=True),
            NEVER: partial(self._measured, NEVER, hangs=True),
        }
        for name, take in rows.items():
            self.table.measure(name, take)

    def lines(self) -> list[str]:
        """Return the table, and how it compares with what it should be."""
        found = {name: sorted(times)[len(times) // 2] for name, times in self.table.rows.items()}
        verdicts = [
            f"{name}: {found[name]:.0f} ms, {Target(limit).verdict(found[name])}"
            for name, limit in WITHIN.items()
            if name in found
        ]
        return [*self.table.lines(), *verdicts]

    def _cache(self, name: str) -> Path:
        return self._folder / name.replace(" ", "-").replace(",", "")

    def _set_hanging(self, hangs: bool) -> None:
        flag = self._folder / HANGS
        if hangs:
            flag.touch()
        else:
            flag.unlink(missing_ok=True)

    def _measured(self, cache: str | None, *, hangs: bool) -> float:
        """Return the milliseconds to the list; `cache` None: with an empty cache."""
        self._set_hanging(hangs)
        kept = self._cache(cache or "none")
        if cache is None:
            shutil.rmtree(kept, ignore_errors=True)
        # The hub must not change what the next round finds.
        copy = self._cache("copy")
        shutil.rmtree(copy, ignore_errors=True)
        if kept.exists():
            shutil.copytree(kept, copy)
        taken, tools = self._list(copy)
        servers = SERVERS - (hangs and cache != WARM)
        if tools != servers * 4 + 1:
            raise WrongAnswerError(f"{tools} tools of {servers} servers")
        return taken

    def _list(self, cache: Path) -> tuple[float, int]:
        began = time.perf_counter()
        environment = {"XDG_CACHE_HOME": str(cache)}
        program = Piped(
            self._argv, folder=self._folder, roots=[self._root], environment=environment
        )
        try:
            program.begin()
            tools = program.request("tools/list", {})["tools"]
            return (time.perf_counter() - began) * 1e3, len(tools)
        finally:
            program.end()


def main() -> None:
    """Print the table."""
    exit_on_sigterm()
    with ExitStack() as stack:
        lists = FirstLists(stack)
        for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS):
            lists.round()
        print("\n".join([machine(), *lists.lines()]))


if __name__ == "__main__":
    main()
