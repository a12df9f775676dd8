"""Lists what escapes the guard, by classes: python -m tests.oracle [SECONDS] [SEED]."""

from __future__ import annotations

import random
import sys
import time

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded

from tests.oracle.search import Escape, escapes, in_python
from tests.oracle.spellings import Attack, attacks
from tests.oracle.verdicts import Guard

Class = tuple[str, ...]


def main(seconds: float, seed: int) -> int:
    """Search for so long; returns 1 if something was found."""
    found: dict[Class, tuple[int, str]] = {}
    tried = 0
    end = time.monotonic() + seconds

    @seeded(seed)
    @settings(
        max_examples=10**9,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(attacks())
    def search(attack: Attack) -> None:
        nonlocal tried
        if time.monotonic() > end:
            raise KeyboardInterrupt
        tried += len(attack.spellings)
        how = {name for spelling in attack.spellings for name, _ in spelling.rewritings}
        for escape in escapes(attack, Guard, in_python):
            keep(escape, len(how), found)

    try:
        search()
    except KeyboardInterrupt:
        pass
    for (family, *chain), (_, line) in sorted(found.items()):
        sys.stdout.write(f"{family} | {', '.join(chain)}\n{line}\n")
    sys.stdout.write(f"{tried} spellings, {len(found)} classes of escapes; seed {seed}\n")
    return 1 if found else 0


def keep(escape: Escape, rewritings: int, found: dict[Class, tuple[int, str]]) -> None:
    """Keep the plainest escape of each class."""
    kind = (escape.key.family, *escape.opened.chain)
    weight = 1000 * rewritings + len(str(escape.arguments))
    if kind not in found or weight < found[kind][0]:
        found[kind] = weight, str(escape)


if __name__ == "__main__":
    numbers = [float(argument) for argument in sys.argv[1:]]
    sys.exit(
        main(
            numbers[0] if numbers else 60,
            int(numbers[1]) if len(numbers) > 1 else random.randrange(2**32),  # noqa: S311
        )
    )
