"""Choose the servers of clients that the hub can use, merge the same, and write a hub.yaml."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PureWindowsPath
from typing import Any, Final, cast

from msgspec import Struct, field
from msgspec.structs import replace

from hub.config.clients.entries import argv_of, hub_arguments
from hub.config.clients.locations import FoundServer
from hub.config.clients.secrets import NeededVariable, SecretVariables, hidden, variables_of
from hub.config.fields import LoadContext
from hub.config.load import server_problems
from hub.config.source.documents import ParsedConfig
from hub.config.source.json_text import as_text
from hub.config.source.places import Path as Place
from hub.config.source.places import spelled
from hub.config.source.yaml_text import flow, quoted, scalar
from hub.legible import on_one_line

_LOGIN: Final = "logins are not taken over: say `auth: oauth`, then `roots-hub login`"
_APPROVAL: Final = "what runs without asking is your client's to decide"
_APPROVALS: Final = ("autoApprove", "alwaysAllow", "default_tools_approval_mode", "approval_mode")
_REASONS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("trust", *_APPROVALS), _APPROVAL),
    "tools": "what is said of single tools (what runs without asking) is your client's",
    **dict.fromkeys(("oauth", "auth", "scopes", "oauth_resource", "authProviderType"), _LOGIN),
    "headersHelper": "the hub starts no program for headers; give it a token by `headers`",
    "envFile": "the hub reads no such file: write its variables into `env`",
    "dev": "it is for developing the server in the editor",
    **dict.fromkeys(
        ("sandbox", "sandboxEnabled"), "the hub has a confinement of its own: `confine: auto`"
    ),
    "timeout": "its unit depends on the client; the hub's `timeout` is in seconds",
}
"""Keys of clients that are not carried over, and why."""
_OTHER: Final = "the hub has no such key"
_LONGEST: Final = 64


class CarriedServer(Struct, frozen=True):
    """A server of hub.yaml, by its name there, and where it was found.

    `notes`: keys that are not carried over, with the reason. `needs`: variables that it needs.
    `about`: what a comment says of it.
    """

    name: str
    server: ParsedConfig
    sources: tuple[FoundServer, ...]
    notes: tuple[str, ...] = ()
    needs: tuple[NeededVariable, ...] = ()
    about: str = ""


class LeftServer(Struct, frozen=True):
    """A server that is not carried over, and why."""

    source: FoundServer
    why: str


class Carried(Struct, frozen=True):
    """All that was found: what goes into hub.yaml, and what does not."""

    servers: tuple[CarriedServer, ...]
    left: tuple[LeftServer, ...]


class _Merged(Struct):
    """One server, and the places it was found in."""

    server: ParsedConfig
    sources: list[FoundServer]
    notes: list[str] = field(default_factory=list[str])


def carried(
    found: Iterable[FoundServer],
    context: LoadContext,
    *,
    with_secrets: bool = False,
    there: Mapping[str, ParsedConfig] | None = None,
) -> Carried:
    """Return what of these servers goes into hub.yaml, and what does not.

    `there`: the servers of a hub.yaml that is there already. They keep their names; one that is
    the same as one of them is not carried again, but found among `servers` by that name.
    """
    merged: dict[str, _Merged] = {}
    left: list[LeftServer] = []
    for one in found:
        server = _usable(one, context)
        if isinstance(server, str):
            left.append(LeftServer(one, server))
            continue
        known = merged.setdefault(_identity(server), _Merged(server, []))
        known.server = {**server, **known.server}
        known.sources.append(one)
        known.notes += [note for note in _notes(one) if note not in known.notes]
    names = _Names({} if there is None else there)
    variables = SecretVariables(context.environment)
    servers = [_named(one, names, variables, with_secrets=with_secrets) for one in merged.values()]
    return Carried(tuple(servers), tuple(left))


def _named(
    one: _Merged, names: _Names, variables: SecretVariables, *, with_secrets: bool
) -> CarriedServer:
    source, server = one.sources[0], one.server
    needs: list[NeededVariable] = []
    if (name := names.of(server)) is None:
        # It may be there with variables in the place of its secrets.
        server, needs = hidden(source.name, one.server, SecretVariables({}))
        name = names.of(server)
    if name is None:
        name, server, needs = names.choose(source), one.server, []
        if not with_secrets:
            server, needs = hidden(name, server, variables)
    needs = [replace(need, where=_where(source, need.path)) for need in needs]
    known = {need.name for need in needs}
    needs += [need for need in variables_of(name, server) if need.name not in known]
    return CarriedServer(name, server, tuple(one.sources), tuple(one.notes), tuple(needs))


def _where(source: FoundServer, path: Place) -> str:
    return f"{source.path}: {spelled((*source.entry.place, *source.entry.theirs(path)))}"


def _usable(found: FoundServer, context: LoadContext) -> ParsedConfig | str:
    """Return a server in hub.yaml's shape, or why it cannot be carried over."""
    entry = found.entry
    if found.off:
        return f"turned off there ({found.off})"
    if entry.is_off:
        built_in = next((one for one in entry.warnings if one.startswith("left out")), None)
        return "built into its client, which alone can start it" if built_in else "turned off there"
    if entry.problems:
        problem = entry.problems[0]
        at = f"{spelled(problem.path)}: " if problem.path else ""
        return f"{at}{problem.what}. {problem.fix}"
    server = _unwrapped(entry.server)
    if server is None:
        return "the hub itself"
    server = _placed(server, found.directory)
    theirs = replace(context, is_clients=True)
    for problem in server_problems(found.name[:_LONGEST] or "server", server, theirs):
        if not problem.is_outside and problem.variable is None:
            return f"{spelled(entry.theirs(problem.path[2:]))}: {problem.what}. {problem.fix}"
    return server


def _unwrapped(server: ParsedConfig) -> ParsedConfig | None:
    """Return a server without a `roots-hub wrap --` before it; None if it is the hub itself."""
    given = hub_arguments(argv_of(server))
    if given is None:
        return server
    if given[:1] != ["wrap"] or "--" not in given or not given[given.index("--") + 1 :]:
        return None
    program, *args = given[given.index("--") + 1 :]
    return {**server, "command": program, "args": args}


def _placed(server: ParsedConfig, directory: Path) -> ParsedConfig:
    """Return a server whose relative paths start at `directory`, as they do for its client."""
    made = _plain(server)
    for key in ("command", "cwd"):
        text = made.get(key)
        is_place = isinstance(text, str) and (key == "cwd" or bool({"/", "\\"} & set(text)))
        if is_place and not _is_fixed(str(text)):
            made[key] = str(directory / str(text))
    if isinstance(made.get("env"), dict):
        made["env"] = {key: as_text(one) for key, one in made["env"].items()}
    if isinstance(made.get("args"), list):
        made["args"] = [as_text(one) for one in made["args"]]
    return made


def _is_fixed(path: str) -> bool:
    """Return whether a path does not depend on a directory."""
    is_absolute = Path(path).is_absolute() or PureWindowsPath(path).is_absolute()
    return is_absolute or path.startswith(("~", "${"))


def _identity(server: ParsedConfig) -> str:
    """Return what two entries have in common that are the same server."""
    keys = ("command", "args", "env", "cwd", "url", "headers", "tools")
    return json.dumps([server.get(key) for key in keys], sort_keys=True, default=str)


def _notes(found: FoundServer) -> list[str]:
    notes: list[str] = []
    for warning in found.entry.warnings:
        if warning.startswith("ignored: "):
            keys = warning.removeprefix("ignored: ").split(", ")
            notes += [_unused(key) for key in keys]
        elif warning.startswith("envFile"):
            notes.append(f"envFile: {_REASONS['envFile']}")
        else:
            notes.append(warning)
    return notes


def _unused(key: str) -> str:
    """Return why a key, perhaps with a guess of what was meant behind it, is not carried over."""
    word = key.partition(" ")[0]
    return f"{word}: {_REASONS[word]}" if word in _REASONS else f"{key}: {_OTHER}"


class _Names:
    """Gives each server a name that no other has."""

    def __init__(self, there: Mapping[str, ParsedConfig]) -> None:
        self._there = {_identity(_plain(one)): name for name, one in there.items()}
        self._taken: set[str] = set(there)

    def of(self, server: ParsedConfig) -> str | None:
        """Return the name of a server that is there already; None if it is not."""
        return self._there.get(_identity(_plain(server)))

    def choose(self, source: FoundServer) -> str:
        base = source.name.strip() or "server"
        wanted = [base[:_LONGEST], f"{base[: _LONGEST - 20]}-{source.client}"]
        wanted += [f"{base[: _LONGEST - 24]}-{source.client}-{n}" for n in range(2, 1000)]
        name = next(one for one in wanted if one not in self._taken)
        self._taken.add(name)
        return name


def _plain(server: Mapping[str, Any]) -> ParsedConfig:
    return {key: one for key, one in server.items() if one not in ({}, [], None)}


_HEAD = """\
# A config for roots-hub: one MCP endpoint in front of these servers. A client's folders (its
# roots) are the only places that paths in tool calls may lead to.
#
#   roots-hub check --config {name} --connect     does everything start?
#   roots-hub install cursor --config {name}      tell a client about it (or vscode, codex, ...)
#
# Every key is explained in hub.yaml.example, and `roots-hub schema` prints a JSON Schema for
# editors. ${{NAME}} is a variable of the environment that the hub is started in.

version: 1
"""
_FOLDERS = """\
roots:
  # Folders for clients that share none of their own. Relative paths start at this file.
  # Clients that share folders are held to those, whatever is written here.
  fallback: {folders}
  # deny: ["**/.env"]         # what no call reaches, in any folder
"""
_NO_FOLDERS = """\
# Clients that share folders are held to those. For clients that share none, name folders here;
# else their calls are let through, with a warning. Relative paths start at this file.
# roots:
#   fallback: ["."]
#   deny: ["**/.env"]         # what no call reaches, in any folder
"""


def hub_yaml(
    name: str,
    servers: Sequence[CarriedServer],
    left: Iterable[LeftServer] = (),
    *,
    folders: Sequence[str] = (),
    confine: str | None = None,
) -> str:
    """Return the text of a config with these servers, for a file of this name.

    `left` are named in comments.
    """
    head = _HEAD.format(name=on_one_line(shlex.quote(name)))
    places = _FOLDERS.format(folders=flow(list(folders))) if folders else _NO_FOLDERS
    lines = [head, places, "servers:"]
    for one in servers:
        lines += _server(one, confine)
    if not servers:
        lines[-1] = "servers: {}"
    rest = list(_left_out(left))
    if rest:
        lines += ["# Not carried over:", *rest]
    return "\n".join(lines).rstrip() + "\n"


def _server(one: CarriedServer, confine: str | None) -> Iterator[str]:
    if one.about:
        yield on_one_line(f"  # {one.about}")
    for source in one.sources:
        yield on_one_line(f"  # from {source.client}, {source.where}")
    for note in one.notes:
        yield on_one_line(f"  # not carried over: {note}")
    yield f"  {scalar(one.name)}:"
    for key, value in one.server.items():
        yield from _member(key, value)
    if confine is not None and "command" in one.server:
        yield f"    confine: {quoted(confine)}"
    for need in one.needs:
        yield f"    # needs the variable {need.name}"
    yield ""


def _member(key: str, value: object) -> Iterator[str]:
    if isinstance(value, dict) and value and key in {"env", "headers"}:
        yield f"    {key}:"
        for name, one in cast("Mapping[str, object]", value).items():
            yield f"      {scalar(name)}: {flow(one)}"
    else:
        yield f"    {key}: {flow(cast('object', value))}"


def _left_out(left: Iterable[LeftServer]) -> Iterator[str]:
    for one in left:
        if one.why != "the hub itself":
            yield on_one_line(f"#   {one.source.client} {one.source.name}: {one.why}")
