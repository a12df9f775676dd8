"""Unified diffs of texts, in a time that the size of the texts bounds."""

from collections.abc import Iterable, Iterator
from difflib import SequenceMatcher
from io import StringIO
from itertools import takewhile
from operator import eq
from typing import Any, Final

_CONTEXT: Final = 3
"""Unchanged lines that are shown around each change."""
_MOST_COMPARED: Final = 10**9
"""Old lines times new lines that are compared: with more it can take hours."""
_NO_END: Final = "\n\\ No newline at end of file\n"


def unified_diff(path: str, before: str, after: str) -> str:
    """Return what has changed in a text; where that is too much, the lines from first to last."""
    old, new = StringIO(before).readlines(), StringIO(after).readlines()
    start = _count_same(old, new)
    if start == len(old) == len(new):
        return "Nothing changed"
    end = min(_count_same(reversed(old), reversed(new)), min(len(old), len(new)) - start)
    if (len(old) - start - end) * (len(new) - start - end) > _MOST_COMPARED:
        lines = f"lines {start + 1} to {len(old) - end}"
        return f"The changes in {path} are too far apart to be shown: {lines}"
    shown = [f"--- {path}\n", f"+++ {path}\n"]
    for hunk in _Between(old, new, start, end).get_grouped_opcodes(_CONTEXT):
        (_, i, _, j, _), (_, _, i_end, _, j_end) = hunk[0], hunk[-1]
        shown.append(f"@@ -{_range(i, i_end)} +{_range(j, j_end)} @@\n")
        for tag, i, i_end, j, j_end in hunk:
            shown += _lines(tag, old[i:i_end], new[j:j_end])
    return "".join(one if one.endswith("\n") else f"{one}{_NO_END}" for one in shown)


class _Between(SequenceMatcher[str]):
    """Compares lines, but for the first `start` and the last `end`, which are the same in both."""

    def __init__(self, old: list[str], new: list[str], start: int, end: int) -> None:
        super().__init__(None, old[start : len(old) - end], new[start : len(new) - end])
        self._start = start
        self._last = (len(old) - end, len(old), len(new) - end, len(new))

    def get_opcodes(self) -> Any:
        """Return what to do with which lines, for all of them."""
        at, last = self._start, self._last
        first = [("equal", 0, at, 0, at)] if at else []
        changes = super().get_opcodes()
        shifted = [(tag, i + at, i2 + at, j + at, j2 + at) for tag, i, i2, j, j2 in changes]
        return [*first, *shifted, *([("equal", *last)] if last[0] < last[1] else [])]


def _lines(tag: str, old: list[str], new: list[str]) -> Iterator[str]:
    if tag == "equal":
        yield from (f" {line}" for line in old)
    else:
        yield from (f"-{line}" for line in old)
        yield from (f"+{line}" for line in new)


def _range(start: int, end: int) -> str:
    if end == start + 1:
        return f"{end}"
    return f"{start if end == start else start + 1},{end - start}"


def _count_same(one: Iterable[str], other: Iterable[str]) -> int:
    """Return how many lines are the same before the first that is not."""
    return sum(1 for _ in takewhile(bool, map(eq, one, other)))
