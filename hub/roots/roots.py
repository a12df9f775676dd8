"""Roots: parse and compare the directories (or single files) that a client or operator shares.

Before each guarded call, `RootPresence` tells which of them were deleted, moved or replaced.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum

from msgspec import Struct
from msgspec.structs import replace

from hub.errors import RootError
from hub.paths.file_uris import UriError, path_from_uri, uri_from_path
from hub.paths.resolve import Entry, Flavour, LinkReader, PathError, is_inside, parts_of, resolve
from hub.values import Json

MAX_ROOTS = 256
MAX_NAME = 256
"""Letters of a root's name that are kept: it is in the environment of children, which is small."""
MAX_URI = 16 * 1024
"""Characters of a root's URI, which its session keeps: the longest path of Linux takes fewer."""
INACCESSIBLE = "Path is not accessible"
"""How the reason begins why a root that is not there, or cannot be read, is rejected."""

UNSAFE = "Path is not safe for sharing"
"""The reason why a root is rejected that is on the list of unsafe places."""

_UNSAFE = {
    Flavour.POSIX: ("/etc", "/usr", "/bin", "/boot", "/proc", "/sys", "/dev", "/System"),
    Flavour.MACOS: ("/etc", "/usr", "/bin", "/boot", "/proc", "/sys", "/dev", "/System"),
    Flavour.WINDOWS: ("C:\\Windows",),
}
_UNSAFE_AT_HOME = (".ssh", ".aws", ".gnupg", ".kube")


class Root(Struct, frozen=True):
    """One shared directory or file: `uri` as announced, `path` with links followed at that time.

    `parts` are the components of `path` for comparison; `device` and `inode` identify the file.
    """

    uri: str
    path: str
    name: str
    is_file: bool
    parts: tuple[str, ...]
    device: int
    inode: int

    def covers(self, parts: tuple[str, ...]) -> bool:
        """Return whether `parts` is this root or, for a directory, below it."""
        return parts == self.parts if self.is_file else is_inside(parts, self.parts)


def entry_of(root: Root) -> Entry:
    """Return the entry at a root's path, as long as nobody has moved or replaced the root."""
    return Entry("file" if root.is_file else "directory", root.device, root.inode)


class Rejected(Struct, frozen=True):
    """An announced root that grants nothing, and a sentence with the reason."""

    uri: str
    reason: str


class RootSet(Struct, frozen=True):
    """Roots in the client's order, no two of them for the same place."""

    roots: tuple[Root, ...]

    @property
    def uris(self) -> tuple[str, ...]:
        return tuple(root.uri for root in self.roots)

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(root.path for root in self.roots)

    def covers(self, parts: tuple[str, ...]) -> Root | None:
        """Return the first root that is or contains `parts`, or None."""
        for root in self.roots:
            if root.covers(parts):
                return root
        return None

    def within(self, ceiling: RootSet) -> RootSet:
        """Return the roots that both sets grant: where a ceiling lies below a root, the ceiling."""
        return root_set(shared for root in self.roots for shared in _shared(root, ceiling))


EMPTY = RootSet(())


class Announcement(Struct, frozen=True):
    """A client's `roots/list` result, parsed: the usable roots and the rejected ones.

    `announced` are the usable roots and the unsafe ones, as they were found when they were
    announced: the config may come to allow other ones.
    """

    roots: RootSet
    rejected: tuple[Rejected, ...]
    announced: tuple[Root, ...] = ()


class UnsafePaths:
    """The built-in list of unsafe places: never a root, and not reached through a root above them.

    An entry includes all that lies below it, compared by component. Of the top directory of a file
    system (`/`, `C:`) only the directory itself is unsafe. `home` is the user's home directory with
    links followed. `own` are the hub's own directories. `lifted` removes all entries but these.
    """

    def __init__(
        self,
        home: str | None,
        flavour: Flavour,
        *,
        own: Iterable[tuple[str, ...]] = (),
        lifted: bool = False,
    ) -> None:
        separator = "\\" if flavour is Flavour.WINDOWS else "/"
        below_home = [f"{home}{separator}{name}" for name in _UNSAFE_AT_HOME] if home else []
        builtin = () if lifted else (*_UNSAFE[flavour], *below_home)
        # Paths with at most so many components are top directories; a drive is one component.
        self._tops = -1 if lifted else 1 if flavour is Flavour.WINDOWS else 0
        self._parts = frozenset((*(parts_of(path, flavour) for path in builtin), *own))
        self._lengths = frozenset(map(len, self._parts))

    def touches(self, parts: tuple[str, ...]) -> bool:
        """Return whether an entry of the list is `parts`, or lies above or below `parts`."""
        is_top = len(parts) <= self._tops
        return is_top or any(is_inside(parts, one) or is_inside(one, parts) for one in self._parts)

    def refuses(self, parts: tuple[str, ...]) -> bool:
        """Return whether `parts` is on the list or lies below an entry of the list."""
        if len(parts) <= self._tops:
            return True
        return any(parts[:length] in self._parts for length in self._lengths)


def root_set(roots: Iterable[Root]) -> RootSet:
    """Return `roots` in order, of several for the same place only the first."""
    by_place: dict[tuple[str, ...], Root] = {}
    for root in roots:
        by_place.setdefault(root.parts, root)
    return RootSet(tuple(by_place.values()))


def parse_announcement(
    result: Json, *, links: LinkReader, flavour: Flavour, unsafe: UnsafePaths | None
) -> Announcement | None:
    """Return the usable roots of a `roots/list` result, and the rejected ones with their reasons.

    At most `MAX_ROOTS` roots are used. None if the result is not a list of roots at all; then the
    previous roots stay in force.
    """
    announced = result.get("roots") if isinstance(result, dict) else None
    if not isinstance(announced, list):
        return None
    world = _World(links, flavour, None)
    found: list[Root] = []
    rejected: list[Rejected] = []
    for entry in announced[:MAX_ROOTS]:
        uri, name = _uri_and_name(entry)
        try:
            root = _root(_announced_path(uri, flavour), uri, name, world)
        except (UriError, RootError) as exc:
            rejected.append(Rejected(uri[:MAX_URI], str(exc)))
            continue
        found.append(root)
        if _is_unsafe(root, flavour, unsafe):
            rejected.append(Rejected(uri, UNSAFE))
    if len(announced) > MAX_ROOTS:
        uri, _ = _uri_and_name(announced[MAX_ROOTS])
        rejected.append(Rejected(uri[:MAX_URI], f"Only the first {MAX_ROOTS} roots are used"))
    announcement = Announcement(root_set(found), tuple(rejected), tuple(found))
    return sifted(announcement, flavour=flavour, unsafe=unsafe)


def sifted(
    announcement: Announcement, *, flavour: Flavour, unsafe: UnsafePaths | None
) -> Announcement:
    """Return an announcement with its roots sorted anew into safe and unsafe ones, by this list."""
    unsafe_roots = [one for one in announcement.announced if _is_unsafe(one, flavour, unsafe)]
    safe = root_set(one for one in announcement.announced if one not in unsafe_roots)
    refused = [Rejected(one.uri, UNSAFE) for one in unsafe_roots]
    still = [one for one in announcement.rejected if one.reason != UNSAFE or one in refused]
    rejected = (*still, *(one for one in refused if one not in still))
    if (safe, rejected) == (announcement.roots, announcement.rejected):
        return announcement  # the same object: what was judged by it still holds
    return replace(announcement, roots=safe, rejected=rejected)


def _is_unsafe(root: Root, flavour: Flavour, unsafe: UnsafePaths | None) -> bool:
    spellings = _spellings(_path_of(root, flavour), root.parts, flavour)
    return unsafe is not None and any(map(unsafe.refuses, spellings))


def _path_of(root: Root, flavour: Flavour) -> str:
    """Return a root's path as its client spelled it."""
    try:
        return path_from_uri(root.uri, flavour)
    except UriError:
        return root.path


def root_from_path(
    path: str, *, name: str | None, links: LinkReader, flavour: Flavour, unsafe: UnsafePaths | None
) -> Root:
    """Return the root for a path that the operator configured, with links followed.

    Its URI is made from the resolved path; so is its name, if `name` is None or empty.

    Raises:
        RootError: the path is relative, missing, unreadable or not safe for sharing.
    """
    root = _root(path, "", "", _World(links, flavour, unsafe))
    last = root.path.replace("\\", "/").rstrip("/").rpartition("/")[2]
    return replace(root, uri=uri_from_path(root.path, flavour), name=name or last)


def _announced_path(uri: str, flavour: Flavour) -> str:
    """Return the path in the URI of a root. Raises: UriError; RootError for a very long one."""
    if len(uri) > MAX_URI:
        raise RootError(f"Its URI has over {MAX_URI} characters")
    return path_from_uri(uri, flavour)


def _uri_and_name(entry: Json) -> tuple[str, str]:
    if not isinstance(entry, dict):
        return "", ""
    uri, name = entry.get("uri"), entry.get("name")
    return (uri if isinstance(uri, str) else ""), (name[:MAX_NAME] if isinstance(name, str) else "")


class _World(Struct, frozen=True):
    links: LinkReader
    flavour: Flavour
    unsafe: UnsafePaths | None


def _root(path: str, uri: str, name: str, world: _World) -> Root:
    try:
        canonical = resolve(path, cwd=None, links=world.links, flavour=world.flavour)
        found = world.links.entry(canonical)
    except PathError as exc:
        raise RootError(f"{INACCESSIBLE}: {exc.reason}") from exc
    if found is None or found.kind not in {"directory", "file"}:
        raise RootError(INACCESSIBLE)
    parts = parts_of(canonical, world.flavour)
    spellings = _spellings(path, parts, world.flavour)
    if world.unsafe is not None and any(map(world.unsafe.refuses, spellings)):
        raise RootError(UNSAFE)
    is_file = found.kind == "file"
    return Root(uri, canonical, name, is_file, parts, found.device, found.inode)


def _spellings(path: str, parts: tuple[str, ...], flavour: Flavour) -> Sequence[tuple[str, ...]]:
    try:
        return parts, parts_of(path, flavour)
    except PathError:
        return (parts,)


def _shared(root: Root, ceiling: RootSet) -> tuple[Root, ...]:
    if ceiling.covers(root.parts) is not None:
        return (root,)
    return tuple(limit for limit in ceiling.roots if root.covers(limit.parts))


class RootCondition(Enum):
    """Whether a root is in place; the value of the other members is the reason for the client."""

    PRESENT = "present"
    GONE = "Path is not accessible"
    REPLACED = "Path was replaced by another one since it was shared: share it anew"


class RootPresence(Struct, frozen=True):
    """Roots in the client's order, each with its condition; only `PRESENT` roots grant access.

    Other roots grant access again when the same directory (or file) is back at the same path, or
    when the client announces them anew, or the operator reloads the config. So no change on disk
    makes a root mean a different place.
    """

    roots: tuple[tuple[Root, RootCondition], ...]

    @staticmethod
    def of(roots: Iterable[Root]) -> RootPresence:
        """Return the presence of roots that were just parsed: all of them `PRESENT`."""
        return RootPresence(tuple((root, RootCondition.PRESENT) for root in roots))

    @property
    def present(self) -> RootSet:
        return RootSet(tuple(root for root, how in self.roots if how is RootCondition.PRESENT))

    @property
    def absent(self) -> tuple[Rejected, ...]:
        return tuple(
            Rejected(root.uri, how.value)
            for root, how in self.roots
            if how is not RootCondition.PRESENT
        )

    def is_unchanged(self, links: LinkReader, flavour: Flavour) -> bool:
        """Return whether each root that grants access is still the same file at the same path.

        One disk query per root, where `refresh` also asks for each directory above the root. If a
        root is not `PRESENT`, `refresh` is called: true if no condition changed.
        """
        if any(how is not RootCondition.PRESENT for _, how in self.roots):
            return self.refresh(links, flavour) is self
        try:
            return all(links.entry(root.path) == entry_of(root) for root, _ in self.roots)
        except PathError:
            return False

    def refresh(self, links: LinkReader, flavour: Flavour) -> RootPresence:
        """Look at all roots again; return this same object if no condition changed."""
        looked = tuple((root, _condition(root, links, flavour)) for root, _ in self.roots)
        return self if looked == self.roots else RootPresence(looked)


def _condition(root: Root, links: LinkReader, flavour: Flavour) -> RootCondition:
    try:
        has_moved = resolve(root.path, cwd=None, links=links, flavour=flavour) != root.path
        found = links.entry(root.path)
    except PathError:
        return RootCondition.GONE
    if found is None:
        return RootCondition.GONE
    is_same = not has_moved and found == entry_of(root)
    return RootCondition.PRESENT if is_same else RootCondition.REPLACED
