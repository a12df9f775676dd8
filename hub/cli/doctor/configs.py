"""Configs: the hub's own (do they load, who may write and read them), and those of MCP clients."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from itertools import chain, count
from pathlib import Path
from typing import Any, Final, cast

from hub.app.machine import this_machine
from hub.cli.doctor.scene import (
    NO_FILE,
    OTHERS_READ,
    OTHERS_WRITE,
    HubEntry,
    LookedAtConfig,
    Scene,
    barred_by,
    is_directory,
    is_others,
    is_plain_file,
    open_to,
    opened_up,
    quoted,
    reason,
    status,
    take_over,
)
from hub.cli.setup.client_changes import read_client, to_uninstall
from hub.cli.terminal import Finding, counted
from hub.config.clients.entries import argv_of, hub_arguments, hub_command, read_entry
from hub.config.clients.locations import (
    CLIENTS,
    ClientFile,
    UserPlace,
    client_file,
    client_files,
    is_installed,
)
from hub.config.clients.secrets import SecretVariables, hidden, looks_secret
from hub.config.editing import InstallRecord, install_record, parsed, section_of
from hub.errors import ConfigError, Fault, HubError, StartError
from hub.values import object_or_empty

_UNSET = re.compile(r"the (?:variable|input) (\w+) (?:is not set|has no value)")
_SECTIONS = ("servers", "mcpServers", "mcp_servers", "context_servers", "extensions")


def configs(scene: Scene) -> Iterator[Finding]:
    """Yield the mistakes for which configs do not load, and the servers that are left out."""
    for one in scene.configs:
        for fault in one.faults:
            yield _fault(fault, one, scene, "config")
        for left in one.left_out:
            for fault in left.faults:
                found = _fault(fault, one, scene, "servers")
                what = f"{left.name} is left out: {found.what}"
                yield Finding(found.level, "servers", found.where, what, found.fix)
        if one.config is not None:
            what = f"loads, with {counted(len(one.specs), 'server')}"
            yield Finding("ok", "config", one.name, what)
    if not scene.configs and not scene.entries:
        what = "there is no hub.yaml in this directory, and no client has the hub"
        yield Finding("note", "config", str(scene.directory), what, f"{scene.hub} init")


def _fault(fault: Fault, config: LookedAtConfig, scene: Scene, about: str) -> Finding:
    """Return a mistake as a finding."""
    unset = _UNSET.search(fault.what)
    if fault.what == NO_FILE:
        return Finding("problem", about, fault.where, fault.what, fault.fix)
    fix = f"In {config.name}: {fault.fix} Then: {scene.hub} check{config.option}"
    if unset:
        fix = f"export {unset[1]}='...'"
    elif config.path is not None and not os.access(config.path, os.R_OK):
        fix = _readable(config.path, scene)
    return Finding("problem", about, fault.where, fault.what, fix)


def _readable(path: Path, scene: Scene) -> str:
    """Return the command that makes a config that can be read of a file that cannot."""
    above, found = barred_by(path), status(path)
    other = "Name a config of your own: --config FILE."
    if above is not None:
        return opened_up(above, "u+rwx") or other
    if found is None and path.is_symlink():
        return f"rm {quoted(path)} && {scene.hub} init --yes --output {quoted(path)}"
    if found is None:
        made = f"mkdir -p {quoted(path.parent)} && " if not is_directory(path.parent) else ""
        return f"{made}{scene.hub} init --yes --output {quoted(path)}"
    return opened_up(path, "u+r") or other


def modes(scene: Scene) -> Iterator[Finding]:
    """Yield the configs that other users may write, or that have secrets which they may read."""
    for one in scene.configs:
        found = None if one.path is None else status(one.path)
        if one.path is None or found is None or not is_plain_file(one.path):
            continue
        where = one.name
        if is_others(found) and found.st_uid != 0:
            what = "belongs to another user, and it names commands that run as you"
            own = _own_copy(scene)
            copy = f"cp {quoted(one.path)} {own} && {scene.hub} doctor --config {own}"
            yield Finding("problem", "config", where, what, take_over(one.path) or copy)
        elif open_to(found, OTHERS_WRITE):
            what = "other users may write it, and it names commands that run as you"
            yield Finding("problem", "config", where, what, f"chmod go-w {quoted(one.path)}")
        if open_to(found, OTHERS_READ) and _has_secrets(one):
            what = "has a secret in it, and other users may read it"
            yield Finding("warning", "config", where, what, f"chmod 600 {quoted(one.path)}")


def _own_copy(scene: Scene) -> str:
    """Return a new file in the home directory, as a word of a command."""
    home = scene.home or scene.directory
    more = (home / f"hub-{number}.yaml" for number in count(2))
    return quoted(next(one for one in chain([home / "hub.yaml"], more) if status(one) is None))


def raw_servers(config: LookedAtConfig) -> dict[str, dict[str, Any]]:
    """Return the servers of a config as they are written; empty if it cannot be parsed."""
    for section in _SECTIONS:
        found = config.raw.get(section)
        if isinstance(found, dict):
            entries = cast("dict[str, object]", found).items()
            return {
                name: cast("dict[str, Any]", one) for name, one in entries if isinstance(one, dict)
            }
    return {}


def _has_secrets(config: LookedAtConfig) -> bool:
    for name, raw in raw_servers(config).items():
        server = read_entry(raw).server
        if any(one.value is not None for one in hidden(name, server, SecretVariables({}))[1]):
            return True
    if config.config is None:
        return False
    listen = object_or_empty(config.raw.get("listen"))
    written = (one.get("token") for one in (listen, *cast("Any", listen.get("tokens", ()))))
    return any(looks_secret(str(one), "token") for one in written if one)


_NO_ROOTS: Final = frozenset({"claude-desktop", "windsurf", "codex", "zed"})
"""Clients whose own documentation does not say that they share folders."""


def hub_entries(place: UserPlace) -> tuple[list[HubEntry], list[Finding]]:
    """Return the hub's entries in all clients' files, and which files cannot be read."""
    entries: list[HubEntry] = []
    found: list[Finding] = []
    for client in CLIENTS:
        # In the home directory a project's file is the user's.
        files = {file.path: file for file in reversed([*client_files(client, place)])}
        for file in reversed(files.values()):
            if barred_by(file.path) is not None:
                continue  # told by `machine.barred`
            fault = _unreadable(file)
            if fault is not None:
                found.append(fault)
                continue
            try:
                text = read_client(file)
                servers = section_of(parsed(text or "", file.form), file.section)
            except (HubError, ValueError, RecursionError) as error:
                found.append(_broken(file, error))
                continue
            entries += filter(None, (_entry(file, name, raw) for name, raw in servers.items()))
    return entries, found


def _unreadable(file: ClientFile) -> Finding | None:
    """Return why a file that is there cannot be read; None if it can, or is not there."""
    about, where, path = "clients", str(file.path), quoted(file.path)
    try:
        found = file.path.stat()
    except (FileNotFoundError, NotADirectoryError):
        what = f"is a link to nothing, so {file.client} has no servers"
        is_link = file.path.is_symlink()
        return Finding("warning", about, where, what, f"rm {path}") if is_link else None
    except (OSError, ValueError) as exc:
        why = reason(exc) if isinstance(exc, OSError) else "no name of a file"
        fix = f"chmod u+rx {quoted(file.path.parent)}"
        return Finding("warning", about, where, f"cannot be read: {why}", fix)
    if not stat.S_ISREG(found.st_mode):
        what = f"is no plain file, so {file.client} cannot read it"
        return Finding("problem", about, where, what, f"mv {path} {quoted(f'{file.path}.old')}")
    if os.access(file.path, os.R_OK):
        return None
    fix = opened_up(file.path, "u+r") or f"Make {path} readable for you"
    return Finding("problem", about, where, f"{file.client} may not read it", fix)


def _broken(file: ClientFile, error: Exception) -> Finding:
    what, fix = "cannot be parsed", "Correct the file."
    if isinstance(error, ConfigError):
        what, fix = error.faults[0].said, error.faults[0].fix
    elif isinstance(error, StartError):
        what, fix = error.what, error.fix
    what = what.removeprefix(f"{file.path}: ")
    return Finding(
        "problem", "clients", str(file.path), f"{file.client} cannot read it: {what}",
        f"In {file.path}: {fix}",
    )  # fmt: skip


def _entry(file: ClientFile, name: str, raw: object) -> HubEntry | None:
    argv = argv_of(read_entry(raw).server)
    after = hub_arguments(argv)
    if after is None or after[:1] not in (["run"], ["attach"], ["wrap"], []):
        return None
    own = after[: after.index("--")] if "--" in after else after
    given = next((own[at + 1] for at, one in enumerate(own[:-1]) if one == "--config"), None)
    given = given or next((one[9:] for one in own if one.startswith("--config=")), None)
    # No error for the home directory of a user who is not there.
    there = given if given and given.startswith(("/", "~")) else None
    config = None if there is None else Path(os.path.expanduser(there))  # noqa: PTH111 - as said
    return HubEntry(file.client, file.path, file.scope, file.section, name, tuple(argv), config)


def clients(scene: Scene) -> Iterator[Finding]:
    """Yield what is wrong with the hub's entries in the configs of clients."""
    record = install_record(this_machine(os.environ))
    for entry in scene.entries:
        found = [*_program(entry, scene, record), *_config(entry, scene, record)]
        found += _roots(entry, scene)
        yield from found or [
            Finding("ok", "clients", entry.client, f"has the hub: {entry.key} in {entry.path}")
        ]
    yield from _lost(scene, record)


def _program(entry: HubEntry, scene: Scene, record: InstallRecord) -> Iterator[Finding]:
    program = entry.argv[0]
    if scene.which(program) is not None:
        return
    path = Path(program)
    if os.sep in program and is_plain_file(path):
        what = f"{entry.client} cannot start the hub: {program} may not be run"
        yield Finding("problem", "clients", _where(entry), what, f"chmod a+rx {quoted(path)}")
        return
    where = "there is no program" if os.sep in program else "not on the PATH:"
    what = f"{entry.client} cannot start the hub: {where} {program}"
    fix = _again(entry, scene, record, entry.config) or _edit(entry, "command", hub_command()[0])
    yield Finding("problem", "clients", _where(entry), what, fix)


def _config(entry: HubEntry, scene: Scene, record: InstallRecord) -> Iterator[Finding]:
    if entry.config is None or is_plain_file(entry.config):
        return
    what = f"{entry.client} starts the hub with a config that is not there: {entry.config}"
    here = next((one.path for one in scene.configs if one.config and one.path), None)
    if here is None:
        above = quoted(entry.config.parent)
        fix = f"mkdir -p {above} && {scene.hub} init --yes --output {quoted(entry.config)}"
    else:
        fix = _again(entry, scene, record, here) or _edit(entry, "the word after --config", here)
    yield Finding("problem", "clients", _where(entry), what, fix)


def _where(entry: HubEntry) -> str:
    return f"{entry.path}: {entry.key}"


def _edit(entry: HubEntry, key: str, value: object) -> str:
    return f"In {entry.path}, at {entry.key}: set {key} to {value}"


def _again(entry: HubEntry, scene: Scene, record: InstallRecord, config: Path | None) -> str | None:
    """Return the commands that put the entry in anew; None if they would not do that."""
    file = None if entry.scope == "file" else client_file(entry.client, entry.scope, scene.place)  # pyright: ignore[reportArgumentType] - one of the two
    if config is None or not is_plain_file(config) or file is None or file.path != entry.path:
        return None
    if entry.argv[-2:] != ("--config", str(entry.config)) or "wrap" in entry.argv:
        return None  # it has more arguments, which would be lost
    if entry.scope == "user" and not is_installed(entry.client, scene.place):
        return None
    try:
        if to_uninstall(file, entry.name, record) is None:
            return None
    except HubError:
        return None
    which = f"{entry.client} --yes" + (" --project" if entry.scope == "project" else "")
    which += "" if entry.name == "roots-hub" else f" --name {quoted(entry.name)}"
    install = f"{scene.hub} install {which} --config {quoted(config)}"
    return f"{scene.hub} uninstall {which} && {install}"


def _roots(entry: HubEntry, scene: Scene) -> Iterator[Finding]:
    """Yield that no folder would hold the calls of a client which shares none."""
    if entry.client not in _NO_ROOTS or "--root" in entry.argv or entry.config is None:
        return
    config = next((one for one in scene.configs if one.path == entry.config), None)
    if config is None or config.config is None or scene.environment.get("HUB_ROOTS"):
        return
    roots = config.config.roots
    if roots.fallback or roots.ceiling or roots.detect or roots.when_missing == "deny":
        return
    what = f"{entry.client} is not known to share folders: the hub does not restrict its calls"
    fix = f'{scene.hub} roots add "$PWD"{config.option}'
    if config.path is None or config.path.suffix not in {".yaml", ".yml"}:
        fix = f'In {entry.path}, at {entry.key}: add "--root", "{scene.directory}" to its arguments'
    yield Finding("warning", "clients", _where(entry), what, fix)


def _lost(scene: Scene, record: InstallRecord) -> Iterator[Finding]:
    """Yield the entries that were installed and are gone: someone has taken them out by hand."""
    there = {(entry.path, entry.name) for entry in scene.entries}
    broken = {one.where for one in scene.found}
    for client in CLIENTS:
        file = client_file(client, "user", scene.place)
        if file is None or str(file.path) in broken:
            continue
        known = record.of(file.path)
        if known is not None and (file.path, known.name) not in there:
            what = f"{known.name}, which was installed into {client}, is gone from it"
            fix = f"{scene.hub} uninstall {client} --yes --name {quoted(known.name)}"
            yield Finding("warning", "clients", str(file.path), what, fix)
