"""Launch templates and plans: a child's argv, environment and working directory from its roots."""

from __future__ import annotations

import json
import ntpath
import posixpath
from collections.abc import Callable, Collection, Mapping, Sequence
from operator import itemgetter
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from hub.errors import ConfigError
from hub.launch.known_servers import (
    has_filesystem_word,
    is_known,
    keeps_nothing,
    program_index,
    runs_elsewhere,
)
from hub.launch.templates import Lookup, SecretText, Template, TemplateError
from hub.roots.roots import RootSet

ArgsMode: TypeAlias = Literal["auto", "append", "replace", "none"]
"""The key `roots.args`: whether roots are added to an argv without placeholders for roots."""


MAX_VARIABLE: Final = 128 * 1024
"""Bytes of a variable with its name and a NUL, at which Linux starts no process (execve(2)).
Variables that only tell the roots are left out then: a server can ask for its roots as well."""


class LaunchTemplate(Struct, frozen=True):
    """A stdio server as configured, parsed. Only an argument may be `${roots}`."""

    name: str
    command: Template
    args: tuple[Template, ...] = ()
    env: tuple[tuple[str, Template], ...] = ()
    cwd: Template | None = None
    args_mode: ArgsMode = "auto"

    def __repr__(self) -> str:
        return f"LaunchTemplate({self.name!r})"


class LaunchPlan(Struct, frozen=True, eq=False):
    """How to launch one child process. Equal plans mean the same child; `shown` is not compared.

    `env` is added to the inherited environment, and so is `secrets`, which is read at each launch.
    `cwd` None means a private empty directory that is made at launch. `shown` is `argv` for
    printing: environment variables are not filled in. `folders` are the server's arguments that may
    be directories, as written or as paths; `reads_there`: it reads relative paths from these.
    """

    argv: tuple[str, ...]
    env: tuple[tuple[str, str], ...]
    cwd: str | None
    roots: RootSet
    shown: tuple[str, ...]
    secrets: tuple[tuple[str, SecretText], ...] = ()
    folders: tuple[str, ...] = ()
    reads_there: bool = False

    def __repr__(self) -> str:
        return f"LaunchPlan({self.shown!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LaunchPlan) and self._shape == other._shape

    def __hash__(self) -> int:
        return hash(self._shape)

    @property
    def no_command(self) -> str:
        """The error text if the command does not exist, with the command as configured."""
        command = self.shown[0]
        where = "" if {"/", "\\"} & set(command) else " on the PATH"
        advice = "; arguments go into `args`" if " " in command.strip() else ""
        return f"there is no command {command!r}{where}{advice}"

    @property
    def starts(self) -> tuple[str, ...]:
        """The directories of a filesystem server, which may be missing."""
        return self._places if self.reads_there else ()

    @property
    def near(self) -> tuple[str, ...]:
        """What may be directories of any other server: it is unknown what they are for."""
        known = {self.cwd, *self.roots.paths}
        return () if self.reads_there else tuple(x for x in self._places if x not in known)

    @property
    def _places(self) -> tuple[str, ...]:
        """The paths of `folders`, and how they read if `..` is removed first.

        The private directory has no folders.
        """
        placed = (one if _is_absolute(one) else _below(self.cwd, one) for one in self.folders)
        there = (one for one in placed if one is not None)
        return tuple(dict.fromkeys(form for one in there for form in (one, _straight(one))))

    def environment(self, inherits: Mapping[str, str]) -> dict[str, str]:
        """Return the child's environment as far as it is known before the launch."""
        known = {**inherits, **dict(self.env)}
        for name, _ in self.secrets:
            known.pop(name, None)
        return known

    @property
    def _shape(self) -> tuple[object, ...]:
        return self.argv, self.env, self.cwd, self.roots, self.secrets, self.folders


def plan(
    template: LaunchTemplate,
    roots: RootSet,
    environment: Mapping[str, str],
    *,
    directories: Collection[str] = (),
) -> LaunchPlan:
    """Return how to launch `template` for a client whose effective roots are `roots`.

    Planning the argv of a plan again adds nothing. A root or a variable stays one argv element
    whatever characters it has. `directories` is the result of `argv_directories`. Without roots,
    `${root}` is `.`, so a template with `${root}` is then launched in the private empty directory
    even if it has a `cwd`.

    Raises:
        ConfigError: a variable without a default is not set; names the place.
    """
    env, secrets = _env(template, roots, environment.get)
    return LaunchPlan(
        argv=_argv(template, roots, environment, environment.get, directories),
        env=env,
        cwd=_cwd(template, roots, environment.get, directories),
        roots=roots,
        shown=_argv(template, roots, environment, _as_written, directories),
        secrets=secrets,
        folders=_own_folders(template, roots, environment, directories),
        reads_there=known_filesystem_server(template),
    )


def known_filesystem_server(template: LaunchTemplate) -> bool:
    """Return whether the name has the word `filesystem` or the command is a known server.

    False for a command that runs elsewhere (container, other host): paths differ there.
    """
    words = _written(template)
    if runs_elsewhere(words):
        return False
    return has_filesystem_word(template.name) or is_known(words[program_index(words)])


def known_to_keep_nothing(template: LaunchTemplate) -> bool:
    """Return whether the command is a server known to keep nothing between calls."""
    return keeps_nothing(_written(template))


def mentions_roots(template: LaunchTemplate) -> bool:
    """Return whether the template passes roots to the child, by a placeholder or its args mode.

    Every plan also sets `MCP_ROOTS_*` and a working directory; these do not count.
    """
    cwd = template.cwd is not None and template.cwd.mentions_roots
    return cwd or passes_roots(template)


def passes_roots(template: LaunchTemplate) -> bool:
    """Return whether the template has roots in its command, arguments or environment."""
    return _places_roots(template) or _adds_roots(template)


def argv_directories(
    template: LaunchTemplate, environment: Mapping[str, str], is_directory: Callable[[str], bool]
) -> tuple[str, ...]:
    """Return the directories that a filesystem server's argv already names, as paths.

    They are the server's own ceiling: the caller intersects the client's roots with them, and gives
    them to a client without roots. With `replace` they are not: the caller skips the intersection.
    Where the server gets the effective roots as arguments, `plan` puts them in the directories'
    place: such a server reads a relative path from the first directory that it has.

    Only the server's own arguments count: not those of its runner, nor the script's path, options
    or placeholders for roots. A leading `~`, and a relative path if the config has a `cwd`, are
    read as the child would read them. Other relative paths are returned unchanged.

    Raises:
        ConfigError: a variable without a default is not set.
    """
    if template.args_mode != "replace" and not known_filesystem_server(template):
        return ()
    start = program_index(_written(template))
    found: dict[str, None] = {}
    for index, argument in enumerate(template.args[start:], start):
        if argument.mentions_roots:
            continue
        at = f"servers.{template.name}.args[{index}]"
        text = _fill(at, argument, environment.get, ())
        path = _located(template, text, environment)
        if text and not text.startswith("-") and is_directory(path):
            found[path] = None
    return tuple(found)


def _argv(
    template: LaunchTemplate,
    roots: RootSet,
    environment: Mapping[str, str],
    lookup: Lookup,
    directories: Collection[str],
) -> tuple[str, ...]:
    runner, own = _runner_and_own(template, roots, environment, lookup, directories)
    command = _fill(f"servers.{template.name}.command", template.command, lookup, roots.paths)
    return (command, *runner, *own)


def _own_folders(
    template: LaunchTemplate,
    roots: RootSet,
    environment: Mapping[str, str],
    directories: Collection[str],
) -> tuple[str, ...]:
    """Return the server's own arguments that may be directories, also as `--dir=PATH`.

    Of a server that is not known to take directories only what looks like a path counts.
    """
    if runs_elsewhere(_written(template)):
        return ()
    _, own = _runner_and_own(template, roots, environment, environment.get, directories)
    values = (one.partition("=")[2] if one[:1] == "-" else one for one in own)
    found = dict.fromkeys(_located(template, one, environment) for one in values if one)
    return tuple(filter(None if known_filesystem_server(template) else _is_absolute, found))


def _runner_and_own(
    template: LaunchTemplate,
    roots: RootSet,
    environment: Mapping[str, str],
    lookup: Lookup,
    directories: Collection[str],
) -> tuple[list[str], list[str]]:
    """Return the arguments of the runner with the program, and those of the server itself."""
    paths = roots.paths
    start = program_index(_written(template))
    runner, own = list[str](), list[str]()
    gone = set(directories) if _gives_way(template, roots) else set[str]()
    for index, argument in enumerate(template.args):
        at = f"servers.{template.name}.args[{index}]"
        elements = paths if argument.spreads else (_fill(at, argument, lookup, paths),)
        if index < start:
            runner.extend(elements)
        elif argument.mentions_roots or _located(template, elements[0], environment) not in gone:
            own.extend(elements)
    if _adds_roots(template):
        present = {_trimmed(text) for text in own}
        own += (path for path in _folders(roots, gone) if _trimmed(path) not in present)
    return runner, own


def _gives_way(template: LaunchTemplate, roots: RootSet) -> bool:
    """Return whether the directories in the arguments give way to roots there."""
    if template.args_mode == "replace":
        return True
    placed = any(argument.mentions_roots for argument in template.args)
    return bool(roots.roots) and (placed or _adds_roots(template))


def _folders(roots: RootSet, gone: Collection[str]) -> Collection[str]:
    """Return the roots that are folders; those around the files, in the place of directories."""
    folders = dict.fromkeys(root.path for root in roots.roots if not root.is_file)
    return folders or (dict.fromkeys(_parent(root.path) for root in roots.roots) if gone else ())


def _env(
    template: LaunchTemplate, roots: RootSet, lookup: Lookup
) -> tuple[tuple[tuple[str, str], ...], tuple[tuple[str, SecretText], ...]]:
    """Return the variables whose values are known, and those that refer to secrets."""
    paths = roots.paths
    listed = [{"uri": root.uri, "name": root.name, "path": root.path} for root in roots.roots]
    told = {
        "MCP_ROOTS_JSON": json.dumps(listed),
        "MCP_ROOTS_PATHS": "\n".join(paths),
        "MCP_ROOTS_COUNT": str(len(paths)),
    }
    env = {
        name: text
        for name, text in told.items()
        if len(f"{name}={text}".encode("utf-8", "surrogateescape")) < MAX_VARIABLE
    }
    secrets: dict[str, SecretText] = {}
    for key, value in template.env:
        text = _filled(f"servers.{template.name}.env.{key}", value, lookup, paths)
        if text.plain is None:
            secrets[key] = text
            env.pop(key, None)
        else:
            env[key] = text.plain
    return tuple(sorted(env.items())), tuple(sorted(secrets.items(), key=itemgetter(0)))


def _cwd(
    template: LaunchTemplate, roots: RootSet, lookup: Lookup, directories: Collection[str]
) -> str | None:
    texts = (*_texts(template), *filter(None, [template.cwd]))
    if not roots.roots and any(text.mentions_first_root for text in texts):
        return None
    if template.cwd is not None:
        return _fill(f"servers.{template.name}.cwd", template.cwd, lookup, roots.paths)
    own = next(iter(directories), "")
    if _is_absolute(own) and not _gives_way(template, roots) and not _adds_roots(template):
        return own  # it reads relative paths from there, and the guard from where it runs
    if not roots.roots:
        return None
    first = roots.roots[0]
    return _parent(first.path) if first.is_file else first.path


def _adds_roots(template: LaunchTemplate) -> bool:
    if template.args_mode == "auto":
        return not _places_roots(template) and known_filesystem_server(template)
    return template.args_mode != "none"


def _places_roots(template: LaunchTemplate) -> bool:
    """Return whether command, args or env have roots: a `cwd` does not say what to serve."""
    return any(text.mentions_roots for text in _texts(template))


def _texts(template: LaunchTemplate) -> tuple[Template, ...]:
    return (template.command, *template.args, *(value for _, value in template.env))


def _written(template: LaunchTemplate) -> tuple[str, ...]:
    """Return the argv as written: values of variables must not decide which server it is."""
    texts = (template.command, *template.args)
    return tuple("${roots}" if text.spreads else text.fill(_as_written, ()) for text in texts)


def _as_written(variable: str) -> str:
    return f"${{{variable}}}"


def _located(template: LaunchTemplate, text: str, environment: Mapping[str, str]) -> str:
    home = environment.get("HOME") or environment.get("USERPROFILE")
    if home and (text == "~" or text.startswith("~/")):
        return home + text[1:]
    if template.cwd is None or template.cwd.mentions_roots or ntpath.splitdrive(text)[0]:
        return text
    cwd = _fill(f"servers.{template.name}.cwd", template.cwd, environment.get, ())
    return posixpath.join(cwd, text)


def _parent(path: str) -> str:
    return posixpath.dirname(path) if path.startswith("/") else ntpath.dirname(path)


def _is_absolute(path: str) -> bool:
    return path.startswith("/") or bool(ntpath.splitdrive(path)[0])


def _below(cwd: str | None, path: str) -> str | None:
    if cwd is None:
        return None
    return posixpath.join(cwd, path) if cwd.startswith("/") else ntpath.join(cwd, path)


def _straight(path: str) -> str:
    return posixpath.normpath(path) if path.startswith("/") else ntpath.normpath(path)


def _trimmed(path: str) -> str:
    return path.rstrip("/") or "/"


def _filled(where: str, template: Template, lookup: Lookup, roots: Sequence[str]) -> SecretText:
    try:
        return template.filled(lookup, roots)
    except TemplateError as error:
        raise ConfigError(where, str(error), error.fix) from None


def _fill(where: str, template: Template, lookup: Lookup, roots: Sequence[str]) -> str:
    try:
        return template.fill(lookup, roots)
    except TemplateError as error:
        raise ConfigError(where, str(error), error.fix) from None
