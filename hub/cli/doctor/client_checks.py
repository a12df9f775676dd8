"""What is wrong with the hub's entries in the configs of clients."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from hub.cli.doctor.findings import Finding
from hub.cli.setup.client_changes import read_client
from hub.cli.setup.importing import user_place
from hub.cli.setup.showing import shown
from hub.config.clients.entries import read_entry
from hub.config.clients.locations import CLIENTS, ClientFile, client_file
from hub.config.installing.changes import parsed, section_of
from hub.config.installing.own_entry import argv_of, is_hub
from hub.config.installing.record import InstallRecord
from hub.errors import ConfigError, HubError


class HubEntry(Struct, frozen=True):
    """An entry of the hub in a client's config: its command line, and the config it names."""

    file: ClientFile
    name: str
    argv: tuple[str, ...]
    config: Path | None


def client_findings(record: InstallRecord) -> tuple[list[HubEntry], list[Finding]]:
    """Return the hub's entries in clients' configs, and what is wrong with them."""
    place = user_place()
    entries: list[HubEntry] = []
    found: list[Finding] = []
    files = [client_file(name, scope, place) for name in CLIENTS for scope in ("user", "project")]
    for file in filter(None, files):
        try:
            text = read_client(file)
            servers = section_of(parsed(text or "", file.form), file.section)
        except HubError as error:
            found.append(_broken(file, error))
            continue
        own = [_entry(file, name, raw) for name, raw in servers.items() if is_hub(raw)]
        entries += own
        for one in own:
            found += _of_entry(one)
        known = record.of(file.path.resolve())
        if known is not None and known.name not in servers:
            what = f"{file.client}: {known.name} is gone from {shown(file.path)}"
            fix = f"roots-hub install {file.client}, or roots-hub uninstall {file.client}"
            found.append(Finding("clients", what, fix, "warning"))
    return entries, found


def _broken(file: ClientFile, error: HubError) -> Finding:
    first = error.faults[0] if isinstance(error, ConfigError) else None
    what, _, fix = str(error).partition("\n")
    if first is not None:
        what, fix = first.where, first.fix
    return Finding("clients", f"{file.client}: {what}", fix)


def _entry(file: ClientFile, name: str, raw: object) -> HubEntry:
    argv = argv_of(read_entry(raw).server)
    after = argv[argv.index("--config") + 1 :] if "--config" in argv else []
    return HubEntry(file, name, tuple(argv), Path(after[0]) if after else None)


def _of_entry(entry: HubEntry) -> Iterator[Finding]:
    client, program = entry.file.client, entry.argv[0]
    scope = " --project" if entry.file.scope == "project" else ""
    config = "" if entry.config is None else f" --config {shlex.quote(str(entry.config))}"
    again = f"roots-hub uninstall {client}{scope} && roots-hub install {client}{scope}"
    where = f"{client}: {shown(entry.file.path)}"
    if os.sep in program and not os.access(program, os.X_OK):
        yield Finding("clients", f"{where}: there is no program {program}", f"{again}{config}")
    elif os.sep not in program and shutil.which(program) is None:
        what = f"{where}: {program} is not on the PATH"
        yield Finding("clients", what, f"{again}{config}")
    if entry.config is not None and not entry.config.exists():
        what = f"{where}: its config {entry.config} is gone"
        yield Finding("clients", what, f"{again} --config FILE, with a config that is there")
