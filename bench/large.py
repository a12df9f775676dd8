"""Large messages, through programs that pass on nothing else."""

from __future__ import annotations

from functools import partial
from typing import Protocol

from bench.cases import LARGE, Calls, Params, p50
from bench.figures import Table, Target
from bench.on_stdio import BARE_ROW
from bench.placing import place

CALLS = 7


class Programs(Protocol):
    """Programs that were started for this alone."""

    failed: dict[str, str]

    def calls(self, params: Params) -> Calls:
        """Return a call that names no path through each of them."""
        ...


class Large:
    """Calls with 1 MiB in the result or in the argument, of one client at a time.

    The programs have a CPU of their own.
    """

    def __init__(self, transport: str, programs: Programs) -> None:
        self._calls = {kind: programs.calls(params) for kind, params in LARGE.items()}
        self._tables = {
            kind: Table(f"{transport}, 1 MiB {kind}", "ms, p50", BARE_ROW, digits=2)
            for kind in LARGE
        }
        for kind, table in self._tables.items():
            table.targets = {row: Target(2) for row in self._calls[kind] if row.startswith("hub")}
            table.failed |= programs.failed

    def round(self) -> None:
        """Measure all once."""
        for kind, table in self._tables.items():
            for row, (pid, client, params) in self._calls[kind].items():
                place(pid, apart=True)
                table.measure(row, partial(p50, client, params, CALLS, 1e3))

    @property
    def tables(self) -> list[Table]:
        """What was measured."""
        return list(self._tables.values())
