"""Tables and differences, for the commands that set the hub up; without secrets."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from hub.cli.terminal import aligned, painted
from hub.config.clients.secrets import looks_secret
from hub.config.editing import in_common
from hub.config.source.places import MASK
from hub.launch.environments import is_named_like_a_secret
from hub.legible import on_one_line

_WIDEST: Final = 60
_AROUND: Final = 3
"""Lines around a change that are shown."""
_LONG: Final = 240
_WIDE: Final = 5000
"""Characters around a change in which a secret has its key, too."""
_LONGEST: Final = 2000
_DIFF_STYLES: Final = {"+": "green", "-": "red", "@": "cyan"}
_HEADING: Final = re.compile(r"@@ -(\d+)((?:,\d+)?) \+(\d+)((?:,\d+)?) @@")
_VALUE: Final = re.compile(
    r"""(?P<key>["']?(?<![\w.-])(?P<name>[\w.-]+)["']?\s*[:=]\s*)(?P<quote>["'])(?P<value>(?:\\.|(?!(?P=quote)).)*)(?:(?P=quote)|$)"""
)
"""A key with its value in quotes, of which a cut may have taken the second one.

It is looked for at the start of a word alone: else the time grows with the square of a word."""
_BARE: Final = re.compile(r"""(?P<key>^[+ -]?\s*(?P<name>[\w.-]+):\s+)(?P<value>[^\s"'{\[].*)$""")
_IN_BRACES: Final = re.compile(
    r"""(?P<key>[{,]\s*(?P<name>[\w.-]+):\s+)(?P<value>[^\s"'{}\[,][^{},]*)"""
)
_OPTION: Final = re.compile(
    r"""(?P<key>["'](?P<name>--?[A-Za-z][\w-]*)["'],\s*)(?P<quote>["'])(?P<value>(?!-)(?:\\.|(?!(?P=quote)).)*)(?:(?P=quote)|$)"""
)
_QUOTED: Final = re.compile(r'"(?P<value>(?:\\.|[^"\\])*)"')


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table; long cells but the last are cut."""
    cells = [
        [_cut(cell, is_last=at == len(heads) - 1) for at, cell in enumerate(row)] for row in rows
    ]
    return aligned([heads, *cells])


def _cut(text: str, *, is_last: bool) -> str:
    text = on_one_line(text)
    return text if is_last or len(text) <= _WIDEST else f"{text[: _WIDEST - 1]}{MASK}"


def shown(path: Path) -> str:
    """Return a path as a person writes it, with `~` for the home directory."""
    home = str(Path.home())
    text = str(path)
    return on_one_line(f"~{text[len(home) :]}" if text.startswith(f"{home}/") else text)


def in_colours(diff: Iterable[str]) -> Iterator[str]:
    """Yield the lines of a diff in the colours that diffs have on a terminal."""
    for line in diff:
        yield painted(line, _DIFF_STYLES.get(line[:1], ""))


def difference(path: Path, old: str, new: str) -> list[str]:
    """Return a unified diff as lines, with `…` for what looks like a secret."""
    before, after = old.splitlines(), new.splitlines()
    # Only what is around the change is compared: files may have a million lines.
    start = max(0, in_common(before, after) - _AROUND)
    end = max(0, in_common(before[start:][::-1], after[start:][::-1]) - _AROUND)
    lines = difflib.unified_diff(
        before[start : len(before) - end],
        after[start : len(after) - end],
        shown(path),
        f"{shown(path)} (new)",
        lineterm="",
    )
    return [on_one_line(_cut_line(line)) for line in _shortened(_moved(lines, start))]


def _moved(lines: Iterable[str], by: int) -> Iterator[str]:
    """Yield the lines of a diff with other line numbers in their headings."""
    for line in lines:
        if found := _HEADING.match(line):
            old, new = int(found[1]) + by, int(found[3]) + by
            yield f"@@ -{old}{found[2]} +{new}{found[4]} @@"
        else:
            yield line


def _shortened(lines: Iterable[str]) -> list[str]:
    """Return the lines of a diff; of a long one that changed, what is around the change."""
    made = list(lines)
    for at, line in enumerate(made):
        other = made[at + 1] if at + 1 < len(made) else ""
        if line[:1] == "-" and other[:1] == "+" and max(len(line), len(other)) > _LONG:
            made[at], made[at + 1] = _around(line, other)
    return made


def _cut_line(line: str) -> str:
    """Return the start of a line without secrets, which are masked while they are whole."""
    shown = without_secrets(line[:_WIDE])
    is_whole = len(line) <= _WIDE and len(shown) <= _LONGEST
    return shown if is_whole else f"{shown[:_LONGEST]}{MASK}"


def _around(old: str, new: str) -> tuple[str, str]:
    """Return what is around the change of a line; secrets are masked while their keys are there."""
    old, new = _cut_out(old, new, _WIDE)
    return _cut_out(without_secrets(old), without_secrets(new), _LONG // 4)


def _cut_out(old: str, new: str, margin: int) -> tuple[str, str]:
    start = in_common(old[1:], new[1:]) + 1
    end = min(in_common(old[start:][::-1], new[start:][::-1]), min(len(old), len(new)) - start)
    first = max(1, start - margin)

    def cut(text: str) -> str:
        last = min(len(text), len(text) - end + margin)
        before, after = MASK if first > 1 else "", MASK if last < len(text) else ""
        return f"{text[0]}{before}{text[first:last]}{after}"

    return cut(old), cut(new)


def without_secrets(line: str) -> str:
    """Return a line of a config with `…` for values that look like secrets."""
    line = _VALUE.sub(_masked, line)
    for pattern in (_BARE, _IN_BRACES, _OPTION):
        line = pattern.sub(_masked, line)
    return _QUOTED.sub(
        lambda found: f'"{MASK}"' if looks_secret(found["value"]) else found[0], line
    )


def _masked(found: re.Match[str]) -> str:
    name, value = found["name"].lstrip("-"), found["value"]
    is_login = name.casefold() in {"authorization", "cookie"}
    if not value or not (is_login or is_named_like_a_secret(name) or looks_secret(value)):
        return found[0]
    quote = found.groupdict().get("quote") or ""
    return f"{found['key']}{quote}{MASK}{quote}"
