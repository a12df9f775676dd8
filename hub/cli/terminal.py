"""What people are shown and asked: in colours and moving lines on a terminal, plain in a pipe.

Asked is whether a file may be written, whether a `hub.yaml` is trusted, and an editor's inputs.

Commands that serve clients (`run`, `wrap`, `attach`) do not load rich.
"""

from __future__ import annotations

import getpass
import os
import shlex
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import structlog
from msgspec import Struct
from structlog.typing import EventDict, WrappedLogger

from hub.cli.options import load_context
from hub.config.clients.sections import inputs_missing
from hub.config.fields import is_unread, written_of
from hub.config.load import load_config
from hub.config.models import HubConfig, StdioServer
from hub.config.own_files import FOUND, found_in
from hub.config.records import TrustRecord, digest_of
from hub.config.source.documents import read
from hub.errors import UsageError
from hub.launch.templates import CommandSecret
from hub.legible import on_one_line
from hub.specs import shown_url
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
    """Keep events out of the log from now on: the command tells them itself.

    A warning of a server that differs only in what the server said is logged once: it may print
    junk without end.
    """
    logged: set[str] = set()

    def told(_logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
        if event["event"] in events:
            raise structlog.DropEvent
        if method == "warning" and "server" in event:
            line = str({**event, "text": "", "error": ""})  # without what it said
            if line in logged:
                raise structlog.DropEvent
            logged.add(line)
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


class Steps:
    """Shows steps that may be done side by side: on `moving` lines, or one after the other."""

    def __init__(self, moving: Progress | None = None, *, is_silent: bool = False) -> None:
        self._moving = moving
        self._is_silent = is_silent
        self._under_way: dict[str, TaskID] = {}

    def begin(self, name: str, doing: str) -> None:
        """Show that the step `name` is under way: `doing` says what is done."""
        text = f"{on_one_line(name)}: {doing}"
        if self._moving is not None:
            self._under_way[name] = self._moving.add_task(text, total=None)
        elif not self._is_silent:
            print(text, flush=True)

    def end(self, name: str, result: str) -> None:
        """Show a step's result; it is no longer under way."""
        text = f"{on_one_line(name)}: {result}"
        if self._moving is not None:
            from rich.text import Text  # noqa: PLC0415 - as below

            self._moving.remove_task(self._under_way.pop(name))
            # The terminal breaks long lines itself, so that they can be copied whole.
            self._moving.console.print(Text.from_ansi(text), soft_wrap=True)
        elif not self._is_silent:
            print(text, flush=True)


@contextmanager
def steps(*, is_silent: bool) -> Generator[Steps]:
    """Show steps on stdout while the context is open; what is printed meanwhile goes above them.

    `is_silent`: show nothing, as stdout gets JSON.
    """
    if is_silent or not shows_colours(sys.stdout):
        yield Steps(is_silent=is_silent)
        return
    from rich.console import Console  # noqa: PLC0415 - slow to load, and not needed in a pipe
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn  # noqa: PLC0415 - as above

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=Console(file=sys.stdout), transient=True) as shown:
        yield Steps(shown)


_YES: Final = frozenset({"y", "yes"})


def is_terminal() -> bool:
    """Return whether there is somebody to ask."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def agrees(question: str, *, is_yes: bool = False) -> bool:
    """Return whether the user wants it; `is_yes`: said already, by `--yes`.

    Raises: UsageError if there is nobody to ask.
    """
    if is_yes:
        return True
    if not is_terminal():
        what = "nothing was written, as there is no terminal to ask at"
        raise UsageError(what, "Run it again with --yes; --dry-run shows what would be written.")
    return _answer(f"{question} [y/N] ").casefold() in _YES


def answer(question: str, default: str) -> str:
    """Return what the user types, or the default for an empty line."""
    return _answer(f"{question} [{default}] ") or default


def _answer(question: str) -> str:
    # Stdout is that of the command, or of the protocol.
    print(question, end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip()


def trusted_digest(record: TrustRecord) -> str | None:
    """Return the hash of the `hub.yaml` in this directory, which the user trusts; None without one.

    On a terminal the user is asked about a new or changed file, once.

    Raises:
        UsageError: the user does not trust it, or cannot be asked.
        ConfigError: it cannot be read, or is wrong.
    """
    path = found_in(Path.cwd())
    if path is None:
        return None
    digest = digest_of(path)
    if record.has(path, digest):
        return digest
    news = "has changed since you trusted it" if record.knows(path) else "was not trusted yet"
    if not (is_terminal() and _trusts(path, digest, news)):
        raise UsageError(
            f"{path}: {news}, so nothing was started (it names commands to run)",
            f"Read it, then name it: --config {FOUND}. Without it: --no-config serves the files.",
        )
    record.add(path, digest)
    return digest


def _trusts(path: Path, digest: str, news: str) -> bool:
    config = load_config(FOUND, load_context(digest)).config
    lines = [f"{path} {news}. It starts these servers, as you:", *_servers(config)]
    if commands := _commands(config):
        lines += ["It runs these commands for secrets:", *commands]
    print(*lines, sep="\n", file=sys.stderr)
    return agrees("Trust this file as it is now, and start them?")


def _commands(config: HubConfig) -> list[str]:
    """Return a line for each command that prints a secret of the config."""
    own = config.listen.secrets
    found = [f"  listen: {written_of(one)}" for one in own if is_unread(one)]
    for name, server in config.servers.items():
        references = [one for text in server.secret_texts.values() for one in text.references]
        found += [
            f"  {name}: {one.written}" for one in references if isinstance(one, CommandSecret)
        ]
    return [on_one_line(line) for line in dict.fromkeys(found)]


def _servers(config: HubConfig) -> list[str]:
    """Return a line for each server: its command as written, or its URL without secrets."""
    return [
        on_one_line(
            f"  {name}: {shlex.join((one.command, *one.args))}"
            if isinstance(one, StdioServer)
            else f"  {name}: {shown_url(one.url)}"
        )
        for name, one in config.servers.items()
    ]


def ask_for_inputs(source: str | None) -> None:
    """Ask for each input of a config that has no value, and set its variable for this process.

    Nothing is asked unless stdin and stderr are terminals, and nothing is kept.

    Raises: ConfigError if the config cannot be read.
    """
    if source is None or not is_terminal():
        return
    context = load_context()
    for asked in inputs_missing(read(source, context.directory), context.environment):
        said = on_one_line(asked.description or asked.id)
        print(f"{said} (${{input:{on_one_line(asked.id)}}})", file=sys.stderr)
        ask = getpass.getpass if asked.is_secret else _answer
        if typed := ask(f"{asked.variable}: "):
            os.environ[asked.variable] = typed
