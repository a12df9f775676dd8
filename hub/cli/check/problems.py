"""What `check` finds wrong with a config that loads: programs, folders, secrets, tokens, names.

Nothing is run.
"""

from __future__ import annotations

import difflib
import os
import re
import shlex
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final, TypeAlias

from msgspec import Struct

from hub.audit.open_file import unfit
from hub.cli.check.scripts import why_not_run
from hub.cli.terminal import Finding
from hub.config.fields import is_unread
from hub.config.listening.listen import GUESSABLE, is_guessable
from hub.config.models import HubConfig
from hub.config.operator_roots import PathContext
from hub.errors import RootError
from hub.launch.known_servers import RUNNERS
from hub.launch.plan import (
    LaunchPlan,
    LaunchTemplate,
    argv_directories,
    known_filesystem_server,
    plan,
)
from hub.legible import on_one_line
from hub.protocol.http_headers import is_loopback
from hub.roots.effective import EffectiveRoots
from hub.specs import ServerSpec

_WILD, _URL = "*?[", "://"
_UNBRACED: Final = re.compile(r"\$([A-Za-z_]\w*)")
_WINDOWS: Final = re.compile(r"(?<![A-Za-z])[A-Za-z]:[\\/]|(?:^|/)\\\\")


class MissingProgram(Struct, frozen=True):
    """A program that is not there, or cannot be run; `likely` is one whose name is nearly the same.

    `is_miswritten`: its text is no program's, which the finding's remedy mends.
    """

    finding: Finding
    likely: str | None = None
    is_miswritten: bool = False


def missing_program(spec: ServerSpec, effective: EffectiveRoots) -> MissingProgram | None:
    """Return that a server's program is not there or cannot be run; None if it can."""
    if not isinstance(spec.target, LaunchTemplate):
        return None
    made = plan(spec.target, effective.roots, os.environ, directories=spec.directories)
    path = made.environment(spec.inherits).get("PATH")
    where, found = f"servers.{spec.name}.command", _found(made, path)
    if found is not None:
        why = why_not_run(found, path)
        what = f"{made.shown[0]!r} cannot be run"
        return None if why is None else MissingProgram(_problem("programs", where, what, why))
    what = f"there is no program {made.shown[0]!r}"
    if _is_of_windows(made.shown[0]):
        fix = "That is a path of Windows: write the path of the program on this machine."
        return MissingProgram(_problem("programs", where, what, fix), is_miswritten=True)
    if (braced := _braced(made.shown[0])) is not None:
        return MissingProgram(_problem("programs", where, what, braced), is_miswritten=True)
    program, *rest = _words(made.shown[0])
    if rest:
        name = Path(program).name
        first = program if shutil.which(name, path=path) is None else name
        args = ", ".join(f'"{word}"' for word in rest)
        fix = f"Write `command: {first}` and `args: [{args}]`."
        return MissingProgram(_problem("programs", where, what, fix), is_miswritten=True)
    what += "" if os.sep in made.shown[0] else " on the PATH"
    # One of these is rather not installed than misspelt: pip is no pipx. python may be python3.
    is_runner = made.shown[0] in RUNNERS - {"python"}
    likely = None if is_runner else _likely(made.shown[0], _programs(path))
    fix = _did_you_mean(likely) or "Install it, or write its whole path."
    if _URL in made.shown[0]:
        fix = "A URL is no command: write `url:` in the place of `command:`."
    return MissingProgram(_problem("programs", where, what, fix), likely)


def _is_of_windows(path: str) -> bool:
    """Return whether a path is one of Windows, on a machine with other paths."""
    return os.sep != "\\" and _WINDOWS.search(path) is not None


def _braced(text: str) -> str | None:
    """Return the remedy for a text with `$NAME`, which is filled in nowhere; None without such."""
    found = _UNBRACED.search(text)
    return None if found is None else f"Write ${{{found[1]}}} where the variable is meant."


def _problem(about: str, where: str, what: str, fix: str) -> Finding:
    return Finding("problem", about, where, what, fix)


def _found(made: LaunchPlan, path: str | None) -> Path | None:
    command = made.argv[0]
    program = shutil.which(command, path=path)
    if program is not None:
        return Path(program)
    # A relative path is looked for in the working directory, which is not known without roots.
    there = Path(made.cwd or Path.cwd(), command)
    return there if os.sep in command and os.path.isfile(there) else None  # noqa: PTH113 - never an error


def _words(command: str) -> list[str]:
    """Return the words of a command line.

    If one of them has a slash, the config made a path of the whole line: the folders in it that are
    there belong to the first word, whatever blanks are in their names.
    """
    above = next(filter(os.path.isdir, Path(command).parents), Path())
    line = os.path.relpath(command, above) if above.is_absolute() else command
    try:
        program, *rest = shlex.split(line) or [line]
    except ValueError:
        program, *rest = line.split() or [line]
    return [str(above / program), *rest]


def _programs(path: str | None) -> Iterator[str]:
    for directory in (path or os.defpath).split(os.pathsep):
        yield from _names_in(Path(directory))


def _names_in(directory: Path) -> list[str]:
    try:
        return [one.name for one in directory.iterdir()]
    except OSError:
        return []


def audit_problem(config: HubConfig) -> Finding | None:
    """Return why the audit file cannot be written to; None if it can, or there is to be none."""
    if config.audit is None:
        return None
    if (found := unfit(Path(config.audit.file))) is None:
        return None
    why, fix = found
    return _problem("audit", "audit.file", f"{config.audit.file}: {why}", fix)


_LEAST_ROOM: Final = 100 * 1024 * 1024


def nearly_full(place: Path) -> Finding | None:
    """Return that the disk of a folder is nearly full; None if it is not, or is not known."""
    try:
        free = shutil.disk_usage(place).free
    except OSError:
        return None
    if free >= _LEAST_ROOM:
        return None
    what = f"only {free // 2**20} MB are free on its disk"
    fix = f"{shlex.join(['du', '-xh', '-d1', str(place)])} shows what is large: remove some"
    return Finding("warning", "disk", str(place), what, fix)


def address_warnings(config: HubConfig, environment: Mapping[str, str]) -> Iterator[str]:
    """Yield why the hub does not serve at `listen.host`: anybody would be let in."""
    host = config.listen.host
    if not (is_loopback(host) or config.listen.is_guarded or environment.get("HUB_TOKEN")):
        yield (
            f"listen.host: {host} can be reached from other machines, and there is no token: "
            "`run --http` refuses it. Set HUB_TOKEN, listen.token or listen.tokens."
        )


def token_problems(config: HubConfig) -> Iterator[Finding]:
    """Yield tokens that can be guessed, have ended, or end soon; the remedy prints another one."""
    named = [(f"listen.tokens[{at}]", one) for at, one in enumerate(config.listen.tokens)]
    given = [("listen.token", config.listen.token, "NAME")]
    given += [(f"{at}.token", one.token, one.name) for at, one in named]
    for where, token, name in given:
        if token is not None and not is_unread(token) and is_guessable(token.get_secret_value()):
            yield Finding("warning", "token", where, GUESSABLE, f"roots-hub token new {name}")
    now = datetime.now(UTC)
    for at, one in named:
        if (what := one.near_end(now)) is not None:
            fix = f"roots-hub token new {one.name} --days 90"
            yield Finding("warning", "token", f"{at}.expires", what, fix)


class FolderProblem(Struct, frozen=True):
    """A folder that cannot be used. `command` mends that; it is empty if only another one does."""

    finding: Finding
    command: str = ""


class _Unfit(Struct, frozen=True):
    """What is wrong with a folder, the remedy as a sentence, and as a command if there is one."""

    what: str
    fix: str
    command: str = ""


def folder_problems(
    config: HubConfig, servers: Iterable[tuple[ServerSpec, EffectiveRoots]], place: PathContext
) -> Iterator[FolderProblem]:
    """Yield the folders of roots and servers that cannot be used, or that the hub leaves out."""
    for where, path, unfit_as in (*_of_roots(config, place), *_of_servers(servers)):
        if unfit_as is not None:
            finding = _problem("folders", where, f"{path}: {unfit_as.what}", unfit_as.fix)
            yield FolderProblem(finding, unfit_as.command)


_Judged: TypeAlias = tuple[str, str, _Unfit | None]
"""The place of a folder in the config, the folder, and why it cannot be used."""


def _of_roots(config: HubConfig, place: PathContext) -> Iterator[_Judged]:
    for entry in config.roots.fallback:
        yield "roots.fallback", entry.path, _unfit_root(entry.path, place)
    for path in config.roots.ceiling:
        yield "roots.ceiling", path, _unfit_root(path, place)
    narrowed = [(f"profiles.{name}.roots", one.roots) for name, one in config.profiles.items()]
    for where, roots in narrowed:
        for path in roots.ceiling:
            yield f"{where}.ceiling", path, _of_windows(path)
    for where, roots in (("roots", config.roots), *narrowed):
        for access in roots.access:
            yield f"{where}.access", access.path, _of_windows(access.path)


def _of_servers(servers: Iterable[tuple[ServerSpec, EffectiveRoots]]) -> Iterator[_Judged]:
    for spec, effective in servers:
        at = f"servers.{spec.name}"
        for key, path in _folders_of(spec, effective):
            yield f"{at}.{key}", path, _unfit_folder(Path(path), may_be_file=False)
        for key, paths in (("read", spec.confine.read), ("write", spec.confine.write)):
            for path in paths:
                yield f"{at}.confine.{key}", path, _of_windows(path)


def _unfit_root(path: str, place: PathContext) -> _Unfit | None:
    """Return why a path can be no root, or will be left out; None if it can."""
    found = _unfit_folder(Path(path), may_be_file=True)
    if found is not None:
        return found
    try:
        place.root(path)
    except RootError as exc:
        return _Unfit(f"{exc}: it is left out", place.remedy(path, str(exc)))
    return None


def _of_windows(path: str) -> _Unfit | None:
    """Return that a folder is one of Windows, if it is not there; None if it may be one of here."""
    if not _is_of_windows(path) or os.path.exists(path):  # noqa: PTH110 - never an error
        return None
    return _Unfit("is a path of Windows", "Write the path of the folder on this machine.")


def _folders_of(spec: ServerSpec, effective: EffectiveRoots) -> Iterator[tuple[str, str]]:
    """Yield a server's working directory and those in its arguments, each behind its key."""
    if not isinstance(spec.target, LaunchTemplate):
        return
    if spec.target.cwd is not None:
        made = plan(spec.target, effective.roots, os.environ, directories=spec.directories)
        if made.cwd is not None:
            yield "cwd", made.cwd
    yield from (("args", path) for path in spec.directories)
    if known_filesystem_server(spec.target):
        # They are none of `spec.directories`: only what is there can be told from other arguments.
        missing = argv_directories(spec.target, os.environ, _is_missing)
        yield from (("args", path) for path in missing)


def _is_missing(path: str) -> bool:
    is_whole = Path(path).is_absolute() or _is_of_windows(path)
    return is_whole and not os.path.exists(path)  # noqa: PTH110 - never an error


def _unfit_folder(path: Path, *, may_be_file: bool) -> _Unfit | None:
    """Return why a folder cannot be used; None if it can."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return _of_windows(str(path)) or _no_folder(path)
    except OSError as exc:
        return _Unfit(f"cannot be looked at: {exc.strerror}", "Name a folder that you may read.")
    is_folder = stat.S_ISDIR(found.st_mode)
    if not is_folder and not may_be_file:
        return _Unfit("is a file, not a folder", "Name a folder.")
    if not is_folder or os.access(path, os.R_OK | os.X_OK):
        return None
    is_own = hasattr(os, "geteuid") and found.st_uid == os.geteuid()
    command = f"chmod u+rx {shlex.quote(str(path))}" if is_own else ""
    return _Unfit("you may not read it", "Make it readable, or name a folder of yours.", command)


def _no_folder(path: Path) -> _Unfit:
    what = "there is no such folder"
    if path.is_symlink():
        path = Path(os.path.realpath(path))
        what += f", but a link to {path}"
    elif fix := _braced(str(path)) or _did_you_mean(_likely(path.name, _names_in(path.parent))):
        return _Unfit(what, fix)
    return _Unfit(what, "Make it, or take it out.", f"mkdir -p {shlex.quote(str(path))}")


def tool_problems(spec: ServerSpec, config: HubConfig, tools: Sequence[str]) -> Iterator[Finding]:
    """Yield the names in a server's `tools` that match none of its tools; and if none is left."""
    keys = config.servers[spec.name].tools
    where = f"servers.{spec.name}.tools"
    for key, names in (("allow", keys.allow), ("deny", keys.deny), ("overrides", keys.overrides)):
        for name in names:
            if name != "*" and not _matches(name, tools, wild=key != "overrides"):
                fix = _did_you_mean(_likely(name, tools)) or f"It has: {_listed(tools)}."
                what = f"{name!r} is no tool of {spec.name}"
                yield _problem("tools", f"{where}.{key}", what, fix)
    if tools and not any(map(spec.offer.includes, tools)):
        what = f"leaves none of its {len(tools)} tools: clients see nothing of {spec.name}"
        yield _problem("tools", where, what, "Allow some, or take the server out.")


def _matches(name: str, tools: Iterable[str], *, wild: bool) -> bool:
    return any(tool == name or (wild and fnmatchcase(tool, name)) for tool in tools)


def _likely(name: str, known: Iterable[str]) -> str | None:
    """Return the likeliest of the `known` names; None if none is like `name`."""
    plain = name.strip(_WILD)
    near = difflib.get_close_matches(plain, sorted({*known} - {plain}), n=1, cutoff=0.75)
    return near[0] if near else None


def _did_you_mean(likely: str | None) -> str:
    return "" if likely is None else f"Did you mean {on_one_line(likely)}?"


def _listed(tools: Sequence[str], most: int = 20) -> str:
    shown = ", ".join(map(on_one_line, tools[:most])) or "none"
    return shown if len(tools) <= most else f"{shown} and {len(tools) - most} more"
