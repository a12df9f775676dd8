"""The last known catalogs of servers, on disk (`CatalogCache`); written by a thread, later.

The content of a file has a checksum; whatever else is there is refused.
"""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from functools import partial
from typing import Any, Final, NamedTuple

import anyio
import structlog
from msgspec import Struct, ValidationError, convert
from msgspec.structs import asdict

from hub.catalog.merge import KnownCatalog, Listing
from hub.children.slot import ChildKey
from hub.jsonrpc import exact_json
from hub.jsonrpc.exact_json import WireError
from hub.specs import ServerSpec
from hub.system.private_file import CacheFiles, UnfitEntryError
from hub.system.tasks import OwnThread

MAX_KEPT: Final = 512
"""How many catalogs are kept in memory."""
MAX_KEPT_BYTES: Final = 32 * 1024 * 1024
"""Bytes of their files that these may have together; so may those that wait for the disk."""
LAST_WRITES: Final = 2.0
"""Seconds that writing the rest may take: a disk that hangs must not keep the hub from ending."""
_FORMAT: Final = b"roots-hub catalog 1"

log = structlog.stdlib.get_logger(__name__)


def entry_name(spec: ServerSpec, key: ChildKey) -> str:
    """Return the name of the file for a child's catalog: equal for children that list the same.

    Neither roots nor values of variables can be read from it. Sessions share an entry.
    """
    plan = key.plan
    launch: list[object] | None = None if plan is None else [plan.argv, plan.env, plan.cwd]
    if launch is not None and plan is not None and plan.secrets:
        launch.append([(name, text.digested) for name, text in plan.secrets])
    roots = [[root.uri, root.path, root.name, root.is_file] for root in key.roots.roots]
    asks = key.asks.decode()
    return _named(
        ["child", spec.name, spec.catalog_id, launch, roots, key.principal, asks, key.unknown]
    )


def server_entry_name(spec: ServerSpec, principal: str) -> str:
    """Return the name of the file for a server's catalog that does not depend on roots."""
    return _named(["server", spec.name, spec.catalog_id, principal])


def _named(parts: list[object]) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


class _Lists(Struct, frozen=True):
    """A `Listing` as it is in a file. msgspec does not know `JsonObject`."""

    tools: tuple[dict[str, Any], ...]
    resources: tuple[dict[str, Any], ...]
    templates: tuple[dict[str, Any], ...]
    prompts: tuple[dict[str, Any], ...]


class _Entry(Struct, frozen=True):
    """A `KnownCatalog` as it is in the file `name`."""

    name: str
    listing: _Lists | None
    era: str
    version: str
    info: dict[str, Any]
    capabilities: dict[str, Any]
    instructions: str
    edition: str


def encoded_entry(name: str, known: KnownCatalog) -> bytes | None:
    """Return the content of the file `name`; None for a catalog that has no JSON form."""
    listing = known.listing
    lists = None if listing is None else {key: [*its] for key, its in asdict(listing).items()}
    try:
        body = exact_json.encode({**asdict(known), "name": name, "listing": lists})
    except WireError:
        return None
    return b"%b %b\n%b" % (_FORMAT, _checksum(body), body)


def decoded_entry(name: str, content: bytes) -> KnownCatalog:
    """Return the catalog in the content of the file `name`. Raises: UnfitEntryError."""
    head, _, body = content.partition(b"\n")
    if not head.startswith(_FORMAT + b" "):
        raise UnfitEntryError("it is not of this format")
    if head != b"%b %b" % (_FORMAT, _checksum(body)):
        raise UnfitEntryError("it is damaged")
    try:
        found = convert(exact_json.decode_strict(body), _Entry)
    except (WireError, ValidationError) as exc:
        raise UnfitEntryError(str(exc)) from None
    if found.name != name:
        raise UnfitEntryError("it is a copy of another file")
    listing = None if found.listing is None else Listing(**asdict(found.listing))
    said = asdict(found)
    del said["name"], said["listing"]
    return KnownCatalog(listing, **said)


def _checksum(body: bytes) -> bytes:
    return hashlib.sha256(body).hexdigest().encode()


class _Kept(NamedTuple):
    known: KnownCatalog | None
    content: bytes | None


class CatalogCache:
    """Known catalogs by the names of their files; a catalog that is kept can be found at once.

    What other processes write after a file was read is not noticed. `last_writes` is in seconds.
    """

    def __init__(self, files: CacheFiles, last_writes: float = LAST_WRITES) -> None:
        self._files = files
        self._last_writes = last_writes
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._size = 0
        self._unwritten: OrderedDict[str, bytes] = OrderedDict()
        self._wake = anyio.Event()
        self._written: OwnThread[None] | None = None

    def find(self, name: str) -> KnownCatalog | None:
        """Return the catalog of this name; None if there is none that can be used."""
        kept = self._kept.get(name)
        if kept is None:
            kept = self._read(name)
            self._hold(name, kept)
        else:
            self._kept.move_to_end(name)
        return kept.known

    def keep(self, name: str, known: KnownCatalog) -> None:
        """Keep a catalog from now on; it is written if it differs from the one that was kept."""
        content = encoded_entry(name, known)
        if content is None:
            return
        before = self._kept.get(name)
        if before is None:
            before = self._read(name)
        self._hold(name, _Kept(known, content))
        if before.content != content:
            self._unwritten[name] = content
            self._wake.set()
            waiting = self._unwritten
            while len(waiting) > MAX_KEPT or sum(map(len, waiting.values())) > MAX_KEPT_BYTES:
                waiting.popitem(last=False)

    async def write(self) -> None:
        """Write what is kept, as it comes; when this is cancelled, write the rest first."""
        try:
            while True:
                await self._wake.wait()
                self._wake = anyio.Event()
                await self._write_all()
        finally:
            with anyio.move_on_after(self._last_writes, shield=True) as last:
                await self._write_all()
            if last.cancelled_caught:
                log.warning("cache not written: its disk does not answer")

    async def _write_all(self) -> None:
        while self._unwritten or self._written is not None:
            if self._written is None:
                name, content = next(iter(self._unwritten.items()))
                write = partial(self._files.write, name, content)
                self._written = OwnThread(write, "cache", partial(self._wrote, name, content))
            await self._written.result()

    def _wrote(self, name: str, content: bytes) -> None:
        if self._unwritten.get(name) is content:
            del self._unwritten[name]
        self._written = None

    def _read(self, name: str) -> _Kept:
        try:
            content = self._files.read(name)
            if content is not None:
                return _Kept(decoded_entry(name, content), content)
        except UnfitEntryError as exc:
            self._files.ignored(name, str(exc))
        return _Kept(None, None)

    def _hold(self, name: str, kept: _Kept) -> None:
        self._size += len(kept.content or b"")
        before = self._kept.pop(name, None)
        self._kept[name] = kept
        while before is not None or len(self._kept) > MAX_KEPT or self._size > MAX_KEPT_BYTES:
            if before is None:
                _, before = self._kept.popitem(last=False)
            self._size -= len(before.content or b"")
            before = None
