"""Lists what escapes the guard, by classes: python -m tests.oracle [SECONDS] [SEED]."""

from __future__ import annotations

import itertools
import random
import shutil
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import TypeAlias

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded

from tests.oracle.node import running
from tests.oracle.search import Opener, escapes, in_python
from tests.oracle.shells import SHELLS, Shell
from tests.oracle.spellings import Attack, attacks
from tests.oracle.verdicts import Guard

Class: TypeAlias = tuple[str, ...]
FOREVER = settings(
    max_examples=10**9,
    database=None,
    deadline=None,
    derandomize=False,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.too_slow],
)


@contextmanager
def openers() -> Generator[list[Opener]]:
    """Give all openers that there are programs for."""
    found: list[Opener] = [in_python]
    for name in SHELLS:
        program = shutil.which(name)
        if program is not None:
            found.append(Shell(name, program))
    node = shutil.which("node")
    if node is None:
        yield found
        return
    with running(node) as opener:
        yield [*found, opener]


class Census:
    """The plainest escape of each class."""

    def __init__(self) -> None:
        self.classes: dict[Class, tuple[int, str]] = {}
        self.tried = 0

    def hold(self, attack: Attack, opener: Opener) -> None:
        """Keep what escapes."""
        self.tried += len(attack.spellings)
        how = {name for spelling in attack.spellings for name, _ in spelling.rewritings}
        for escape in escapes(attack, Guard, opener):
            kind = (escape.key.family, *escape.opened.chain)
            weight = 1000 * len(how) + len(str(escape.arguments))
            if kind not in self.classes or weight < self.classes[kind][0]:
                self.classes[kind] = weight, str(escape)

    def report(self) -> str:
        """Return all that was found."""
        lines = (f"{', '.join(kind)}\n{line}" for kind, (_, line) in sorted(self.classes.items()))
        return "\n".join(
            [*lines, f"{self.tried} spellings, {len(self.classes)} classes of escapes"]
        )


class OverError(BaseException):
    """The time is over; hypothesis lets it through."""


def main(seconds: float, seed: int) -> int:
    """Search for so long; returns 1 if something was found."""
    census = Census()
    end = time.monotonic() + seconds
    with openers() as all_of_them, suppress(OverError):
        turns = itertools.cycle(all_of_them)

        @seeded(seed)
        @settings(FOREVER)
        @given(attacks())
        def search(attack: Attack) -> None:
            if time.monotonic() > end:
                raise OverError
            census.hold(attack, next(turns))

        search()
    sys.stdout.write(f"{census.report()}; seed {seed}\n")
    return 1 if census.classes else 0


if __name__ == "__main__":
    numbers = [float(argument) for argument in sys.argv[1:]]
    sys.exit(
        main(
            numbers[0] if numbers else 60,
            int(numbers[1]) if len(numbers) > 1 else random.randrange(2**32),  # noqa: S311
        )
    )
