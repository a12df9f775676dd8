"""Load and validate a config: hub.yaml, an MCP client's file, inline JSON or a command line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from typing import Any, Final, TypeAlias, cast

from msgspec import Struct
from msgspec.structs import replace
from pydantic import ValidationError

from hub.config.clients.entries import NAMING
from hub.config.clients.sections import ClientConfig, client_config, likely_section
from hub.config.fields import LoadContext, files_in
from hub.config.listening.listen import Listen, check_access
from hub.config.models import HubConfig, RemoteServer, StdioServer, is_shared_with_roots
from hub.config.problems import Problem, problems_in, with_one_way
from hub.config.source.documents import Document, ParsedConfig, form_of, is_inline, read
from hub.config.source.json_text import as_text
from hub.config.source.places import Path, in_command
from hub.errors import ConfigError, Fault
from hub.launch.environments import Inherits
from hub.launch.known_servers import program_index, short_name
from hub.launch.templates import INPUT
from hub.secrets.reading import open_to_others
from hub.specs import LeftOut
from hub.values import UNNAMED, ServerName, object_or_empty

_TEXTS: Final = ("env", "args", "headers")
"""Keys of a server whose values are texts: numbers and booleans in them are taken as such."""

ServerModel: TypeAlias = StdioServer | RemoteServer


class Loaded(Struct, frozen=True):
    """A config, the same as it is written, and warnings for the operator."""

    config: HubConfig
    raw: ParsedConfig
    warnings: tuple[str, ...] = ()


def config_source(option: str | None, environment: Mapping[str, str]) -> str | None:
    """Return the config's source: `--config`, else `HUB_CONFIG`, else None. No search path.

    Raises: ConfigError if `--config` is empty, as a variable may be that is not set.
    """
    if option is not None and not option.strip():
        raise ConfigError("--config", "is empty", "Name a file: --config FILE.")
    return option or environment.get("HUB_CONFIG", "").strip() or None


def load_config(source: str, context: LoadContext, *, may_be_empty: bool = False) -> Loaded:
    """Return the config in the file `source`, or in `source` itself if it is JSON text.

    Relative paths in a file start at its directory. Environment variables are read once, here,
    except those in launch commands; these must be set here as well. A server that cannot be used
    (in hub.yaml: whose variables are not set) is in `left_out` of the config, with the reason.
    `may_be_empty`: a hub.yaml may have no servers yet.

    Raises:
        ConfigError: the file cannot be read, is wrong, or has no server that can be used. It has
            all mistakes. No text shows a value that may be a secret.
    """
    document = read(source, context.directory, context.digest)
    client = client_config(document, context)
    if not is_inline(source):
        context = replace(context, directory=(context.directory / source).parent.absolute())
    if client is None:
        config = _own(document, context, may_be_empty=may_be_empty)
        warnings = (*_open_to_others(document, context), *_fit_nobody(config))
        return Loaded(config, document.raw, warnings)
    config = _Servers(document, client, context).config(HubConfig(version=1))
    warnings = tuple(f"{document.origin}: {warning}" for warning in client.warnings)
    return Loaded(config, document.raw, warnings)


def let_in_by(source: str, context: LoadContext) -> dict[str, Any]:
    """Return the keys of `listen` that say who is let in, whatever else is wrong in a hub.yaml.

    A key that is wrong itself is left out.

    Raises: ConfigError if the text cannot be read.
    """
    document = read(source, context.directory)
    listen = cast("object", document.raw.get("listen", {}))
    if not isinstance(listen, dict) or client_config(document, context) is not None:
        return {}
    context = replace(context, directory=(context.directory / source).parent.absolute())
    said: dict[str, Any] = {}
    for key in ("token", "tokens", "auth"):
        one = {name: value for name, value in cast("ParsedConfig", listen).items() if name == key}
        if object_or_empty(one.get("auth")).get("issuers", 0) == []:
            one = {}  # a mistake, but one that says that there are none
        with suppress(ValidationError):
            said[key] = getattr(Listen.model_validate(one, context=context), key)
    return said


def server_problems(name: str, server: ParsedConfig, context: LoadContext) -> list[Problem]:
    """Return what is wrong with a server in hub.yaml's shape; empty if it can be used."""
    made = _server(name, server, context)
    return made if isinstance(made, list) else []


def is_own_config(source: str, context: LoadContext) -> bool:
    """Return whether `source`, a config that loads, is a hub.yaml and not a client's config."""
    if is_inline(source) or form_of(source) != "yaml":
        return False
    return client_config(read(source, context.directory), context) is None


def config_from_command(
    argv: Sequence[str], context: LoadContext, *, environment: Inherits = "default"
) -> HubConfig:
    """Return a config with one server, which `argv` starts; its name comes from the program.

    Raises: ConfigError if a placeholder in `argv` is wrong or not set.
    """
    program = short_name(argv[program_index(argv)])
    name = re.sub(r"[^A-Za-z0-9_.-]+", "-", program).strip("-.")[:64] or "server"
    server = {"command": argv[0], "args": list(argv[1:]), "environment": environment}
    config = HubConfig(version=1)
    made = _server(name, server, context)
    if isinstance(made, list):
        raise ConfigError.of([Fault(in_command(one.path), one.what, one.fix) for one in made])
    return config.model_copy(update={"servers": {name: made}})


def _own(document: Document, context: LoadContext, *, may_be_empty: bool) -> HubConfig:
    """Return the config in a document of the hub's own shape. Raises: ConfigError."""
    raw = document.raw
    misspelt = _another_programs(raw)
    if misspelt is not None:
        raise ConfigError.of([_fault(document, misspelt)])
    servers = cast("object", raw.get("servers"))
    rest: ParsedConfig = {**raw, "servers": {}} if isinstance(servers, dict) else raw
    try:
        config = HubConfig.model_validate(rest, context=context)
    except ValidationError as error:
        found = [*problems_in(error)]
        if isinstance(servers, dict):
            for name, server in cast("ParsedConfig", servers).items():
                found += server_problems(name, server, context)
        found.sort(key=lambda problem: document.position(problem.path))
        raise ConfigError.of([_fault(document, problem) for problem in found]) from None
    try:
        check_access(config.listen, context.environment)
    except ConfigError as error:
        (fault,) = error.faults
        where = f"{document.origin}: {fault.where}"
        raise ConfigError(where, fault.what, fault.fix) from None
    is_empty = may_be_empty and servers == {}
    made = config if is_empty else _Servers(document, None, context).config(config)
    faults = [*_profile_faults(made), *_scope_faults(made)]
    if faults:
        raise ConfigError.of(faults)
    return made


def _open_to_others(document: Document, context: LoadContext) -> Iterator[str]:
    """Yield a warning for each file with a secret of `listen` that other users can read."""
    listen = cast("ParsedConfig", document.raw.get("listen") or {})
    texts = (listen.get("token"), *(listen.get("keys") or ()))
    paths = [path for text in texts for path in files_in(str(text or ""), context)]
    for path in dict.fromkeys(paths):
        if (sentence := open_to_others(path)) is not None:
            yield f"{document.origin}: listen: {sentence}"


def _fit_nobody(config: HubConfig) -> Iterator[str]:
    """Yield a warning for each match of a profile that wants what no token can have."""
    auth = config.listen.auth
    fitting = {None, *(one.issuer for one in auth.issuers)} if auth is not None else set[str]()
    for name, profile in config.profiles.items():
        for index, one in enumerate(profile.match or ()):
            if one.tokens or one.issuer in fitting:
                continue
            has_none = f"listen.auth has no issuer {one.issuer}"
            what = "there is no listen.auth" if one.issuer is None else has_none
            fault = config.fault(("profiles", name, "match", index), what, "")
            yield f"{fault.where}: {fault.what}: this fits nobody"


def _another_programs(raw: ParsedConfig) -> Problem | None:
    """Return the problem of a file that is probably another program's, but not quite."""
    if "version" in raw or "servers" in raw:
        return None
    if (misspelt := likely_section(raw)) is not None:
        key, section = misspelt
        return Problem((key,), "unknown key", f"Write `{section}`.", of_key=True)
    entries = [cast("ParsedConfig", one) for one in raw.values() if isinstance(one, dict)]
    if entries and len(entries) == len(raw) and all({"command", "url"} & set(e) for e in entries):
        what = "the servers are not in a section"
        return Problem((), what, 'Put them into `"mcpServers": {...}`, or below `servers:`.')
    return None


def _fault(document: Document, problem: Problem) -> Fault:
    return document.fault(problem.path, problem.what, problem.fix, of_key=problem.of_key)


def _server(name: str, raw: object, context: LoadContext) -> ServerModel | list[Problem]:
    """Return one server, or what is wrong with it; paths begin with `servers`."""
    misplaced = _misplaced(name, raw)
    if misplaced is not None:
        return [misplaced]
    entry = _with_texts(cast("ParsedConfig", raw)) if isinstance(raw, dict) else raw
    try:
        made = HubConfig.model_validate({"version": 1, "servers": {name: entry}}, context=context)
    except ValidationError as error:
        return [*problems_in(error), *_further_problems(name, entry, context)]
    server = made.servers[name]
    if is_shared_with_roots(server, name):
        what = "clients with other roots cannot share a process that is launched with roots"
        fix = "Write `share: roots`, or take the roots out (placeholders; or `roots.args: none`)."
        return [Problem(("servers", name, "share"), what, fix)]
    return server


def _further_problems(name: str, entry: object, context: LoadContext) -> Iterator[Problem]:
    """Yield the mistakes in a server that hide behind its missing or doubled command or url."""
    meant = with_one_way(entry)
    found = None if meant is None else _server(name, meant[0], context)
    if meant is not None and isinstance(found, list):
        own = ("servers", name, meant[1])
        yield from (problem for problem in found if problem.path[:3] != own)


def _misplaced(name: str, raw: object) -> Problem | None:
    """Return the problem of an entry of `servers` that is a key of another place, if it is one."""
    path = ("servers", name)
    if not isinstance(raw, dict) and name in {"command", "args", "url", "env", "cwd", "headers"}:
        fix = "Indent it below the name of its server."
        return Problem(path, "is a key of a server, not a server", fix, of_key=True)
    is_server = isinstance(raw, dict) and not {"command", "url"}.isdisjoint(raw)  # pyright: ignore[reportUnknownArgumentType] - parsed YAML
    if name in HubConfig.model_fields and not is_server:
        fix = "Indent it less: it belongs beside `servers`."
        return Problem(path, "is no server", fix, of_key=True)
    return None


def _with_texts(server: ParsedConfig) -> ParsedConfig:
    made = dict(server)
    for key in _TEXTS:
        values = made.get(key)
        if isinstance(values, dict):
            made[key] = {k: as_text(v) for k, v in cast("ParsedConfig", values).items()}
        elif isinstance(values, list) and key == "args":
            made[key] = [as_text(value) for value in cast("list[Any]", values)]
    return made


class _Servers:
    """Turns the servers of one document into those of a config, and those that are left out."""

    def __init__(
        self, document: Document, client: ClientConfig | None, context: LoadContext
    ) -> None:
        self._document = document
        self._client = client
        self._context = replace(context, is_clients=client is not None)

    def config(self, config: HubConfig) -> HubConfig:
        """Return `config` with the servers of the document.

        Raises: ConfigError if none can be used, or if there is a mistake in a hub.yaml.
        """
        made = dict(self._made())
        servers = {name: one for name, one in made.items() if not isinstance(one, list)}
        wrong = {name: one for name, one in made.items() if isinstance(one, list)}
        problems = [problem for found in wrong.values() for problem in found]
        is_fatal = self._client is None and not all(one.is_outside for one in problems)
        if is_fatal or (problems and not servers):
            problems.sort(key=lambda one: self._document.position(self._theirs(one.path)))
            raise ConfigError.of([self._fault(problem) for problem in problems])
        if not servers:
            raise ConfigError.of([self._no_servers()])
        left_out = (
            LeftOut(ServerName(name), tuple(self._fault(problem) for problem in found))
            for name, found in wrong.items()
        )
        return config.with_servers(
            servers, left_out, self._fault_at, is_clients=self._client is not None
        )

    def _made(self) -> Iterable[tuple[str, ServerModel | list[Problem]]]:
        if self._client is None:
            servers = cast("ParsedConfig", self._document.raw.get("servers") or {})
            for name, raw in servers.items():
                yield name, _server(name, raw, self._context)
            return
        for name, entry in self._client.entries.items():
            if entry.problems:
                at = ("servers", name)
                yield name, [replace(one, path=(*at, *one.path)) for one in entry.problems]
            else:
                yield name, _server(name, entry.server, self._context)

    def _no_servers(self) -> Fault:
        section: Path = ("servers",) if self._client is None else self._client.section
        fix = "Add one: `servers: {files: {command: ...}}`."
        if self._client is not None:
            fix = 'Add one: {"files": {"command": "...", "args": []}}.'
        return self._document.fault(section, "no servers", fix)

    def _fault(self, problem: Problem) -> Fault:
        path, fix = self._theirs(problem.path), problem.fix
        if self._client is not None and problem.variable and not problem.variable.startswith(INPUT):
            fix = f"Set the variable {problem.variable} for the hub"
            fix += "." if NAMING & set(path) else ", or write its value here."
        return self._document.fault(path, problem.what, fix, of_key=problem.of_key)

    def _fault_at(self, path: Path, what: str, fix: str) -> Fault:
        return self._document.fault(self._theirs(path), what, fix)

    def _theirs(self, path: Path) -> Path:
        """Return a path of the hub's shape as the file spells it."""
        if self._client is None or path[:1] != ("servers",) or len(path) == 1:
            return path
        entry = self._client.entries[str(path[1])]
        return (*entry.place, *entry.theirs(path[2:]))


def _scope_faults(config: HubConfig) -> Iterator[Fault]:
    """Yield where servers and tools need scopes that no token can have."""
    what = "there is no listen.auth, and no other tokens have scopes"
    fix = "Write the issuers of tokens there, or take the key out."
    for at, _ in config.particular_scopes() if config.listen.auth is None else ():
        yield config.fault(at, what, fix)


def _profile_faults(config: HubConfig) -> Iterator[Fault]:
    """Yield where a profile names a server or a token that is not in the config."""
    servers = [*config.servers, *(one.name for one in config.left_out)]
    tokens = [UNNAMED, *(one.name for one in config.listen.tokens)]
    for at, kind, name in _named(config):
        if kind == "server":
            known, is_known = servers, any(fnmatchcase(one, name) for one in servers)
        else:
            known, is_known = tokens, name in tokens
        if not is_known:
            # No likely name is proposed: another token of nearly the same name is another person's.
            fix = f"Take it out, or write one of these: {', '.join(known)}."
            yield config.fault(at, f"there is no {kind} {name}", fix)


def _named(config: HubConfig) -> Iterator[tuple[Path, str, str]]:
    """Yield what profiles name: its place, whether it is a server or a token, and its name."""
    for name, profile in config.profiles.items():
        at: Path = ("profiles", name)
        for index, glob in enumerate(profile.servers):
            yield (*at, "servers", index), "server", glob
        for key, globs in (("allow", profile.tools.allow), ("deny", profile.tools.deny)):
            for index, glob in enumerate(globs):
                if "/" in glob:
                    yield (*at, "tools", key, index), "server", glob.partition("/")[0]
        for match, one in enumerate(profile.match or ()):
            for index, token in enumerate(one.tokens):
                yield (*at, "match", match, "tokens", index), "token", token
