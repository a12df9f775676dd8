"""The `roots-hub` command line: parser, error messages and exit codes.

Exit codes: 0 fine, 1 failed running, 2 bad usage, 3 bad config, 130 interrupted. An error is two
lines on stderr: what and where, then what to do.
"""

from __future__ import annotations

import errno
import gc
import json
import os
import re
import signal
import sys
from argparse import SUPPRESS, ArgumentParser, Namespace
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from importlib import import_module
from logging import Handler
from pathlib import Path
from types import ModuleType
from typing import Any, Final, NoReturn, cast

from msgspec import to_builtins

from hub import __version__
from hub.errors import ConfigError, HubError, StartError, UsageError, leaves
from hub.legible import legible


@contextmanager
def lean() -> Generator[None]:
    """Make imports inside the context faster: garbage collection is off.

    Imported objects stay for ever, so they are frozen: later collections skip them.
    """
    gc.disable()
    try:
        # structlog imports rich for tracebacks with local variables, which the hub does not print.
        with _ending_at_once(), hidden("rich"):
            yield
    finally:
        gc.freeze()
        gc.enable()


@contextmanager
def _ending_at_once() -> Generator[None]:
    """Let the system end the program at an interrupt: an exception in an import can crash msgspec.

    Nothing is there yet that must be cleaned up. Where interrupts are ignored, they stay so.
    """
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def hidden(name: str) -> Generator[None]:
    """Make imports of the module `name` fail inside the context, unless loaded already."""
    modules = cast("dict[str, ModuleType | None]", sys.modules)
    if name in modules:
        yield
        return
    modules[name] = None
    try:
        yield
    finally:
        del modules[name]


_NO_THREAD: Final = "can't start new thread"
_NO_HOME: Final = "Could not determine home directory."
_FULL: Final = (errno.ENOSPC, errno.EDQUOT)
_EXIT_CODES: Final = {UsageError: 2, ConfigError: 3}
"""The exit codes of errors; that of any other is 1."""
_COMMANDS: Final = {
    "run": ("run", "attach", "wrap"),
    "setup.starting": ("init",),
    "setup.importing": ("import",),
    "setup.installing": ("install", "uninstall"),
    "doctor.command": ("doctor",),
    "check.command": ("check",),
    "check.plans": ("plan", "schema"),
    "explain": ("explain",),
    "tools": ("tools", "call"),
    "roots": ("roots",),
    "token": ("token",),
    "logins.command": ("login", "logout"),
    "hubs.commands": ("status", "reload", "stop"),
}
"""The subcommands of each module of this package."""
_OF_CONFIGS: Final = (".yaml", ".yml", ".json", ".toml")
_AFTER_DASHES: Final = " (put -- before the server's command: roots-hub wrap -- COMMAND ARGS...)"
_NO_COMMAND: Final = "the following arguments are required: COMMAND"
_WRONG_CHOICE: Final = re.compile(r"invalid choice: '([^']*)' \(choose from (.*)\)")
"""How argparse says both."""


class _TopParser(ArgumentParser):
    """The parser of the whole line: of a wrong choice it says which one was probably meant.

    Where a command has commands of its own and none is named, it prints them.
    """

    def error(self, message: str) -> NoReturn:
        is_wrap = self.prog.endswith(" wrap")
        if message == _NO_COMMAND and not is_wrap:
            self.print_help(sys.stderr)
            raise SystemExit(2)
        wrong = _WRONG_CHOICE.search(message)
        choices = re.findall(r"'([^']*)'", wrong[2]) if wrong else ()
        hint = _meant(wrong[1], choices) if wrong else ""
        if is_wrap and "required" in message:
            hint = _AFTER_DASHES
        if wrong and Path(wrong[1]).suffix in _OF_CONFIGS:
            hint = f" (options of a command come after it: COMMAND --config {wrong[1]})"
        super().error(legible(message + hint))


class _CommandParser(_TopParser):
    """The parser of a subcommand: the options for the log may come after its name as well."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        _add_log_options(self, after=True)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride] - overloads that differ in types alone
        """Parse as always; the namespace knows the parser of the command with unknown options."""
        options, left = super().parse_known_args(args, namespace)
        if left and "parser" not in options:
            options.parser = self
        return options, left


def _add_log_options(parser: ArgumentParser, *, after: bool = False) -> None:
    """Add the options for the log; `after` a subcommand's name they have no defaults."""
    log = parser.add_argument_group("options for the log")  # below the command's own

    def add(option: str, default: str | None, **more: Any) -> None:
        log.add_argument(option, default=SUPPRESS if after else default, **more)

    add("--log-format", "text", choices=("text", "json"), help="format of the log")
    levels = ("debug", "info", "warning", "error")
    add("--log-level", None, choices=levels, help="lowest level that is logged")
    add("--log-file", None, metavar="FILE", help="write the log to a file, too")


def parser(command: str | None = None) -> ArgumentParser:
    """Return the parser of the whole command line, or only of the module with `command`.

    Importing one module instead of all makes the start faster.
    """
    top = _TopParser(
        prog="roots-hub",
        description="One MCP endpoint in front of many MCP servers; every path that a tool call "
        "names stays inside the folders that the client shares.",
    )
    top.add_argument("--version", action="version", version=f"roots-hub {__version__}")
    _add_log_options(top)
    subparsers = top.add_subparsers(
        title="commands", metavar="COMMAND", required=True, parser_class=_CommandParser
    )
    owners = [module for module, names in _COMMANDS.items() if command in names]
    for module in owners or _COMMANDS:
        import_module(f"hub.cli.{module}").register(subparsers)
    return top


def run_command(given: Sequence[str], why_alone: str | None) -> int:
    """Run the command line, and return its exit code.

    `why_alone`: why no shared hub serves the client, if that was tried already.
    """
    if (reconfigure := getattr(sys.stdout, "reconfigure", None)) is not None:
        reconfigure(errors="backslashreplace")  # as for stderr: Latin-1, say, has no `…`
    with lean():
        from hub.system.log import configure_logs  # noqa: PLC0415 - slow to load, so inside `lean`

        options = _parsed(given)
        options.why_alone = why_alone
    try:
        file = _file_log(options.log_file)
        level = options.log_level or getattr(options, "usual_log_level", "info")
        configure_logs(options.log_format, level, file=file)
    except (RuntimeError, HubError) as exc:
        return _fail_for(exc)
    return _perform(options)


def _file_log(path: str | None) -> Handler | None:
    """Return what writes the log to the file at `path`; None without a file."""
    if path is None:
        return None
    from hub.cli.options import log_to_file  # noqa: PLC0415 - seldom needed

    if not path.strip():
        raise UsageError("--log-file: is empty", "Name a file: --log-file FILE.")
    return log_to_file(Path(path))


def _parsed(given: Sequence[str]) -> Namespace:
    top = parser(given[0] if given else None)
    if not given:  # whoever wants to know what there is
        top.print_help(sys.stderr)
        raise SystemExit(2)
    options, left = top.parse_known_args(given)
    if left:
        own: ArgumentParser = getattr(options, "parser", top)
        own.error(f"unrecognized arguments: {' '.join(left)}{_advice(options, own, left[0])}")
    return options


def _advice(options: Namespace, own: ArgumentParser, left: str) -> str:
    """Return a hint for an unrecognised argument `left`; empty if none fits."""
    if "config" in options and Path(left).suffix in _OF_CONFIGS:
        return f" (a config is named by --config {left})"
    if "command" in options:
        return _AFTER_DASHES
    known = re.findall(r"(?<![\w-])--[a-z][\w-]*", own.format_usage())
    return _meant(left.partition("=")[0], known) if left.startswith("-") else ""


def _meant(wrong: str, known: Iterable[str]) -> str:
    """Return a hint with the one of `known` that is most like `wrong`; empty if none is."""
    from difflib import get_close_matches  # noqa: PLC0415 - for mistakes alone

    near = get_close_matches(wrong, list(known), n=1, cutoff=0.6)
    return f" (did you mean {near[0]}?)" if near else ""


def _perform(options: Namespace) -> int:
    try:
        code = _performed(options)
        _flush()  # what fails at the end of the program has no code and no words
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader closed the pipe
        code = 1
    except (RuntimeError, OSError, BaseExceptionGroup) as exc:
        code = _fail_for(cast("BaseException", exc))
    try:
        _flush()
    except OSError:  # Python's own try, at its end, would fail again
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code


def _flush() -> None:
    if not sys.stdout.closed:  # as it is after `run`, which had it as a stream of its own
        sys.stdout.flush()


def _performed(options: Namespace) -> int:
    try:
        if not getattr(options, "any_home", False):
            _ensure_home(os.environ.get("HOME"))
        return cast("int", options.perform(options))
    except HubError as exc:
        code = _fail(exc)
        if getattr(options, "json", False):
            _print_json(exc)
        return code


def _ensure_home(home: str | None) -> None:
    """Raise StartError for a HOME such as `~`: what is below it would be elsewhere for each server.

    Without HOME the system tells the user's home.
    """
    if sys.platform != "win32" and home and not home.startswith("/"):
        raise StartError(
            f"HOME: {home!r} is no absolute path",
            "Write it in full (no `~`), or unset it: the system knows yours then.",
        )


def _fail_for(error: BaseException) -> int:
    """Print the first known cause in an error or exception group; return the exit code.

    Raises: the error itself if no cause is known: a bug of the hub.
    """
    known = next(filter(None, map(_known, leaves(error))), None)
    if known is None:
        raise error
    return _fail(known)


def _known(error: BaseException) -> HubError | None:
    # A BlockingIOError of a stream has `characters_written`; one of a failed fork has not.
    is_fork = isinstance(error, BlockingIOError) and not hasattr(error, "characters_written")
    if is_fork or str(error) == _NO_THREAD:
        return StartError(
            "no process or thread can be started: the user has as many as the system allows",
            "Raise the limit (`ulimit -u`, or pids.max of the container), or end some of them.",
        )
    if isinstance(error, OSError) and error.errno in _FULL:
        return StartError(
            "there is no space left where the output goes",
            "Free some space, or send the output elsewhere: `roots-hub doctor` names full disks.",
        )
    if str(error) == _NO_HOME:
        return StartError(
            "HOME is not set, and the system knows no home directory of this user",
            "Set HOME to a directory of this user.",
        )
    if isinstance(error, FileNotFoundError) and error.filename is None and not _has_directory():
        return StartError(
            "the directory in which it was started does not exist any more",
            "Start it in a directory that exists. If it was made again, `cd` into it again.",
        )
    if isinstance(error, OSError) and isinstance(error.filename, str):
        what = f"{error.filename}: {error.strerror}"
        return StartError(what, "Name another one, or make it what this command needs.")
    return error if isinstance(error, HubError) else None


def _has_directory() -> bool:
    try:
        os.getcwd()  # noqa: PTH109 - only whether there is one
    except FileNotFoundError:
        return False
    return True


def _print_json(error: HubError) -> None:
    """Print an error as JSON, for programs: of a wrong config each mistake alone, too."""
    faults = error.faults if isinstance(error, ConfigError) else ()
    print(json.dumps({"error": str(error), "faults": to_builtins(faults)}, indent=2))


def _fail(error: HubError) -> int:
    text = str(error)
    advice = (
        "" if "\n" in text else "\n`roots-hub check --connect` shows which servers answer, and how."
    )
    print(f"roots-hub: {legible(text)}{advice}", file=sys.stderr)
    from hub.system.log import note_in_file  # noqa: PLC0415 - as in `main`

    note_in_file(f"{text}{advice}")
    return next((code for kind, code in _EXIT_CODES.items() if isinstance(error, kind)), 1)
