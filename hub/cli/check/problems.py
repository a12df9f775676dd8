"""What `check` finds wrong with a config that loads: programs, folders, secrets, names of tools.

Nothing is run.
"""

from __future__ import annotations

import difflib
import os
import shlex
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from msgspec import Struct

from hub.audit.open_file import unfit
from hub.config.models import HubConfig, Roots
from hub.config.operator_roots import PathContext
from hub.errors import RootError
from hub.launch.plan import LaunchPlan, LaunchTemplate, plan
from hub.launch.secret_references import CommandSecret, FileSecret, KeyringSecret, SecretReference
from hub.legible import on_one_line
from hub.protocol.host_names import is_loopback
from hub.roots.effective import EffectiveRoots
from hub.secrets.commands import program_path
from hub.secrets.keyrings import is_installed, not_installed
from hub.secrets.reading import file_value, open_to_others
from hub.secrets.values import SecretError
from hub.specs import RemoteTarget, ServerSpec

_WILD = "*?["


def program_problem(spec: ServerSpec, effective: EffectiveRoots) -> str | None:
    """Return what is wrong with a server's program: it is not there; None if it is."""
    if not isinstance(spec.target, LaunchTemplate):
        return None
    made = plan(spec.target, effective.roots, os.environ, directories=spec.directories)
    path = made.environment(spec.inherits).get("PATH")
    if _is_there(made, path):
        return None
    where = f"servers.{spec.name}.command: there is no program {made.shown[0]!r}"
    program, *rest = _words(made.shown[0])
    if rest:
        # A slash in its arguments has made the whole line a path in the config's directory.
        name = Path(program).name
        first = program if shutil.which(name, path=path) is None else name
        args = ", ".join(f'"{word}"' for word in rest)
        return f"{where}. Write `command: {first}` and `args: [{args}]`."
    at = "" if os.sep in made.shown[0] else " on the PATH"
    near = _likely(made.shown[0], _programs(path))
    return f"{where}{at}. {near or 'Install it, or write its whole path.'}"


def _is_there(made: LaunchPlan, path: str | None) -> bool:
    command = made.argv[0]
    if shutil.which(command, path=path) is not None:
        return True
    # A relative path is looked for in the working directory, which is not known without roots.
    place = made.cwd or str(Path.cwd())
    return os.sep in command and Path(place, command).is_file()


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command) or [command]
    except ValueError:
        return command.split() or [command]


def _programs(path: str | None) -> Iterator[str]:
    for directory in (path or os.defpath).split(os.pathsep):
        try:
            yield from (one.name for one in Path(directory).iterdir())
        except OSError:
            continue


def audit_problem(config: HubConfig) -> str | None:
    """Return why the audit file cannot be written to; None if it can, or there is to be none."""
    if config.audit is None:
        return None
    found = unfit(Path(config.audit.file))
    return None if found is None else f"audit.file: {config.audit.file}: {found[0]}. {found[1]}"


def address_warnings(config: HubConfig, environment: Mapping[str, str]) -> Iterator[str]:
    """Yield why the hub does not serve at `listen.host`: anybody would be let in."""
    host = config.listen.host
    if not (is_loopback(host) or config.listen.is_guarded or environment.get("HUB_TOKEN")):
        yield (
            f"listen.host: {host} can be reached from other machines, and there is no token: "
            "`run --http` refuses it. Set HUB_TOKEN, listen.token or listen.tokens."
        )


def named_folders(roots: Roots) -> Iterator[tuple[str, str]]:
    """Yield the folders of `roots.fallback` and `roots.ceiling`, each behind its key."""
    yield from (("roots.fallback", entry.path) for entry in roots.fallback)
    yield from (("roots.ceiling", path) for path in roots.ceiling)


def folder_problems(config: HubConfig, place: PathContext) -> Iterator[str]:
    """Yield the folders of the config's roots that are not there, or that the hub leaves out."""
    for where, path in named_folders(config.roots):
        if not Path(path).exists():
            yield _no_folder(where, path)
        elif (why := why_no_root(path, place)) is not None:
            yield f"{where}: {path}: {why}: it is left out. {ANOTHER_ROOT}"


ANOTHER_ROOT = "Name a folder that is safe to share; `roots.allow_unsafe: true` allows all others."


def why_no_root(path: str, place: PathContext) -> str | None:
    """Return why a folder that is there can be no root; None if it can."""
    try:
        place.root(path)
    except RootError as exc:
        return str(exc)
    return None


def _no_folder(where: str, path: str) -> str:
    beside = Path(path).parent
    names = [one.name for one in beside.iterdir()] if beside.is_dir() else []
    near = _likely(Path(path).name, names) or "Make it, or take it out."
    return f"{where}: {path}: there is no such folder. {near}"


def cwd_problem(spec: ServerSpec, effective: EffectiveRoots) -> str | None:
    """Return that a server's working directory is not there; None if it is, or has none."""
    if not isinstance(spec.target, LaunchTemplate):
        return None
    cwd = plan(spec.target, effective.roots, os.environ, directories=spec.directories).cwd
    is_there = cwd is None or Path(cwd).is_dir()
    return None if is_there else _no_folder(f"servers.{spec.name}.cwd", str(cwd))


def tool_problems(spec: ServerSpec, config: HubConfig, tools: Sequence[str]) -> Iterator[str]:
    """Yield the names in a server's `tools` that match none of its tools; and if none is left."""
    keys = config.servers[spec.name].tools
    where = f"servers.{spec.name}.tools"
    for key, names in (
        ("allow", keys.allow),
        ("deny", keys.deny),
        ("overrides", tuple(keys.overrides)),
    ):
        for name in names:
            if name != "*" and not _matches(name, tools, wild=key != "overrides"):
                near = _likely(name, tools) or f"It has: {_listed(tools)}."
                yield f"{where}.{key}: {name!r} is no tool of {spec.name}. {near}"
    if tools and not any(map(spec.offer.includes, tools)):
        yield f"{where}: leaves none of its {len(tools)} tools: clients see nothing of {spec.name}."


def _matches(name: str, tools: Iterable[str], *, wild: bool) -> bool:
    return any(tool == name or (wild and fnmatchcase(tool, name)) for tool in tools)


def _likely(name: str, known: Iterable[str]) -> str:
    """Return a question for the likeliest of the `known` names; empty if none is like `name`."""
    plain = name.strip(_WILD)
    near = difflib.get_close_matches(plain, sorted({*known} - {plain}), n=1, cutoff=0.75)
    return f"Did you mean {on_one_line(near[0])}?" if near else ""


def _listed(tools: Sequence[str], most: int = 20) -> str:
    shown = ", ".join(map(on_one_line, tools[:most])) or "none"
    return shown if len(tools) <= most else f"{shown} and {len(tools) - most} more"


class SecretFindings(Struct, frozen=True):
    """What of secrets stops servers from starting, and what the operator should know."""

    problems: tuple[str, ...]
    warnings: tuple[str, ...]


def secret_findings(specs: Sequence[ServerSpec]) -> SecretFindings:
    """Return what is wrong with the secrets of servers, as far as it shows offline."""
    named = [found for spec in specs for found in _references(spec)]
    problems = [
        f"{where}: {error.what}. {error.fix}"
        for where, reference in named
        if (error := _secret_problem(reference)) is not None
    ]
    problems += [_unkept(spec) for spec in specs if _wants_keyring(spec) and not is_installed()]
    open_files = {
        sentence: where
        for where, reference in reversed(named)
        if isinstance(reference, FileSecret)
        and (sentence := open_to_others(reference.path)) is not None
    }
    warnings = [f"{where}: {sentence}" for sentence, where in reversed(open_files.items())]
    for spec in specs:
        warnings += _missing_programs(spec)
    return SecretFindings(tuple(problems), tuple(warnings))


def _references(spec: ServerSpec) -> Iterator[tuple[str, SecretReference]]:
    """Yield each reference to a secret with its place in the config."""
    if isinstance(spec.target, LaunchTemplate):
        found = [(f"env.{name}", text.references) for name, text in spec.target.env]
    else:
        found = [(f"headers.{key}", text.references) for key, text in spec.target.secrets.items()]
    for key, references in found:
        for reference in references:
            yield f"servers.{spec.name}.{key}", reference


def _secret_problem(reference: SecretReference) -> SecretError | None:
    if isinstance(reference, KeyringSecret) and not is_installed():
        return not_installed()
    if isinstance(reference, FileSecret):
        try:
            file_value(reference.path)
        except SecretError as error:
            return error
    return None


def _wants_keyring(spec: ServerSpec) -> bool:
    login = spec.target.login if isinstance(spec.target, RemoteTarget) else None
    return login is not None and login.in_keyring


def _unkept(spec: ServerSpec) -> str:
    error = not_installed()
    return f"servers.{spec.name}.auth.keep: {error.what}. {error.fix}"


def _missing_programs(spec: ServerSpec) -> Iterator[str]:
    for where, reference in _references(spec):
        if isinstance(reference, CommandSecret):
            program = program_path(reference.argv[0], reference.directory)
            if shutil.which(program, path=spec.for_commands.get("PATH")) is None:
                yield f"{where}: there is no program {program!r}: install it, or write its path"
