"""What was measured, round by round, and how it is printed: medians, spreads, ratios, targets."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from bench.piped import WrongAnswerError, within

PATIENCE = 60.0
"""Seconds that one measurement of one program may take."""


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
    `beyond_peers` are the rows that the best of `peers` is compared with, where more is better.
    """

    title: str
    unit: str
    yardstick: str
    digits: int = 0
    rows: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    targets: dict[str, Target] = field(default_factory=dict[str, Target])
    peers: list[str] = field(default_factory=list[str])
    beyond_peers: dict[str, Target] = field(default_factory=dict[str, Target])
    failed: dict[str, str] = field(default_factory=dict[str, str])

    def measure(self, row: str, take: Callable[[], float]) -> None:
        """Note what a program needed, or reached, in a round; one that fails is left out then."""
        if row in self.failed:
            return
        try:
            with within(PATIENCE):
                value = take()
        except (WrongAnswerError, OSError, ValueError) as exc:
            self.failed[row] = " ".join(str(exc).split())[:200]
            self.rows.pop(row, None)
        else:
            self.add(row, value)

    def add(self, row: str, value: float) -> None:
        """Note what a program needed, or reached, in a round."""
        self.rows.setdefault(row, []).append(value)

    def lines(self) -> list[str]:
        """Return the table as Markdown."""
        heads = [self.title, self.unit, "spread", f"× {self.yardstick}", "spread", "target"]
        heads += ["× best peer"] if self.peers else []
        out = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
        for row, values in self.rows.items():
            cells = [row, self._shown(statistics.median(values)), self._spread(values)]
            cells += self._compared(row)
            cells += [self._beside_peers(row)] if self.peers else []
            out.append(f"| {' | '.join(cells)} |")
        rest = " |" * (len(heads) - 2)
        return [*out, *[f"| {row} | failed: {why} |{rest}" for row, why in self.failed.items()], ""]

    def _compared(self, row: str) -> list[str]:
        others = self.rows.get(self.yardstick, [])
        if len(others) != len(self.rows[row]):
            return ["", "", ""]
        ratios = [mine / other for mine, other in zip(self.rows[row], others, strict=True)]
        ratio, target = statistics.median(ratios), self.targets.get(row)
        spread = "–".join(f"{one:.2f}" for one in quartiles(ratios))
        return [f"{ratio:.2f}", spread, target.verdict(ratio) if target else ""]

    def _beside_peers(self, row: str) -> str:
        best = max(
            (statistics.median(self.rows[one]) for one in self.peers if one in self.rows), default=0
        )
        target = self.beyond_peers.get(row)
        if target is None or not best:
            return ""
        ratio = statistics.median(self.rows[row]) / best
        return f"{ratio:.1f}, {target.verdict(ratio)}"

    def _spread(self, values: Sequence[float]) -> str:
        return "–".join(map(self._shown, quartiles(values)))

    def _shown(self, value: float) -> str:
        return f"{value:,.{self.digits}f}"


class Part(Protocol):
    """Something that is measured in rounds."""

    @property
    def tables(self) -> list[Table]:
        """What was measured."""
        ...

    def round(self) -> None:
        """Measure all once."""
        ...


def measure(parts: Sequence[Part], rounds: int) -> None:
    """Measure in turns; a first round that warms everything up does not count."""
    for number in range(rounds + 1):
        for part in parts:
            part.round()
            if number == 0:
                for table in part.tables:
                    table.rows.clear()


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
