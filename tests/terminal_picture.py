"""The picture of a terminal in docs/index.md, from the calls at the top of README.md.

`python -m tests.terminal_picture` writes docs/terminal.svg. That the calls are real is tested where
the README is run (tests/live/test_shown_sessions.py).
"""

from __future__ import annotations

from textwrap import wrap
from xml.sax.saxutils import escape

from tests.conftest import PROJECT
from tests.kit.pages import README, blocks

PICTURE = PROJECT / "docs/terminal.svg"
COLUMNS = 92
_LINE, _LETTER, _EDGE, _BAR = 20, 8.4, 18, 36
_GREEN, _RED, _GREY = "#7ee787", "#ff7b72", "#e6edf3"


def picture() -> str:
    """Return the picture as SVG."""
    calls = next(block for block in blocks(README) if block.language == "console")
    lines = [row for line in calls.text.splitlines() for row in _rows(line)]
    height, width = _BAR + len(lines) * _LINE + _EDGE, round(COLUMNS * _LETTER) + 2 * _EDGE
    texts = [
        f'<text x="{_EDGE}" y="{_BAR + (at + 1) * _LINE - 5}" fill="{colour}">{escape(text)}</text>'
        for at, (text, colour) in enumerate(lines)
    ]
    dots = [f'<circle cx="{20 + 20 * at}" cy="18" r="6" fill="#484f58"/>' for at in range(3)]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img"'
            ' font-family="ui-monospace, Menlo, Consolas, monospace" font-size="14"'
            ' xml:space="preserve">',
            "<title>An allowed read, and two that are refused</title>",
            f'<rect width="{width}" height="{height}" rx="8" fill="#0d1117"/>',
            *dots,
            *texts,
            "</svg>\n",
        ]
    )


def _rows(line: str) -> list[tuple[str, str]]:
    """Return the rows that a line takes, each with its colour."""
    colour = _GREY if line.startswith("$ ") else _RED if line.startswith("Access") else _GREEN
    return [(row, colour) for row in wrap(line, COLUMNS, subsequent_indent="  ")]


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
