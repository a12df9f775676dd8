"""`roots-hub install` and `uninstall`: the hub's entry in the configs of MCP clients."""

from __future__ import annotations

import json
import os
import shlex
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from pathlib import Path
from textwrap import indent
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from hub.app.machine import this_machine
from hub.cli.options import Subparsers, add_config_option, load_context
from hub.cli.setup.client_changes import (
    FileChange,
    HubConfigFile,
    MovedServers,
    perform,
    to_install,
    to_uninstall,
)
from hub.cli.setup.importing import add_writing_options, known_clients, user_place, variables
from hub.cli.setup.showing import difference, in_colours, shown
from hub.cli.terminal import agrees
from hub.config.clients.entries import NAME, hub_command, own_entry
from hub.config.clients.locations import (
    CLIENTS,
    ClientFile,
    Discovery,
    UserPlace,
    client_file,
    is_installed,
    signs_of,
)
from hub.config.editing import InstallRecord, install_record
from hub.config.fields import LoadContext
from hub.config.load import config_source, is_own_config, load_config
from hub.config.own_files import FOUND, found_in
from hub.config.source.documents import is_inline
from hub.errors import ConfigError, HubError, StartError, UsageError
from hub.legible import legible, on_one_line


def register(subparsers: Subparsers) -> None:
    """Add the subcommands `install` and `uninstall`."""
    install = subparsers.add_parser(
        "install",
        help="put the hub into the config of MCP clients",
        description="Put the hub into the configs of MCP clients: the change is shown first, a "
        "copy is kept, comments and order of the file stay. `uninstall` takes it out again.",
    )
    _add_clients(install)
    add_config_option(install)
    install.add_argument(
        "--replace", action="store_true", help="move the clients' own servers behind the hub"
    )
    install.add_argument(
        "--with-secrets", action="store_true", help="with --replace: copy their secrets, too"
    )
    add_writing_options(install)
    install.set_defaults(perform=_install)
    uninstall = subparsers.add_parser(
        "uninstall",
        help="take out of MCP clients' configs what `install` put in",
        description="Take the hub out of the configs of MCP clients, and put back what it "
        "replaced. An entry that was edited since stays.",
    )
    _add_clients(uninstall)
    add_writing_options(uninstall)
    uninstall.set_defaults(perform=_uninstall)


def _add_clients(parser: ArgumentParser) -> None:
    names = ", ".join(CLIENTS)
    parser.add_argument("clients", metavar="CLIENT", nargs="*", help=f"one of {names}")
    parser.add_argument("--all", action="store_true", help="all clients of this user")
    parser.add_argument(
        "--project", action="store_true", help="the client's file in this directory, not the user's"
    )
    parser.add_argument(
        "--name", default=NAME, help="what the hub is called there (default: roots-hub)"
    )


class _Outcome(Struct, frozen=True):
    """What is to be done, or was done, for one client; `error` if that is not possible.

    `copy` is the file from before.
    """

    client: str
    path: Path | None
    change: FileChange | None = None
    error: HubError | None = None
    moved: MovedServers | None = None
    is_done: bool = False
    copy: Path | None = None


def _files(options: Namespace, advice: str) -> list[_Outcome | ClientFile]:
    """Return the file of each client that is meant, or why there is none.

    `advice` says what to do about one that is not installed.

    Raises: UsageError if none is named.
    """
    names = known_clients(options.clients)
    if not names and not options.all:
        fix = f"Name some of {', '.join(CLIENTS)}; or --all for those that are there."
        raise UsageError("no client is named", fix)
    if not options.name.strip():
        raise UsageError("--name: is empty", f"Leave it out: the hub is called {NAME} then.")
    place = user_place()
    scope = "project" if options.project else "user"
    found: list[_Outcome | ClientFile] = []
    for client in names or CLIENTS:
        file = client_file(client, scope, place)
        if file is None:
            fix = "Leave --project out: it has a config for the user alone."
            error = StartError("it has no config in a project", fix)
            found += [_Outcome(client, None, error=error)] if names else []
        elif scope == "user" and not is_installed(client, place):
            error = _not_installed(client, place, advice)
            found += [_Outcome(client, None, error=error)] if names else []
        else:
            found.append(file)
    if options.all and not options.clients and options.project:
        found = [one for one in found if isinstance(one, ClientFile) and one.path.exists()]
    return found


def _not_installed(client: str, place: UserPlace, advice: str) -> StartError:
    missing, fix = signs_of(client, place)[0], advice
    if missing.is_symlink():
        fix = "Bring back the file that it leads to, or remove the link."
        return StartError(f"{shown(missing)}: is a link to nothing", fix)
    in_project = client_file(client, "project", place)
    if in_project is not None and in_project.path.exists():
        fix += f" For {shown(in_project.path)} alone: --project."
    return StartError(f"it is not installed here: there is no {shown(missing)}", fix)


def _install(options: Namespace) -> int:
    files = _files(options, "Start the client once, then try again.")
    config = _config(options)
    hub = HubConfigFile(config, with_secrets=options.with_secrets) if options.replace else None
    record = install_record(this_machine(os.environ))
    command = hub_command()

    def planned(file: ClientFile) -> _Outcome:
        entry = own_entry(file.client, options.name, command, config)
        with nullcontext() if hub is None else hub.taking(file) as moved:
            names = () if moved is None else moved.names
            change = to_install(file, options.name, entry, record, names)
        return _Outcome(file.client, file.path, change, moved=moved)

    outcomes = [_tried(one, planned) for one in files]
    _check_any(outcomes, "install into")
    if hub is not None:
        _check_servers(hub, outcomes)
    if hub is not None and hub.is_changed and not options.json:
        print(*in_colours(difference(hub.path, hub.before or "", hub.text)), sep="\n")
    return _carry_out(outcomes, options, record, hub)


def _check_servers(hub: HubConfigFile, outcomes: Sequence[_Outcome]) -> None:
    """Check that the hub which the clients get has a server. Raises: ConfigError."""
    if hub.servers() or all(one.error is not None for one in outcomes):
        return
    if hub.before is None:
        what, fix = "is not there, and no server can be moved into it", "Make one: roots-hub init."
    else:
        what = "no servers, and none to move into it"
        fix = "Add one: `servers: {files: {command: ...}}`."
    stay = [why for one in outcomes if one.moved is not None for why in one.moved.kept]
    raise ConfigError(str(hub.path), what, on_one_line("; ".join(stay)) or fix)


def _config(options: Namespace) -> Path:
    """Return the config that the clients' hub gets.

    Raises: ConfigError if there is none, or it is wrong.
    """
    source = config_source(options.config, os.environ)
    if source is None and (found_in(Path.cwd()) or options.replace):
        source = FOUND
    if source is None:
        fix = "Make one by roots-hub import or roots-hub init, or name one by --config."
        raise ConfigError("", "there is no hub.yaml here for the hub to start with", fix)
    if is_inline(source):
        raise ConfigError(
            "the config", "is no file", "Save it in a file, and name that by --config."
        )
    path = Path(os.path.abspath(Path.cwd() / source))  # noqa: PTH100 - links stay
    if path.exists() or not options.replace:
        context = load_context()
        context = LoadContext(context.directory, context.home, _AllSet(os.environ))
        load_config(source, context, may_be_empty=options.replace)
        if options.replace and not is_own_config(source, context):
            what = "is not a hub.yaml, so no servers can be moved into it"
            raise ConfigError(
                source, what, f"Make one: roots-hub import --from {shlex.quote(source)}"
            )
    return path


class _AllSet(dict[str, str]):
    """An environment with every variable: what is not set now may be so when the hub starts."""

    def get(self, key: str, default: Any = None) -> Any:
        return super().get(key, default or "https://variable.invalid")


def _uninstall(options: Namespace) -> int:
    record = install_record(this_machine(os.environ))

    def planned(file: ClientFile) -> _Outcome:
        return _Outcome(file.client, file.path, to_uninstall(file, options.name, record))

    outcomes = [_tried(one, planned) for one in _files(options, "So nothing has to be taken out.")]
    _check_any(outcomes, "uninstall from")
    return _carry_out(outcomes, options, record, None)


def _tried(one: _Outcome | ClientFile, planned: Callable[[ClientFile], _Outcome]) -> _Outcome:
    if isinstance(one, _Outcome):
        return one
    try:
        return planned(one)
    except HubError as error:
        return _Outcome(one.client, one.path, error=error)


def _check_any(outcomes: Sequence[_Outcome], what: str) -> None:
    if not outcomes:
        fix = f"Name one of {', '.join(CLIENTS)} to see where its config is looked for."
        raise StartError(f"no client to {what} was found", fix)


def _carry_out(
    outcomes: Sequence[_Outcome],
    options: Namespace,
    record: InstallRecord,
    hub: HubConfigFile | None,
) -> int:
    count = sum(one.change is not None for one in outcomes)
    if not options.json:
        print("\n".join(_preview(outcomes)))
    if count and not options.dry_run:
        files = "this file" if count == 1 else f"these {count} files"
        if not agrees(f"Change {files}?", is_yes=options.yes):
            return 1
        outcomes = _performed(outcomes, record, hub)
    if options.json:
        print(json.dumps([_as_json(one) for one in outcomes], indent=2))
    else:
        _tell(outcomes, options)
    has_failed = any(one.error is not None for one in outcomes)
    return 1 if has_failed and not options.dry_run else 0


def _preview(outcomes: Iterable[_Outcome]) -> list[str]:
    lines: list[str] = []
    for one in outcomes:
        where = "" if one.path is None else f" in {shown(one.path)}"
        if one.error is not None:
            named = f" nothing can be done{where}:" if where else ""
            lines.append(f"{one.client}:{named}")
            lines += (f"  {line}" for line in legible(str(one.error)).splitlines())
        elif one.change is None:
            lines.append(f"{one.client}: nothing to do{where}")
        else:
            lines += in_colours(one.change.diff())
    return lines


def _performed(
    outcomes: Iterable[_Outcome], record: InstallRecord, hub: HubConfigFile | None
) -> list[_Outcome]:
    """Make the changes. A hub.yaml that no client got is as it was before."""
    if hub is not None:
        hub.write()
    done = [_performed_for(one, record) for one in outcomes]
    if hub is not None and not any(one.is_done for one in done):
        hub.take_back()
    return done


def _performed_for(one: _Outcome, record: InstallRecord) -> _Outcome:
    if one.change is None:
        return one
    try:
        return replace(one, copy=perform(one.change, record), is_done=True)
    except HubError as error:
        return replace(one, error=error)


def _tell(outcomes: Sequence[_Outcome], options: Namespace) -> None:
    """Tell what was done for the clients that were to be changed."""
    is_install = hasattr(options, "replace")
    for one in outcomes:
        if one.is_done:
            print(_done(one, options.name, is_install=is_install))
            if not is_install:
                _tell_back(one)
        elif one.change is not None and one.error is not None:
            print(f"{one.client}:\n{indent(legible(str(one.error)), '  ')}", file=sys.stderr)
    if is_install and any(one.is_done for one in outcomes):
        print("Restart the client, or reload its MCP servers, for it to take effect.")
        print("Next: `roots-hub doctor` says what is still missing, folders and variables too.")
    for one in outcomes:
        if one.error is None:
            _tell_moved(one)


def _done(one: _Outcome, name: str, *, is_install: bool) -> str:
    assert one.path is not None and one.change is not None  # noqa: PT018, S101 - it is done
    known = one.change.made or one.change.known
    name = name if known is None else known.name
    copy = f" (the file from before: {shown(one.copy)})" if one.copy is not None else ""
    if is_install:
        return f"{one.client}: {name} is in {shown(one.path)}{copy}"
    if one.change.after is None:
        return f"{one.client}: {shown(one.path)}, which install had made, is gone"
    return f"{one.client}: {name} is out of {shown(one.path)}{copy}"


def _tell_moved(one: _Outcome) -> None:
    if one.moved is None:
        return
    for name in one.moved.names:
        print(on_one_line(f"{one.client}: {name} is behind the hub"))
    for reason in one.moved.kept:
        print(on_one_line(f"{one.client}: stays as it is: {reason}"))
    for server in one.moved.added:
        for note in server.notes:
            print(on_one_line(f"{one.client}: {server.name}: not carried over: {note}"))
    for line in variables(one.moved.added, Discovery((), (), {})):
        print(line)


def _tell_back(one: _Outcome) -> None:
    """Tell which servers are the client's own again. Other clients may have them by the hub."""
    known = None if one.change is None else one.change.known
    if known is not None and known.moved:
        names, them = ", ".join(known.moved), "it" if len(known.moved) == 1 else "them"
        print(on_one_line(f"{one.client}: its own again: {names} (hub.yaml keeps {them}, too)"))


def _as_json(one: _Outcome) -> dict[str, Any]:
    moved = None if one.error is not None else one.moved
    return {
        "client": one.client,
        "file": None if one.path is None else str(one.path),
        "changed": one.is_done,
        "diff": [] if one.change is None else one.change.diff(),
        "copy": None if one.copy is None else str(one.copy),
        "moved": [] if moved is None else list(moved.names),
        "notMoved": [] if moved is None else list(moved.kept),
        "error": None if one.error is None else str(one.error),
    }
