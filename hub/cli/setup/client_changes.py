"""What installing and uninstalling change in one client's file, and in the hub.yaml behind it.

`install --replace`: a client's own servers go behind the hub.
"""

from __future__ import annotations

import json
import shlex
import stat
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from hub.cli.options import load_context
from hub.cli.setup.importing import user_place
from hub.cli.setup.showing import difference, shown
from hub.config.carrying import CarriedServer, carried, hub_yaml
from hub.config.clients.entries import NAME, is_hub
from hub.config.clients.locations import ClientFile, FoundServer, client_files, discover
from hub.config.editing import (
    EntryEditedError,
    Installation,
    InstallRecord,
    digest,
    installed,
    parsed,
    section_of,
    uninstalled,
    with_entry,
    without_entry,
)
from hub.config.source.documents import Document, ParsedConfig, text_in
from hub.config.source.places import spelled
from hub.errors import HubError, StartError
from hub.launch.templates import INPUT
from hub.system.atomic_file import alone_in, backed_up, created, opened


class FileChange(Struct, frozen=True):
    """A change of one file. `before` is None if there is no file, `after` if there will be none.

    `known` is what is recorded of the file now, `made` what will be.
    """

    file: ClientFile
    path: Path
    before: str | None
    after: str | None
    known: Installation | None
    made: Installation | None

    def diff(self) -> list[str]:
        """Return the change as lines of a unified diff, without secrets."""
        return difference(self.file.path, self.before or "", self.after or "")


def read_client(file: ClientFile) -> str | None:
    """Return the text of a client's file, without a byte order mark; None if there is no file.

    Raises:
        StartError: no file can be there.
        ConfigError: it cannot be read, or not parsed.
    """
    try:
        if stat.S_ISDIR(file.path.stat().st_mode):
            raise StartError(f"{file.path}: is a directory", "Put a file there.")
    except (FileNotFoundError, NotADirectoryError):  # such as below a HOME of /dev/null
        return None
    except PermissionError:
        pass  # told when it is read
    except OSError as exc:
        raise StartError(f"{file.path}: {exc.strerror}", "Put a file there.") from None
    text = text_in(file.path, str(file.path))
    if text.strip() and not _is_only_comments(text, file):
        Document(str(file.path), text, file.form)
    return text


def _is_only_comments(text: str, file: ClientFile) -> bool:
    try:
        return not parsed(text, file.form)
    except ValueError:
        return False


def to_install(
    file: ClientFile,
    name: str,
    entry: Mapping[str, Any],
    record: InstallRecord,
    moved: Iterable[str] = (),
) -> FileChange | None:
    """Return the change that puts the hub's entry in; None if it is there already.

    Raises: StartError or ConfigError if that is not possible.
    """
    text, path = read_client(file), file.path.resolve()
    known = record.of(path)
    base = text or ""
    servers = section_of(parsed(base, file.form), file.section)
    moved = list(moved)
    if known is not None and known.name in servers:
        if known.name == name and servers[name] == entry and not moved:
            return None
        base = _without_known(file, base, known)
        servers = section_of(parsed(base, file.form), file.section)
        # What went behind the hub before stays there.
        moved += [one for one in known.moved if one in servers and one not in moved]
    if name in servers:
        if servers[name] == entry and not moved:
            return None
        raise _name_is_taken(file, name, servers[name])
    after, made = installed(base, file.form, file.section, name, dict(entry), moved)
    if known is not None:
        made = replace(made, is_new=known.is_new)
    return FileChange(
        file, path, text, after, known, replace(made, is_new=made.is_new or text is None)
    )


def _name_is_taken(file: ClientFile, name: str, there: object) -> StartError:
    whose, fix = "another server", "Choose another name: --name NAME."
    if is_hub(there):
        scope = ["--project"] if file.scope == "project" else []
        named = [] if name == NAME else ["--name", name]
        out = shlex.join(["roots-hub", "uninstall", file.client, *scope, *named])
        whose = "the hub, with other arguments,"
        fix = f"Take it out ({out}), or choose another name: --name NAME."
    where = f"{shown(file.path)}: {'.'.join((*file.section, name))}"
    return StartError(f"{where} is {whose} already", fix)


def to_uninstall(file: ClientFile, name: str, record: InstallRecord) -> FileChange | None:
    """Return the change that takes the hub's entry out; None if there is none.

    Raises: StartError or ConfigError if that is not possible.
    """
    text, path = read_client(file), file.path.resolve()
    known = record.of(path)
    if text is None:
        return None if known is None else FileChange(file, path, None, None, known, None)
    if known is None:
        if not is_hub(section_of(parsed(text, file.form), file.section).get(name)):
            return None
        after = without_entry(text, file.form, file.section, name)
        return FileChange(file, path, text, after, None, None)
    after = _without_known(file, text, known)
    is_as_made = known.is_new and digest(text) == known.after
    return FileChange(file, path, text, None if is_as_made else after, known, None)


def _without_known(file: ClientFile, text: str, known: Installation) -> str:
    try:
        return uninstalled(text, file.form, known)
    except EntryEditedError as exc:
        was = json.dumps(known.entry, indent=2, ensure_ascii=False)
        now = json.dumps(exc.found, indent=2, ensure_ascii=False)
        lines = "\n".join(difference(file.path, was, now)[2:])
        where = f"{shown(file.path)}: {'.'.join((*known.section, known.name))}"
        raise StartError(
            f"{where} was edited since it was installed, so it is left as it is\n{lines}".rstrip(),
            "Undo that in the file, or take the entry out by hand.",
        ) from None


def perform(change: FileChange, record: InstallRecord) -> Path | None:
    """Write a change and what is recorded of it; return the copy of the file from before, if any.

    Raises: StartError if writing fails, or the file is not as it was when the change was made.
    """
    if change.before is None:
        _make(change, record)
        return None
    with opened(change.path, change.before) as file:
        is_undone = change.made is None and change.known is not None
        is_exact = is_undone and digest(change.before) == change.known.after  # pyright: ignore[reportOptionalMemberAccess] - it is undone
        kept = None if is_exact else backed_up(file.path)
        made = change.made
        if made is not None:
            made = replace(made, backup=None if kept is None else str(kept))
        try:
            record.set(change.path, made)
            if change.after is None:
                file.path.unlink()
            else:
                file.replace(change.after)
        except BaseException:
            if kept is not None:
                kept.unlink(missing_ok=True)
            with suppress(StartError):
                record.set(change.path, change.known)
            raise
    if is_exact:
        _drop_copy(change)
    return kept


def _make(change: FileChange, record: InstallRecord) -> None:
    if change.after is None:  # the file is gone, and with it the entry
        record.set(change.path, None)
        return
    try:
        change.path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        fix = "Make the directory writable."
        raise StartError(f"{change.path.parent}: {exc.strerror}", fix) from exc
    with alone_in(change.path.parent):
        # What is recorded of a file that another process has made meanwhile is for that one.
        known = record.of(change.path)
        record.set(change.path, change.made)
        try:
            created(change.path, change.after, 0o600 if change.file.scope == "user" else None)
        except BaseException:
            with suppress(StartError):
                record.set(change.path, known)
            raise


def _drop_copy(change: FileChange) -> None:
    """Remove the copy that install made, now that the file is as it was before."""
    known = change.known
    if known is None or known.backup is None or change.after is None:
        return
    kept = Path(known.backup)
    try:
        if kept.read_bytes() == change.path.read_bytes():
            kept.unlink()
    except OSError:
        return  # the user has taken it away


class MovedServers(Struct, frozen=True):
    """The servers of one client's file that go behind the hub, and why others do not."""

    names: tuple[str, ...]
    added: tuple[CarriedServer, ...]
    kept: tuple[str, ...]


class HubConfigFile:
    """A hub.yaml that servers are added to; `text` is what it will be."""

    def __init__(self, path: Path, *, with_secrets: bool) -> None:
        """Read the file, if there is one."""
        self.path = path
        self.before = read_client(ClientFile("roots-hub", "file", path, ("servers",), "yaml"))
        self.text = self.before or ""
        self._with_secrets = with_secrets
        self._copy: Path | None = None

    @property
    def is_changed(self) -> bool:
        """Whether there is something to write."""
        return self.text != (self.before or "")

    def servers(self) -> dict[str, ParsedConfig]:
        """Return the servers that will be in it: without any, no hub starts."""
        named = section_of(parsed(self.text, "yaml"), ("servers",)).items()
        return {name: one for name, one in named if isinstance(one, dict)}

    @contextmanager
    def taking(self, file: ClientFile) -> Generator[MovedServers]:
        """Add the servers of a client's file, and yield which of them it can do without.

        If the file cannot be changed then, nothing is added.

        Raises: ConfigError if a text cannot be edited safely, or the client's file is broken.
        """
        before = self.text
        try:
            yield self._taken(file)
        except HubError:
            self.text = before
            raise

    def _taken(self, file: ClientFile) -> MovedServers:
        context = load_context()
        # Another file of the client may say which servers are turned off in this one.
        others = [one for one in client_files(file.client, user_place()) if one.path != file.path]
        discovery = discover([*others, file], context)
        for broken in discovery.broken:
            if broken.path == file.path:
                raise broken.error
        here = [one for one in discovery.servers if one.path == file.path]
        own = [one for one in here if one.entry.place[:-1] == file.section]
        there = self.servers()
        made = carried(own, context, with_secrets=self._with_secrets, there=there)
        stays = {one.name: _why_kept(one, context.environment) for one in made.servers}
        moved = [one for one in made.servers if not stays[one.name]]
        added = [one for one in moved if one.name not in there]
        self._add(added)
        kept = [f"{one.source.name}: {one.why}" for one in made.left if not one.source.entry.is_off]
        kept += filter(None, stays.values())
        rest = carried([one for one in discovery.servers if one not in own], context)
        kept += [_elsewhere(source, file) for one in rest.servers for source in one.sources]
        names = [source.name for one in moved for source in one.sources]
        return MovedServers(tuple(names), tuple(added), tuple(kept))

    def _add(self, servers: list[CarriedServer]) -> None:
        if not servers:
            return
        if not self.text.strip():
            self.text = hub_yaml(self.path.name, servers)
            return
        for one in servers:
            self.text = with_entry(self.text, "yaml", ("servers",), one.name, dict(one.server))

    def write(self) -> None:
        """Write the file; a copy of the one from before is kept.

        Raises: StartError if that fails, or another program has changed the file.
        """
        if not self.is_changed:
            return
        mode = 0o600 if self._with_secrets else None
        if self.before is None:
            created(self.path, self.text, mode)
            return
        with opened(self.path, self.before) as file:
            self._copy = backed_up(file.path)
            file.replace(self.text, mode)

    def take_back(self) -> None:
        """Undo `write`, unless another program has changed the file since, or it fails."""
        if not self.is_changed:
            return
        with suppress(HubError, OSError), opened(self.path, self.text) as file:
            if self._copy is None:
                file.path.unlink()
            else:
                self._copy.replace(file.path)


def _why_kept(one: CarriedServer, environment: Mapping[str, str]) -> str:
    """Return why a server stays with its client; empty if it can go behind the hub."""
    name, needs = one.sources[0].name, one.needs
    secrets = [need for need in needs if need.value not in {None, environment.get(need.name)}]
    if secrets:
        told = ", ".join(need.name for need in secrets)
        return f"{name}: its secret is not copied; set {told} to it, or --with-secrets"
    told = ", ".join(
        need.name for need in needs if need.name.startswith(INPUT) and need.name not in environment
    )
    return f"{name}: its client asks for a value; set {told} for the hub" if told else ""


def _elsewhere(source: FoundServer, file: ClientFile) -> str:
    fix = "take it out by hand"
    if (source.client, source.scope) == ("claude-code", "local"):
        fix = f"`claude mcp remove --scope local {shlex.quote(source.name)}` takes it out"
    elif source.scope != file.scope:
        fix = f"run this {'with' if source.scope == 'project' else 'without'} --project"
    where = f"{shown(source.path)}: {spelled(source.entry.place)}"
    again = "or the client goes on starting it itself"
    return f"{source.name}: {where} is not changed by this; {fix}, {again}"
