"""Follow one reading of a value on the disk, and check the result against roots and policy."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase

from msgspec import Struct

from hub.guard.budget import FULL_BUDGET, Meter, MeteredDisk, TooMuchError
from hub.guard.own_files import OWN, OwnFileRules
from hub.guard.policy import NoLinksBelow, Policy
from hub.paths.resolve import (
    CachedDisk,
    DeadEndError,
    Flavour,
    LinkReader,
    PathError,
    as_windows_reads,
    collapse,
    parts_of,
    resolve,
    split,
    walk,
)
from hub.roots.roots import Root, RootSet, entry_of

OUTSIDE = "outside the allowed roots boundaries"

DRIVE = re.compile(r"[A-Za-z]:[\\/]")
_WILD = re.compile(r"[*?\[]")
_NULL = "/dev/null"
"""Reading it gives nothing, and writing to it changes nothing."""
LEAST = 10  # the effort of following a path, without its disk queries
_TOO_DENIED = "it takes too long to match against the operator's deny patterns"
_LOOK = 5  # the effort of `exists`, without its disk query
_CHARACTERS = 8


class RootIndex(Struct, frozen=True):
    """Lookup tables of a set of roots: `shared` by path, `files` and `directories` by components.

    `bases` are the directories that a relative path may start in: the child's working directory,
    the roots, and `starts`, which are in the child's own arguments and need not be there. `depths`
    are the numbers of components that the root directories have.
    """

    bases: tuple[str, ...]
    starts: frozenset[str]
    shared: Mapping[str, Root]
    files: frozenset[tuple[str, ...]]
    directories: frozenset[tuple[str, ...]]
    depths: tuple[int, ...]

    @staticmethod
    def of(roots: RootSet, cwd: str | None, starts: Sequence[str] = ()) -> RootIndex:
        """Return the index of `roots`, of `cwd`, which the child runs in, and of `starts`."""
        folders = [root.path for root in roots.roots if not root.is_file]
        directories = frozenset(root.parts for root in roots.roots if not root.is_file)
        places = [cwd, *folders] if cwd else folders
        return RootIndex(
            bases=tuple(dict.fromkeys([*places, *starts])),
            starts=frozenset(starts).difference(places),
            shared={root.path: root for root in roots.roots},
            files=frozenset(root.parts for root in roots.roots if root.is_file),
            directories=directories,
            depths=tuple(sorted({len(parts) for parts in directories})),
        )


class CallContext(Struct, frozen=True):
    """What one call is judged against: the client's roots and the child's directory and machine.

    `enforcing` False: no roots apply to this client, only the operator's rules. `links` should
    cache its answers for one call, and no longer. `granted` are places outside the roots that the
    client's user allowed; no relative path starts there. `index` is the index of `roots` and `cwd`,
    given if many calls are judged in the same context. `no_roots` says why there are no roots.
    `starts` are further directories that the child reads a relative path from, if they are there;
    `near` those that it may read one from, if something of that name is there.
    """

    roots: RootSet
    cwd: str | None
    env: Mapping[str, str]
    links: LinkReader
    flavour: Flavour
    enforcing: bool = True
    granted: tuple[Root, ...] = ()
    index: RootIndex | None = None
    no_roots: str = ""
    starts: tuple[str, ...] = ()
    near: tuple[str, ...] = ()

    def indexed(self) -> RootIndex:
        """Return the index of the context, made anew if it was not given."""
        return self.index or RootIndex.of(self.roots, self.cwd, self.starts)


class ReadingResult(Struct, frozen=True):
    """One reading of a value: the path, how it was read, the resolved path, and the objection.

    `leads_to` None: the path was not followed, or could not be. `objection` None: no objection.
    """

    reading: str
    how: str
    leads_to: str | None
    objection: str | None


class PathTracer:
    """Follows the paths of one call. Do not keep it for another call: the disk may change.

    `most` is the effort it may spend, `reach` the rules for the hub's own files. `beside` says
    where a value may start as well, if its first name is there; `around` where no command says so.
    """

    def __init__(  # noqa: PLR0913 - all that one call is traced by
        self,
        context: CallContext,
        policy: Policy,
        *,
        needs_write: bool,
        most: int = FULL_BUDGET.effort,
        reach: OwnFileRules | None = None,
        moves_folders: bool = False,
    ) -> None:
        self._context, self._policy = context, policy
        self._needs_write, self._moves_folders, self._reach = needs_write, moves_folders, reach
        self._flavour = context.flavour
        self._posix = context.flavour is not Flavour.WINDOWS
        self._separator = "/" if self._posix else "\\"
        index, links = context.indexed(), context.links
        if policy.symlinks == "deny":
            shared = RootSet((*context.roots.roots, *context.granted))
            links = NoLinksBelow(links, shared, context.flavour)
        self.known = links.walked if isinstance(links, CachedDisk) else dict[str, str]()
        self.effort = Meter(most)
        self._links = MeteredDisk(links, self.effort)
        self.can_write = self._links.can_write
        self.bases = index.bases
        if index.starts:
            missing = {one for one in index.starts if not self._can_be_folder(one)}
            self.bases = tuple(one for one in index.bases if one not in missing)
        self._shared = index.shared
        self._files, self._directories, self._depths = index.files, index.directories, index.depths
        self.beside: Callable[[], Sequence[str]] = tuple
        self.around: Callable[[], Sequence[str]] = tuple

    @property
    def cwd(self) -> str | None:
        """The directory that the child runs in, or None if it is not known."""
        return self._context.cwd

    def is_absolute(self, text: str) -> bool:
        """Return whether `text` is an absolute path."""
        try:
            return bool(split(text, self._flavour)[0])
        except PathError:
            return False

    def _can_be_folder(self, path: str) -> bool:
        try:
            entry = self._links.entry(path)
        except PathError:
            return True
        return entry is not None and entry.kind != "file"

    def objection(self, plain: str) -> str | None:
        """Return the objection to a plain absolute POSIX path, or None."""
        try:
            self.effort.spend(LEAST)
            return self._objection_to(self._directory(plain))
        except PathError as exc:
            return self._doubt(plain, exc)

    def is_top(self, name: str) -> bool:
        """Return whether an entry `name` is, or may be, in the file system's top directory."""
        if self._posix:
            return self.exists(f"/{name}")
        drives = {base[:2] for base in self.bases} or {"C:"}
        return any(self.exists(f"{drive}\\{name}") for drive in drives)

    def matching(self, wildcard: str, folder: str = "/") -> list[str]:
        """Return the names in a directory that match a wildcard; `*` matches no hidden ones."""
        found = (one for one in self._links.names(folder) if one[0] != "." or wildcard[0] != "*")
        return [name for name in found if fnmatchcase(name, wildcard)]

    def found_by_shell(self, pattern: str) -> Iterator[str]:
        """Yield what a shell finds for a pattern with wildcards, if it may not be reached."""
        names = [name for name in pattern.split("/") if name not in {"", "."}]
        names += [""] if pattern[-1:] == "/" else []
        wild = next((n for n, name in enumerate(names) if _WILD.search(name)), len(names))
        behind = names[wild:]
        bases = ("",) if pattern[:1] == "/" else (*self.bases, *self.beside())
        for base in bases if behind and ".." not in behind else ():
            start = "/".join((base, *names[:wild]))
            folder = self._folder_at(start or "/", None) or start
            if self.exists(folder):
                yield from self._met(folder.rstrip("/"), behind)

    def _met(self, folder: str, names: Sequence[str]) -> Iterator[str]:
        """Yield what `names`, wildcards or not, meet in a directory or beside a root below it."""
        name, rest = names[0], names[1:]
        for one in self.matching(name, folder or "/") if _WILD.search(name) else (name,):
            path = f"{folder}/{one}"
            self.effort.spend(_LOOK)
            entry = self._links.entry(path)
            inner = self._folder_at(path, None) if entry and rest else None
            shut = not self.is_open(inner) if inner else not rest and self._objection_to(path)
            if entry and (shut or (entry.kind == "link" and (inner or not rest))):
                yield "/".join((path, *rest))
            if inner and not shut:
                yield from self._met(inner, rest)

    def has(self, name: str) -> bool:
        """Return whether an entry `name` is, or may be, where a relative path can start."""
        return any(self.exists(f"{base}{self._separator}{name}") for base in self.bases)

    def exists(self, path: str) -> bool:
        """Return whether something is, or may be, at `path`."""
        try:
            self.effort.spend(_LOOK)
            return self._links.entry(path) is not None
        except DeadEndError:
            return False
        except TooMuchError:
            raise
        except PathError:
            return True

    def folders_at(self, text: str, starts: Sequence[str] | None = None) -> list[str]:
        """Return the directories that `text` names from where a relative path may start.

        `starts` replaces these places.
        """
        places = self.bases if starts is None else starts
        bases = (None,) if self.is_absolute(text) else places
        return [one for base in bases if (one := self._folder_at(text, base)) is not None]

    def is_open(self, folder: str) -> bool:
        """Return whether a directory is where paths are allowed."""
        return self._is_allowed(parts_of(folder, self._flavour))

    def _folder_at(self, text: str, base: str | None) -> str | None:
        try:
            self.effort.spend(LEAST)
            if base is not None and not self._is_near(text, base):
                return None
            found = resolve(text, cwd=base, links=self._links, flavour=self._flavour)
            entry = self._links.entry(f"{found}/.")  # one that nobody may enter is none
        except TooMuchError:
            raise
        except PathError:
            return None
        return found if entry is not None and entry.kind == "directory" else None

    def follow(self, text: str, how: str, *, strict: bool) -> Iterator[ReadingResult]:
        """Yield the result of a reading; a relative one from each directory that it can start in.

        `strict` is for values that are paths whatever they look like.

        Raises:
            PathError: the path cannot be read or compared for certain.
        """
        if not self._posix and not strict and not (text := as_windows_reads(text)):
            return
        if self._posix and DRIVE.match(text):
            if strict and self._context.enforcing:
                yield ReadingResult(text, how, None, OUTSIDE)
        elif split(text, self._flavour)[0]:
            yield from self._resolve(text, how, None, strict=True)
        else:
            yield from self._follow_relative(text, how, strict=strict)

    def _follow_relative(self, text: str, how: str, *, strict: bool) -> Iterator[ReadingResult]:
        if not self.bases and self._context.enforcing and (strict or ".." in text):
            yield ReadingResult(text, how, None, OUTSIDE)
        for base in self.bases:
            if strict or self._is_near(text, base):
                own = strict and base == self._context.cwd
                yield from self._resolve(text, how, base, strict=own)
        for base in self.beside():
            if self._is_near(text, base):
                yield from self._resolve(text, f"{how}, in another argument's folder", base)
        for base in self._context.near:
            if self._is_in(text, base):
                yield from self._resolve(text, f"{how}, in a folder of the server's own", base)

    def _directory(self, path: str) -> str:
        """Return a plain POSIX path with links followed; caches each directory for the call."""
        known = self.known.get(path)
        if known is None:
            root = self._shared.get(path)
            if root is not None and self._links.entry(path) == entry_of(root):
                known = path  # the same directory that was resolved when it was shared
            else:
                above, _, name = path.rpartition("/")
                directory = self._directory(above) if above else "/"
                known = walk("/", [name], self._links, self._flavour, at=directory)
            self.known[path] = known
        return known

    def _is_near(self, text: str, base: str) -> bool:
        """Return whether a relative value can be more than a new name below `base`."""
        if ".." in text or not self._posix:
            return True
        return self.exists(f"{base}/{text.partition('/')[0]}")

    def _is_in(self, text: str, folder: str) -> bool:
        """Return whether a relative value leads to something from `folder`, not to itself."""
        names = split(text, self._flavour)[1]
        climbed = collapse(text, cwd=folder, flavour=self._flavour)
        return bool(names) and self.exists(climbed or f"{folder}{self._separator}{names[0]}")

    def _resolve(
        self, text: str, how: str, base: str | None, *, strict: bool = False
    ) -> Iterator[ReadingResult]:
        """Yield the result as the kernel resolves `text`, and with each `..` removed as text."""
        self.effort.spend(LEAST + len(text) // _CHARACTERS)
        lexical = collapse(text, cwd=base, flavour=self._flavour)
        spelled = lexical or (text if base is None else f"{base}/{text}")
        for path in (text,) if lexical is None else (text, lexical):
            self._links.last = ""
            try:
                found = resolve(path, cwd=base, links=self._links, flavour=self._flavour)
            except PathError as exc:
                ends = isinstance(exc, DeadEndError) and not strict
                if ends and lexical is not None and path is not lexical:
                    # The kernel cannot open it. A child that removes `..` itself still may.
                    yield self._resolve_leniently(text, base)
                    continue
                doubt = self._doubt(spelled, exc)
                # Below a file inside nothing can be opened: `x/y` may name something else.
                is_nothing = ends and lexical is None and doubt != OUTSIDE
                yield ReadingResult(path, how, None, None if is_nothing else doubt)
                return
            met = how if path is text else f"{how}, '..' removed first"
            yield ReadingResult(path, met, found, self._objection_to(found))
        if self._policy.deny.lines:
            yield ReadingResult(text, how, spelled, self._denial(spelled))

    def _resolve_leniently(self, text: str, base: str | None) -> ReadingResult:
        found = resolve(text, cwd=base, links=self._links, flavour=self._flavour, is_lenient=True)
        how = "'..' removed where a link led"
        return ReadingResult(text, how, found, self._objection_to(found))

    def _doubt(self, spelled: str, doubt: PathError) -> str:
        """Return the objection to a path that cannot be followed; outside the roots no details."""
        if isinstance(doubt, TooMuchError) or not self._context.enforcing:
            return doubt.reason
        # A path that is spelled inside may have left through a link.
        places = (spelled, self._links.last or spelled)
        inside = all(self._root_depths(parts_of(place, self._flavour)) for place in places)
        return doubt.reason if inside else OUTSIDE

    def _objection_to(self, path: str) -> str | None:
        if path == _NULL and self._posix:
            return None
        parts = parts_of(path, self._flavour)
        policy, enforcing = self._policy, self._context.enforcing
        if not self._is_allowed(parts):
            return OUTSIDE
        if self._reach is not None and self._reach.has(path, parts, self._links):
            return OWN
        if enforcing and policy.unsafe is not None and policy.unsafe.refuses(parts):
            return "it is not safe for sharing"
        if self._needs_write and policy.access and policy.keeps(parts, whole=self._moves_folders):
            return "it is read-only"
        return self._denial(path) if policy.deny.lines else None

    def _root_depths(self, parts: tuple[str, ...]) -> list[int]:
        """Return, for each root that covers `parts`, how many components the root has."""
        starts = [depth for depth in self._depths if parts[:depth] in self._directories]
        return [*starts, len(parts)] if parts in self._files else starts

    def _is_allowed(self, parts: tuple[str, ...]) -> bool:
        """Return whether a place lies in a root, or the user or a lack of roots allows it."""
        within = not self._context.enforcing or bool(self._root_depths(parts))
        return within or any(place.covers(parts) for place in self._context.granted)

    def _denial(self, path: str) -> str | None:
        """Return the objection of the deny patterns, matched below each root that covers `path`.

        If no root does and the user granted a place, each directory above `path` counts as a root.
        Where no roots apply to the client, the top of the file system does.
        """
        parts = parts_of(path, self._flavour)
        folded = self._flavour is not Flavour.POSIX
        starts = self._root_depths(parts)
        if not starts and self._context.granted:
            starts = list(range(len(parts)))
        elif not starts and not self._context.enforcing:
            starts = [0]
        effort = len(starts) * (LEAST + self._policy.deny.effort(parts))
        self.effort.spend(effort, _TOO_DENIED if effort > FULL_BUDGET.effort else None)
        if any(self._policy.deny.refuses(parts[start:], folded=folded) for start in starts):
            return "it matches one of the operator's deny patterns"
        return None
