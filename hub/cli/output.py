"""Output for people: what is wrong, in colours and moving lines on a terminal, plain in a pipe.

Commands that serve clients (`run`, `wrap`, `attach`) print nothing of it: they do not load rich.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Literal, Protocol, TypeAlias

import structlog
from msgspec import Struct
from structlog.typing import EventDict, WrappedLogger

from hub.legible import on_one_line
from hub.system.log import shows_colours

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


GOOD: Final = "bold green"
BAD: Final = "bold red"
WARNING: Final = "yellow"
HINT: Final = "cyan"
NAME: Final = "bold"


Level: TypeAlias = Literal["ok", "note", "warning", "problem"]
LEVELS: Final[tuple[Level, ...]] = ("ok", "note", "warning", "problem")


class Finding(Struct, frozen=True):
    """One thing found: `where` it is, `what` it is; `fix` mends it.

    `about` is its kind. `fix` is a sentence, a command, or an edit with the file that it is for; it
    is empty if there is nothing to do.
    """

    level: Level
    about: str
    where: str
    what: str
    fix: str = ""

    @property
    def sentence(self) -> str:
        """It as a text for people, without its level and kind."""
        return ". ".join(filter(None, (f"{self.where}: {self.what}", self.fix)))


def untold(*events: str) -> None:
    """Keep events out of the log from now on: the command tells them itself."""

    def told(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
        if event.get("event") in events:
            raise structlog.DropEvent
        return event

    structlog.configure(processors=[told, *structlog.get_config()["processors"]])


def counted(number: int, what: str) -> str:
    """Return a number of things: `1 server`, `2 servers`."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows as lines whose cells begin below each other."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def painted(text: str, style: str) -> str:
    """Return a text in a style such as `bold red`, or as it is where there are no colours."""
    return _rendered(text, style) if text and style and shows_colours(sys.stdout) else text


@lru_cache(256)
def _rendered(text: str, style: str) -> str:
    from rich.style import Style  # noqa: PLC0415 - slow to load, and not needed in a pipe

    return Style.parse(style).render(text)


class Steps(Protocol):
    """Shows steps that may be done side by side."""

    def begin(self, name: str, doing: str) -> None:
        """Show that the step `name` is under way: `doing` says what is done."""
        ...

    def end(self, name: str, result: str) -> None:
        """Show a step's result; it is no longer under way."""
        ...


class _PlainSteps:
    def begin(self, name: str, doing: str) -> None:
        print(f"{on_one_line(name)}: {doing}", flush=True)

    def end(self, name: str, result: str) -> None:
        print(f"{on_one_line(name)}: {result}", flush=True)


class _MovingSteps:
    def __init__(self, shown: Progress) -> None:
        self._shown = shown
        self._under_way: dict[str, TaskID] = {}

    def begin(self, name: str, doing: str) -> None:
        self._under_way[name] = self._shown.add_task(f"{on_one_line(name)}: {doing}", total=None)

    def end(self, name: str, result: str) -> None:
        from rich.text import Text  # noqa: PLC0415 - as below

        self._shown.remove_task(self._under_way.pop(name))
        # The terminal breaks long lines itself, so that they can be copied whole.
        text = Text.from_ansi(f"{on_one_line(name)}: {result}")
        self._shown.console.print(text, soft_wrap=True)


class NoSteps:
    """Shows nothing, for commands that print JSON."""

    def begin(self, name: str, doing: str) -> None: ...

    def end(self, name: str, result: str) -> None: ...


@contextmanager
def steps() -> Generator[Steps]:
    """Show steps on stdout while the context is open; what is printed meanwhile goes above them."""
    if not shows_colours(sys.stdout):
        yield _PlainSteps()
        return
    from rich.console import Console  # noqa: PLC0415 - slow to load, and not needed in a pipe
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn  # noqa: PLC0415 - as above

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(file=sys.stdout), transient=True) as shown:
        yield _MovingSteps(shown)
