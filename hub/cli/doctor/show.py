"""What `doctor` prints: a table for people, as wide as the terminal; or JSON."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from hub.cli.doctor.findings import LEVELS, Finding
from hub.cli.terminal.colours import BAD, GOOD, HINT, WARNING, painted
from hub.legible import on_one_line

_STYLES: Final = {"ok": GOOD, "note": HINT, "warning": WARNING, "problem": BAD}
_INDENT: Final = 9


def as_json(findings: Sequence[Finding]) -> str:
    """Return the findings and how many there are of each level, as JSON."""
    counts = {level: sum(one.level == level for one in findings) for level in LEVELS}
    return json.dumps({"findings": msgspec.to_builtins(findings), "counts": counts}, indent=2)


def as_table(findings: Sequence[Finding], *, width: int | None) -> Iterator[str]:
    """Yield lines for people, the worst last, where the eye is; None as `width` wraps nothing."""
    for one in sorted(findings, key=lambda one: LEVELS.index(one.level)):
        mark = painted(f"{one.level:<{_INDENT}}", _STYLES[one.level])
        said = f"{one.about}: {on_one_line(one.where)}: {on_one_line(one.what)}"
        first, *rest = _wrapped(said, width)
        yield mark + first
        yield from (" " * _INDENT + line for line in rest)
        if one.fix:
            # Not wrapped: a command is copied as one line.
            yield f"{'':{_INDENT}}-> {on_one_line(one.fix)}"
    yield _verdict(findings)


def _wrapped(text: str, width: int | None) -> list[str]:
    if width is None:
        return [text]
    return textwrap.wrap(text, max(width - _INDENT, 30), break_on_hyphens=False) or [""]


def _verdict(findings: Sequence[Finding]) -> str:
    bad = {level: sum(one.level == level for one in findings) for level in ("problem", "warning")}
    said = [f"{count} {level}{'' if count == 1 else 's'}" for level, count in bad.items() if count]
    return f"{' and '.join(said)}." if said else "Nothing is wrong here."
