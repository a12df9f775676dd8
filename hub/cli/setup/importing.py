"""`roots-hub import`: bring the servers of MCP clients together in one hub.yaml."""

from __future__ import annotations

import json
import os
import shlex
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from hub.cli.options import Subparsers, load_context
from hub.cli.setup.showing import shown, table
from hub.cli.terminal import agrees, counted, is_terminal
from hub.config.carrying import Carried, CarriedServer, carried, hub_yaml
from hub.config.clients.locations import (
    CLIENTS,
    ClientFile,
    Discovery,
    FoundServer,
    UserPlace,
    client_files,
    discover,
)
from hub.config.own_files import FOUND
from hub.config.source.documents import form_of
from hub.errors import StartError, UsageError
from hub.legible import legible, on_one_line
from hub.specs import shown_url
from hub.system.atomic_file import backed_up, created, opened


def register(subparsers: Subparsers) -> None:
    """Add the subcommand `import`."""
    parser = subparsers.add_parser(
        "import",
        help="write a hub.yaml with the servers of your MCP clients",
        description="Find the servers in the configs of MCP clients, and write them into one "
        "hub.yaml. Clients' files are not changed. Secrets become variables.",
    )
    names = ", ".join(CLIENTS)
    parser.add_argument(
        "clients", metavar="CLIENT", nargs="*", help=f"only these clients (default: all): {names}"
    )
    parser.add_argument(
        "--from", dest="files", metavar="FILE", action="append", default=[],
        help="read this file of any client instead (repeatable)",
    )  # fmt: skip
    parser.add_argument(
        "--output", metavar="FILE", default="hub.yaml", help="what to write (default: hub.yaml)"
    )
    parser.add_argument("--force", action="store_true", help="replace FILE if it is there already")
    parser.add_argument(
        "--with-secrets", action="store_true", help="copy secrets, too (the file gets mode 0600)"
    )
    add_writing_options(parser)
    parser.set_defaults(perform=_import)


def add_writing_options(parser: ArgumentParser) -> None:
    """Add what all commands have that write files: `--yes`, `--dry-run`, `--json`."""
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument("--dry-run", action="store_true", help="show what would be written")
    parser.add_argument("--json", action="store_true", help="print JSON")


def user_place() -> UserPlace:
    """Return where this user's clients keep their configs."""
    return UserPlace(Path.home(), dict(os.environ), sys.platform, Path.cwd())


def known_clients(names: Sequence[str]) -> list[str]:
    """Return the names of clients as given. Raises: UsageError if there is no such client."""
    unknown = next((name for name in names if name not in CLIENTS), None)
    if unknown is not None:
        fix = f"Name one of {', '.join(CLIENTS)}."
        raise UsageError(f"{on_one_line(unknown)}: is no client that the hub knows", fix)
    return list(dict.fromkeys(names))


def found_files(clients: Iterable[str], files: Iterable[str] = ()) -> list[ClientFile]:
    """Return the files to read: those that were named, else all that the clients may have.

    Raises: StartError if a file that was named is not there.
    """
    named = [ClientFile("file", "file", Path(name), (), form_of(name)) for name in files]
    for one in named:
        if not one.path.is_file():
            why = "is a directory" if one.path.is_dir() else "no such file"
            raise StartError(f"--from {one.path}: {why}", "Name a client's config that exists.")
    if named:
        return named
    place = user_place()
    return [file for client in clients for file in client_files(client, place)]


def _import(options: Namespace) -> int:
    output = Path(options.output)
    context = load_context()
    files = found_files(known_clients(options.clients) or CLIENTS, options.files)
    if os.path.realpath(output) in {os.path.realpath(one.path) for one in files}:
        fix = f"Name another one: --output FILE. The hub reads this one itself: --config {output}"
        raise UsageError(f"--output {output}: is what --from names, too", fix)
    may_write(output, options)
    discovery = discover(files, context)
    made = carried(discovery.servers, context, with_secrets=options.with_secrets)
    if not options.json:
        for line in _report(discovery, made, with_secrets=options.with_secrets):
            print(line)
    if not made.servers:
        raise _nothing(discovery, options.files)
    text = hub_yaml(output.name, made.servers, made.left)
    is_written = written(output, text, options)
    if options.json:
        told = _as_json(discovery, made, output, is_written=is_written)
        print(json.dumps({**told, "text": text} if options.dry_run else told, indent=2))
    elif options.dry_run:
        print(legible(f"\nWould write {output}:\n\n{text}"), end="")
    elif is_written:
        print("", *news(output, counted(len(made.servers), "server")), sep="\n")
    return 0 if is_written or options.dry_run else 1


def news(output: Path, what: str, *more: str) -> Iterator[str]:
    """Yield what was written, and what to do next, as lines for people."""
    config = shlex.quote(str(output))
    yield on_one_line(f"Wrote {output}: {what}.")
    yield from more
    yield on_one_line(f"Next: roots-hub check --config {config} --connect")
    yield on_one_line(f"Then: roots-hub install CLIENT --config {config}")


def _nothing(discovery: Discovery, files: Sequence[str]) -> StartError:
    if discovery.servers or discovery.broken:
        fix = "See above why. Correct the files, or name another one: --from FILE."
        return StartError("no server that was found can be used", fix)
    if files:
        fix = "Name a client's config. The hub reads a hub.yaml as it is: --config FILE."
        return StartError(f"{', '.join(files)}: no MCP servers were found in it", fix)
    fix = (
        f"Looked for {', '.join(CLIENTS)}. Name a file: --from FILE, or begin with roots-hub init."
    )
    return StartError("no MCP servers were found in the configs of clients", fix)


def may_write(path: Path, options: Namespace) -> None:
    """Check that a config may be written to `path`.

    Raises: UsageError if there is a file already, and nobody to ask; or no place for a file.
    """
    if not str(options.output).strip() or path.is_dir() or options.output[-1] == "/":
        what = f"--output {path}: is a directory" if options.output else "--output: is empty"
        raise UsageError(what, f"Name a file in it: --output {path / FOUND}")
    if not path.parent.is_dir():
        fix = "Make it, or name a file in another one: --output FILE."
        raise UsageError(f"--output {path}: {path.parent} is no directory", fix)
    if path.is_symlink() and not path.exists():
        raise UsageError(f"--output {path}: is a link to nothing", "Remove it, or name a file.")
    is_said = options.force or options.yes or options.dry_run
    if path.exists() and not is_said and not is_terminal():
        fix = "Say --force to replace it (a copy is kept), or name another file: --output FILE."
        raise UsageError(f"{path}: is there already, so nothing was written", fix)


def written(path: Path, text: str, options: Namespace) -> bool:
    """Write a config, and return whether that was done."""
    if options.dry_run:
        return False
    mode = 0o600 if options.with_secrets else None
    if not path.exists():
        created(path, text, mode)
        return True
    is_yes = options.force or options.yes
    if not agrees(f"{path} is there already. Replace it (a copy is kept)?", is_yes=is_yes):
        return False
    with opened(path) as file:
        kept = backed_up(file.path)
        file.replace(text, mode)
    if not options.json:
        print(on_one_line(f"The file from before is kept as {kept}."))
    return True


def _report(discovery: Discovery, made: Carried, *, with_secrets: bool) -> Iterator[str]:
    rows = _rows(made)
    if rows:
        yield from table(("client", "file", "server", "transport", "reached by", "status"), rows)
    for broken in discovery.broken:
        yield f"\n{broken.client}: {shown(broken.path)} cannot be read:"
        yield from (f"  {line}" for line in legible(str(broken.error)).splitlines())
    notes = [f"  {one.name}: {note}" for one in made.servers for note in one.notes]
    if notes:
        yield "\nNot carried over:"
        yield from map(on_one_line, notes)
    yield from variables(made.servers, discovery, with_secrets=with_secrets)


def variables(
    servers: Iterable[CarriedServer], discovery: Discovery, *, with_secrets: bool = False
) -> Iterator[str]:
    """Yield lines on the variables that must be set before the hub starts."""
    needs = [need for one in servers for need in one.needs]
    needs = [need for need in needs if need.value is not None or need.name not in os.environ]
    if not needs:
        return
    yield ""
    if any(need.value is not None for need in needs) and not with_secrets:
        yield "Secrets were not copied (--with-secrets does). Set these variables for the hub:"
    else:
        yield "Set these variables for the hub:"
    for need in needs:
        asked = discovery.inputs.get(need.name)
        about = asked.description if asked is not None else ""
        why = f"the value in {need.where}" if need.where else about or "as in the client's config"
        yield on_one_line(f"  export {need.name}=...  # {need.server}: {why}")


def _rows(made: Carried) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for one in made.servers:
        for at, source in enumerate(one.sources):
            scope = f"{shown(source.path)} ({source.scope})"
            status = f"as {one.name}" if at == 0 else f"the same as {one.name}"
            if at == 0 and one.needs:
                status += f"; needs {', '.join(dict.fromkeys(need.name for need in one.needs))}"
            rows.append((source.client, scope, source.name, *reached(one.server), status))
    for left in made.left:
        source = left.source
        scope = f"{shown(source.path)} ({source.scope})"
        status = f"left out: {left.why}"
        rows.append((source.client, scope, source.name, "-", "-", status))
    return rows


def reached(server: dict[str, Any]) -> tuple[str, str]:
    """Return a server's transport, and its command or the host of its URL, without secrets."""
    if "url" in server:
        try:
            host = urlsplit(shown_url(str(server["url"]))).netloc
        except ValueError:
            host = ""
        return str(server.get("transport", "auto")), host or "?"
    words = [str(server["command"]), *map(str, server.get("args", []))]
    return "stdio", shlex.join(words[:3]) + (" ..." if len(words) > 3 else "")  # noqa: PLR2004 - enough to know it by


def _where(one: FoundServer) -> dict[str, str]:
    return {"client": one.client, "file": str(one.path), "name": one.name}


def _as_json(
    discovery: Discovery, made: Carried, output: Path, *, is_written: bool
) -> dict[str, Any]:
    return {
        "output": str(output),
        "written": is_written,
        "servers": [
            {
                "name": one.name,
                "transport": reached(one.server)[0],
                "sources": [{**_where(each), "scope": each.scope} for each in one.sources],
                "variables": list(dict.fromkeys(need.name for need in one.needs)),
                "notCarriedOver": list(one.notes),
            }
            for one in made.servers
        ],
        "leftOut": [{**_where(left.source), "reason": left.why} for left in made.left],
        "broken": [
            {"client": one.client, "file": str(one.path), "error": one.error.faults[0].said}
            for one in discovery.broken
        ],
    }
