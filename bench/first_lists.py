"""How soon a new hub lists the tools of ten servers: `python -m bench.first_lists [ROUNDS]`.

Each row is the time from the start of the client's process to the answer to `tools/list`, over
stdio, for a client with a root. The rows take turns: with the lists of the servers in the hub's
cache and without, where one of the ten hangs, and for clients that attach to a shared hub.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from bench.cases import folder_in
from bench.figures import Table, Target, machine
from bench.piped import Piped, WrongAnswerError
from bench.programs import CHILD, HUB, exit_on_sigterm, hub_attached, hub_config, hub_on_stdio

ROUNDS = 7
SERVERS = 10
HANGS = "hangs"
"""The file whose presence makes the last server hang."""
USED = "used"
"""The cache that hubs are started with."""
COLD, WARM = "nothing in the cache", "all in the cache"
COLD_HANGING, WARM_HANGING = f"{COLD}, one hangs", f"{WARM}, one hangs now"
NEVER = "all others in the cache, one has always hung"
ATTACHED = "attach, its hub runs"
ATTACHED_WARM = f"attach starts the hub, {WARM}"
ATTACHED_HANGING = f"attach starts the hub, {COLD_HANGING}"
WITHIN = {
    COLD_HANGING: 1000,
    WARM: 350,
    WARM_HANGING: 350,
    NEVER: 350,
    ATTACHED: 80,
    ATTACHED_WARM: 350,
    ATTACHED_HANGING: 1000,
}
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
        self._config = hub_config(self._folder, {**servers, "last": last})
        self._environment = {
            # Servers inherit it, so lists are kept for this place alone.
            "XDG_CACHE_HOME": str(self._cache(USED)),
            "XDG_RUNTIME_DIR": str(self._folder),
            "XDG_STATE_HOME": str(self._folder / "state"),
        }
        self._folder.chmod(0o700)
        self.table = Table("tools/list of ten servers, from process start", "ms", COLD)
        for name in (WARM, NEVER):
            self._set_hanging(name == NEVER)
            shutil.rmtree(self._cache(USED), ignore_errors=True)
            self._list(hub_on_stdio(self._config))
            # The list was answered; the hub has written the rest when it ended.
            self._cache(USED).rename(self._cache(name))

    def round(self) -> None:
        """Measure each row once."""
        rows: dict[str, Callable[[], float]] = {
            COLD: partial(self._measured, None, hangs=False),
            WARM: partial(self._measured, WARM, hangs=False),
            COLD_HANGING: partial(self._measured, None, hangs=True),
            WARM_HANGING: partial(self._measured, WARM, hangs=True),
            NEVER: partial(self._measured, NEVER, hangs=True),
            ATTACHED: partial(self._attached, WARM, hangs=False, is_first=False),
            ATTACHED_WARM: partial(self._attached, WARM, hangs=False),
            ATTACHED_HANGING: partial(self._attached, None, hangs=True),
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
        self._prepare(cache, hangs=hangs)
        return self._checked(hub_on_stdio(self._config), SERVERS - (hangs and cache != WARM))

    def _attached(self, cache: str | None, *, hangs: bool, is_first: bool = True) -> float:
        """Return the same for `attach`; `is_first`: no hub is running for it yet."""
        self._prepare(cache, hangs=hangs)
        argv = hub_attached(self._config)
        servers = SERVERS - (hangs and cache != WARM)
        try:
            if not is_first:
                self._checked(argv, servers)
            return self._checked(argv, servers)
        finally:
            stop = [HUB, "stop", "--config", str(self._config)]
            environment = {**os.environ, **self._environment}
            subprocess.run(stop, env=environment, stdout=subprocess.DEVNULL, check=True)

    def _prepare(self, cache: str | None, *, hangs: bool) -> None:
        self._set_hanging(hangs)
        # The hub must not change what the next round finds.
        shutil.rmtree(self._cache(USED), ignore_errors=True)
        if cache is not None:
            shutil.copytree(self._cache(cache), self._cache(USED))

    def _checked(self, argv: list[str], servers: int) -> float:
        taken, tools = self._list(argv)
        if tools != servers * 4 + 1:
            raise WrongAnswerError(f"{tools} tools of {servers} servers")
        return taken

    def _list(self, argv: list[str]) -> tuple[float, int]:
        began = time.perf_counter()
        program = Piped(
            argv, folder=self._folder, roots=[self._root], environment=self._environment
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
