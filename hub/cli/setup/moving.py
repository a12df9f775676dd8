"""`install --replace`: a client's own servers go behind the hub, into its hub.yaml."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct

from hub.cli.options import load_context
from hub.cli.setup.client_changes import read_client
from hub.cli.setup.importing import user_place
from hub.cli.setup.showing import shown
from hub.config.clients.locations import ClientFile, client_files
from hub.config.importing.carrying import CarriedServer, carried
from hub.config.importing.discovery import FoundServer, discover
from hub.config.importing.hub_yaml import hub_yaml, servers_in
from hub.config.installing.changes import parsed, with_entry
from hub.config.source.documents import ParsedConfig
from hub.config.source.places import spelled
from hub.errors import HubError, StartError
from hub.launch.templates import INPUT
from hub.system.atomic_file import backed_up, created, opened


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

    @property
    def has_servers(self) -> bool:
        """Whether there will be servers in it: without any, no hub starts."""
        return bool(self._servers())

    def _servers(self) -> dict[str, ParsedConfig]:
        return servers_in(parsed(self.text, "yaml")) if self.text.strip() else {}

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
        own = [one for one in here if one.place[:-1] == file.section]
        there = self._servers()
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
        with opened(self.path) as file:
            if file.text != self.before:
                what = f"{self.path}: not written: another program changed it in the meantime"
                raise StartError(what, "Nothing was changed. Run the command again.")
            self._copy = backed_up(file.path)
            file.replace(self.text, mode)

    def take_back(self) -> None:
        """Undo `write`, unless another program has changed the file since, or it fails."""
        if not self.is_changed:
            return
        with suppress(HubError, OSError), opened(self.path) as file:
            if file.text != self.text:
                return
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
    if source.scope not in {"local", file.scope}:
        fix = f"run this {'with' if source.scope == 'project' else 'without'} --project"
    where = f"{shown(source.path)}: {spelled(source.place)}"
    again = "or the client goes on starting it itself"
    return f"{source.name}: {where} is not changed by this; {fix}, {again}"
