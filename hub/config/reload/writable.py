"""Tell whether calls or children may write the config: does it lie in a folder granted to them?

Whoever may write a folder may also replace a link or a folder in it that leads to the config.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from msgspec import Struct

from hub.launch.plan import LaunchTemplate
from hub.launch.templates import TemplateError
from hub.paths.resolve import Entry, Flavour, LinkReader, PathError, is_inside, parts_of, resolve
from hub.roots.effective import OperatorRoots
from hub.specs import ServerSpec

UNKNOWN_PATH: Final = "the path of the file cannot be followed"


class WritablePlace(Struct, frozen=True):
    """A folder or file that calls or children may write; `what` says of which kind it is."""

    path: str
    what: str


def writable_places(
    servers: Iterable[ServerSpec],
    operator: OperatorRoots,
    granted: Iterable[str],
    environment: Mapping[str, str],
) -> Iterator[WritablePlace]:
    """Yield all places that calls or children may write; `granted` are the clients' roots.

    They are roots, the paths of `confine.write`, and the servers' own directories: those in a
    filesystem server's arguments, and a `cwd`.
    """
    for path in granted:
        yield WritablePlace(path, "a root of a client")
    for path in () if operator.fallback is None else operator.fallback.paths:
        yield WritablePlace(path, "a root of clients that share none")
    for spec in servers:
        for path in spec.confine.write:
            yield WritablePlace(path, f"a folder that server {spec.name!r} may write")
        for path in (*spec.directories, *_directory(spec.target, environment)):
            yield WritablePlace(path, f"a folder of server {spec.name!r}")


def _directory(target: object, environment: Mapping[str, str]) -> Iterator[str]:
    cwd = target.cwd if isinstance(target, LaunchTemplate) else None
    if cwd is None or cwd.mentions_roots:
        return
    try:
        yield cwd.fill(environment.get, ())
    except TemplateError:
        return  # such a server is not launched


class PathLookup(Struct, frozen=True):
    """Where paths lead on this machine; relative ones start at `directory`."""

    links: LinkReader
    flavour: Flavour
    directory: str

    def parts(self, path: str) -> tuple[str, ...] | None:
        """Return the components of a path with links followed; None if it cannot be followed."""
        try:
            return parts_of(self._resolved(path, self.links), self.flavour)
        except PathError:
            return None

    def way_to(self, path: str) -> tuple[tuple[str, ...], ...] | None:
        """Return the components of each link, folder and file on the way to a file.

        None if the path cannot be followed.
        """
        met = _MetOnTheWay(self.links)
        try:
            self._resolved(path, met)
            return tuple(parts_of(one, self.flavour) for one in met.paths)
        except PathError:
            return None

    def why_writable(self, config: str, places: Iterable[WritablePlace]) -> str | None:
        """Return why calls or children may write the file `config`, as a clause; else None.

        A file whose path cannot be followed for certain counts as writable.
        """
        way = self.way_to(config)
        if way is None:
            return UNKNOWN_PATH
        for place in places:
            # A folder may have become a link since it was granted.
            spellings = (self.parts(place.path), self._as_written(place.path))
            tops = [parts for parts in spellings if parts is not None]
            if any(is_inside(one, top) for one in way for top in tops):
                return f"the file lies in {place.what}: {place.path}"
        return None

    def _resolved(self, path: str, links: LinkReader) -> str:
        return resolve(path, cwd=self.directory, links=links, flavour=self.flavour)

    def _as_written(self, path: str) -> tuple[str, ...] | None:
        try:
            return parts_of(path, self.flavour)
        except PathError:
            return None


class _MetOnTheWay(LinkReader):
    """A disk that remembers what was asked for."""

    def __init__(self, links: LinkReader) -> None:
        self._links = links
        self.paths: dict[str, None] = {}

    def entry(self, path: str) -> Entry | None:
        self.paths[path] = None
        return self._links.entry(path)

    def target(self, path: str) -> str:
        return self._links.target(path)
