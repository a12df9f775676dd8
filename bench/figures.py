"""What was measured, round by round, and how it is printed: medians, spreads, ratios, targets."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path


@dataclass(frozen=True)
class Target:
    """What a ratio must be at most; or at least, if more is better."""

    limit: float
    at_least: bool = False

    def __str__(self) -> str:
        return f"{'≥' if self.at_least else '≤'} {self.limit:g}"

    def verdict(self, ratio: float) -> str:
        """Return whether `ratio` meets this, as it is printed."""
        met = ratio >= self.limit if self.at_least else ratio <= self.limit
        return f"{self} {'met' if met else 'MISSED'}"


@dataclass
class Table:
    """One measurement of several programs, which are compared with the row `yardstick`.

    Ratios are taken within each round, because what slows a machine down slows all of a round.
    """

    title: str
    unit: str
    yardstick: str
    digits: int = 0
    rows: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    targets: dict[str, Target] = field(default_factory=dict[str, Target])
    failed: dict[str, str] = field(default_factory=dict[str, str])

    def add(self, row: str, value: float) -> None:
        """Note what a program needed, or reached, in a round."""
        self.rows.setdefault(row, []).append(value)

    def ratios(self, row: str) -> list[float]:
        """Return how a row compares with the yardstick in each round."""
        return [
            mine / other
            for mine, other in zip(self.rows[row], self.rows[self.yardstick], strict=True)
        ]

    def lines(self) -> list[str]:
        """Return the table as Markdown."""
        out = [
            f"| {self.title} | {self.unit} | spread | × {self.yardstick} | spread | target |",
            "|---|---:|---|---:|---|---|",
        ]
        for row, values in self.rows.items():
            ratios = self.ratios(row) if self.yardstick in self.rows else []
            target = self.targets.get(row)
            cells = [
                row,
                self._shown(statistics.median(values)),
                "–".join(map(self._shown, quartiles(values))),
                f"{statistics.median(ratios):.2f}" if ratios else "",
                "–".join(f"{one:.2f}" for one in quartiles(ratios)) if ratios else "",
                target.verdict(statistics.median(ratios)) if target and ratios else "",
            ]
            out.append(f"| {' | '.join(cells)} |")
        out += [f"| {row} | failed: {why} | | | | |" for row, why in self.failed.items()]
        return [*out, ""]

    def _shown(self, value: float) -> str:
        return f"{value:,.{self.digits}f}"


def quartiles(values: Sequence[float]) -> tuple[float, float]:
    """Return between which values the middle half lies."""
    if len(values) < 2:
        return values[0], values[0]
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, high


def machine() -> str:
    """Return where and when this runs, in a line."""
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    model = ""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        found = [line for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
        model = found[0].split(":", 1)[1].strip() if found else ""
    load = f"load {os.getloadavg()[0]:.1f} at the start"
    python = f"Python {platform.python_version()}"
    return ", ".join(
        [
            now,
            f"{os.cpu_count()} CPUs",
            model or platform.machine(),
            platform.system(),
            python,
            load,
        ]
    )
