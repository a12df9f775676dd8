"""The pages that people read, README.md and docs/, and what is shown in them."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from tests.conftest import PROJECT

README = PROJECT / "README.md"
PAGES = (README, *sorted((PROJECT / "docs").glob("*.md")))
HOME = "/home/user"
"""The home directory of the user in all examples."""

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)
_LINK = re.compile(r"!?\[(?:[^][]|\[[^]]*])*]\(([^)\s]+)\)")
_CODE = re.compile(r"(`+)(?:(?!\1).)+\1", re.DOTALL)


class Block(NamedTuple):
    """A block of code in a page."""

    language: str
    text: str


class ShownCommand(NamedTuple):
    """A command of a page, and the output that is shown of it."""

    command: str
    output: str


def blocks(page: Path) -> list[Block]:
    return [Block(*found) for found in _FENCE.findall(page.read_text(encoding="utf-8"))]


def shown_in(block: Block) -> Iterator[ShownCommand]:
    """Yield the commands of a `console` block; one ends with its line."""
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        yield ShownCommand(command, output.rstrip("\n"))


def prose(page: Path) -> str:
    """Return a page's text without its blocks of code."""
    return _FENCE.sub("", page.read_text(encoding="utf-8"))


def links(page: Path) -> list[str]:
    text = _CODE.sub(lambda code: "`" if "](" in code[0] else code[0], prose(page))
    return [link for link in _LINK.findall(text) if "://" not in link]


def headings(page: Path) -> list[str]:
    return _HEADING.findall(prose(page))


def anchor(heading: str) -> str:
    """Return a heading's anchor, as both GitHub and the site make it."""
    words = re.sub(r"\[([^]]*)]\([^)]*\)", r"\1", heading).replace("`", "")
    return re.sub(r"[^\w\s-]", "", words).strip().lower().replace(" ", "-")


class PageTerminal:
    """A terminal of the user of the examples; `home` stands for `/home/user`."""

    def __init__(self, home: Path, environment: Mapping[str, str]) -> None:
        self.home = home
        self.directory = str(home)
        self._environment = {**environment, "HOME": str(home)}

    def run(self, command: str) -> str:
        """Run a command and return what it writes to stdout, as the user would see it."""
        script = f"{command.replace(HOME, str(self.home))}\nprintf '\\0%s' \"$PWD\""
        done = subprocess.run(  # noqa: S603 - commands of our own pages
            ["bash", "-c", script],  # noqa: S607 - as users have it
            cwd=self.directory,
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        output, _, self.directory = done.stdout.rpartition("\0")
        return output.replace(str(self.home), HOME).rstrip("\n")


def is_shown(output: str, page: str) -> bool:
    """Return whether a page shows an output.

    `...` stands for anything, and on a line of its own for any lines. How many blanks align a table
    depends on the length of paths, so blanks are not compared.
    """
    lines = ["(?s:.*)" if line == "..." else _pattern(line) for line in page.splitlines()]
    return re.fullmatch("\n".join(lines), re.sub(r"[ \t]+", " ", output)) is not None


def _pattern(line: str) -> str:
    return ".*".join(map(re.escape, re.sub(r"[ \t]+", " ", line).split("...")))
