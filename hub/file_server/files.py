"""Read, write, list, search, move and delete files inside shared directories (`SharedFiles`).

Each path is checked before a file is opened. A tree that another process changes after the check
can lead outside. What an edit has changed is told as a unified diff, in a time that the size of the
texts bounds.
"""

import difflib
import os
import re
import secrets
import shutil
import stat
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from io import BufferedReader, StringIO
from itertools import islice, takewhile
from operator import eq
from pathlib import Path
from typing import Final

from msgspec import Struct

from hub.paths.resolve import Flavour, PathError, is_inside, parts_of, resolve
from hub.system.machine import OsDisk

MAX_READ = 16 * 1024 * 1024
MAX_FOUND = 1000
_LONGEST_PATTERNS = 16 * 1024

FLAVOUR = Flavour.of(sys.platform)
_LINKS = OsDisk()


class SharedFilesError(Exception):
    """An operation failed. The text names the path and says why."""


class Facts(Struct, frozen=True):
    """Metadata of a file or directory. `size` is in bytes."""

    path: str
    kind: str
    size: int
    modified: datetime
    permissions: str


class SharedFiles:
    """The files below `directories`, which are paths from `shared_directory`: absolute, no links.

    Relative paths start at the first directory. Every method raises SharedFilesError.
    """

    def __init__(
        self, directories: Sequence[str], *, max_read: int = MAX_READ, max_found: int = MAX_FOUND
    ) -> None:
        self.directories = tuple(directories)
        self.max_found = max_found
        self._max_read = max_read
        self._parts = [parts_of(directory, FLAVOUR) for directory in directories]
        self._cwd = next(iter(directories), None)

    def read(self, path: str) -> bytes:
        """Return the content of a file of at most `max_read` bytes."""
        with self._opened(path) as file:
            content = file.read(self._max_read + 1)
        if len(content) > self._max_read:
            raise SharedFilesError(
                f"'{path}' is larger than {self._max_read} bytes; read a part of it"
            )
        return content

    def read_lines(self, path: str, *, head: int | None = None, tail: int | None = None) -> bytes:
        """Return the first `head` or last `tail` lines of a file of any size.

        More than `max_read` bytes of lines are an error.
        """
        with self._opened(path) as file:
            if tail is not None:
                # A log may have gigabytes before its last lines.
                length = os.fstat(file.fileno()).st_size
                file.seek(max(0, length - self._max_read - 1))
            part = file.read(self._max_read + 1)
        lines = _first(part, head) if tail is None else _last(part, tail)
        if len(lines) > self._max_read:
            raise SharedFilesError(f"'{path}': these lines have over {self._max_read} bytes")
        return lines

    def write(self, path: str, content: bytes) -> None:
        """Create or replace a file atomically: a reader never sees a part of the content.

        A file that is shared alone is overwritten: another in its place would not be shared.
        """
        at = Path(self._inside(path))
        if path.endswith(("/", os.sep)):
            raise SharedFilesError(f"'{path}' names a directory; give the name of a file")
        _must_have_directory(at)
        with _explained(path):
            before = at.stat() if at.exists() else None
            if before is not None:
                _check_writable(path, at, before)
                if str(at) in self.directories:
                    _overwrite(at, content)
                    return
            draft = at.with_name(f".{secrets.token_hex(8)}.tmp")
            try:
                _write_new(draft, content, None if before is None else before.st_mode)
                draft.replace(at)
            finally:
                draft.unlink(missing_ok=True)

    def listing(self, path: str) -> list[tuple[str, str]]:
        """Return the kind and name of each entry of a directory, sorted by name."""
        with _explained(path), os.scandir(self._inside(path)) as entries:
            return sorted(((_kind(entry), entry.name) for entry in entries), key=lambda it: it[1])

    def search(
        self,
        path: str,
        pattern: str,
        exclude: Sequence[str],
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> list[str]:
        """Return the absolute paths below a directory that match, at most `max_found` + 1.

        `is_wanted` is asked at each directory whether to go on.
        """
        top = self._inside(path)
        if not Path(top).is_dir():
            raise SharedFilesError(f"'{path}' is not a directory")
        if sum(map(len, (pattern, *exclude))) > _LONGEST_PATTERNS:
            raise SharedFilesError(f"The patterns have over {_LONGEST_PATTERNS} characters")
        found = _search(top, [_pattern(pattern), *map(_pattern, exclude)], is_wanted)
        return list(islice(found, self.max_found + 1))

    def facts(self, path: str) -> Facts:
        """Return the metadata of a file or directory."""
        at = self._inside(path)
        with _explained(path):
            found = Path(at).stat()
        kind = "directory" if stat.S_ISDIR(found.st_mode) else "file"
        if kind == "file" and not stat.S_ISREG(found.st_mode):
            kind = "other"
        modified = datetime.fromtimestamp(found.st_mtime, UTC)
        return Facts(at, kind, found.st_size, modified, f"{stat.S_IMODE(found.st_mode):03o}")

    def create_directory(self, path: str) -> None:
        """Create a directory and its missing parents. An existing directory is no error."""
        at = Path(self._inside(path))
        with _explained(path):
            # Python's `parents=True` calls itself for each name; a path can have 2000.
            missing = list(takewhile(lambda one: not one.exists(), (at, *at.parents)))
            for one in reversed(missing or [at]):
                one.mkdir(exist_ok=True)

    def move(self, source: str, destination: str) -> None:
        """Move a file, directory or link to a path where nothing exists yet."""
        start, end = self._entry(source), self._entry(destination)
        if not os.path.lexists(start):
            raise SharedFilesError(f"'{source}' does not exist")
        if os.path.lexists(end):
            raise SharedFilesError(f"'{destination}' already exists")
        _must_have_directory(Path(end))
        with _explained(destination):
            shutil.move(start, end)

    def delete(self, path: str) -> None:
        """Remove a file, or a link but not its target."""
        at = self._entry(path)
        if Path(at).is_dir() and not Path(at).is_symlink():
            raise SharedFilesError(f"'{path}' is a directory")
        with _explained(path):
            Path(at).unlink()

    def _inside(self, path: str, *, above: str | None = None) -> str:
        try:
            at = resolve(above or path, cwd=self._cwd, links=_LINKS, flavour=FLAVOUR)
            parts = parts_of(at, FLAVOUR)
        except PathError as exc:
            raise SharedFilesError(f"Access denied: Path '{path}': {exc.reason}") from exc
        if not any(is_inside(parts, shared) for shared in self._parts):
            shared = ", ".join(self.directories) or "none"
            outside = f"Path '{path}' is outside the shared directories: {shared}"
            raise SharedFilesError(f"Access denied: {outside}")
        return at

    def _entry(self, path: str) -> str:
        """Return the path of the directory entry itself: links are followed except the last one."""
        above, name = os.path.split(path.rstrip("/" + os.sep))
        if name in {"", ".", ".."}:
            raise SharedFilesError(f"'{path}' does not end in a name")
        return str(Path(self._inside(path, above=above or "."), name))

    @contextmanager
    def _opened(self, path: str) -> Generator[BufferedReader]:
        at = self._inside(path)
        # Non-blocking: opening a named pipe would wait for a writer.
        flags = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0)
        with (
            _explained(path),
            open(at, "rb", opener=lambda name, mode: os.open(name, mode | flags)) as file,
        ):
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise SharedFilesError(f"'{path}' is not a regular file")
            yield file


def shared_directory(path: str) -> str:
    """Return an existing directory (or file) in the form for SharedFiles: absolute, no links.

    Raises: SharedFilesError if it does not exist or cannot be resolved.
    """
    with _explained(path):
        try:
            at = resolve(path, cwd=str(Path.cwd()), links=_LINKS, flavour=FLAVOUR)
        except PathError as exc:
            raise SharedFilesError(f"'{path}': {exc.reason}") from exc
        Path(at).stat()
    return at


@contextmanager
def _explained(path: str) -> Generator[None]:
    try:
        yield
    except FileNotFoundError as exc:
        raise SharedFilesError(f"'{path}' does not exist") from exc
    except OSError as exc:
        raise SharedFilesError(f"'{path}': {exc.strerror or exc}") from exc


def _first(part: bytes, count: int | None) -> bytes:
    end = 0
    for _ in range(count or 0):
        end = part.find(b"\n", end) + 1
        if not end:
            return part
    return part[:end]


def _last(part: bytes, count: int) -> bytes:
    start = len(part) - part.endswith(b"\n")
    for _ in range(count):
        start = part.rfind(b"\n", 0, start)
        if start < 0:
            return part
    return part[start + 1 :]


def _must_have_directory(at: Path) -> None:
    if not at.parent.is_dir():
        raise SharedFilesError(f"'{at.parent}' is not a directory; create it first")


def _check_writable(path: str, at: Path, before: os.stat_result) -> None:
    if not stat.S_ISREG(before.st_mode):
        raise SharedFilesError(f"'{path}' is not a regular file")
    # Replacing the file by a rename ignores its permissions.
    if not os.access(at, os.W_OK):
        raise SharedFilesError(f"'{path}' is read-only")


def _overwrite(at: Path, content: bytes) -> None:
    flags = getattr(os, "O_NOFOLLOW", 0)
    with open(at, "r+b", opener=lambda name, mode: os.open(name, mode | flags)) as file:
        file.write(content)
        file.truncate()


def _write_new(draft: Path, content: bytes, mode: int | None) -> None:
    with draft.open("xb") as file:
        if mode is not None:
            draft.chmod(stat.S_IMODE(mode))
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _kind(entry: "os.DirEntry[str]") -> str:
    if entry.is_symlink():
        return "LINK"
    return "DIR" if entry.is_dir() else "FILE"


def _search(
    top: str, patterns: Sequence[list[str]], is_wanted: Callable[[], bool]
) -> Iterator[str]:
    """Yield what is below `top` and matches the first of the patterns, and none of the others."""
    waiting = [(top, [_skipping({0}, pattern) for pattern in patterns])]
    while waiting and is_wanted():
        folder, states = waiting.pop()
        below: list[tuple[str, list[set[int]]]] = []
        for name, path, is_directory in _entries(folder):
            now = [_after(name, *each) for each in zip(states, patterns, strict=True)]
            matching, *left_out = (
                len(pattern) in each for each, pattern in zip(now, patterns, strict=True)
            )
            if any(left_out):
                continue
            if matching:
                yield path
            if is_directory and now[0]:
                below.append((path, now))
        waiting += reversed(below)


def _entries(folder: str) -> list[tuple[str, str, bool]]:
    """Return what is in a directory: name, path, is it a directory; nothing if it is unreadable."""
    try:
        with os.scandir(folder) as entries:
            return sorted(
                (one.name, one.path, one.is_dir(follow_symlinks=False)) for one in entries
            )
    except OSError:
        return []


def _pattern(text: str) -> list[str]:
    names = [name for name in text.split("/") if name not in {"", "."}]
    # `**/**` is `**`: each costs time at every file.
    parts = [
        one for one, before in zip(names, ["", *names], strict=False) if {one, before} != {"**"}
    ]
    return ["**", *parts] if len(parts) == 1 else parts


# How far a path matches is told by states: indexes of the pattern's parts that may come next.


def _after(name: str, states: set[int], pattern: Sequence[str]) -> set[int]:
    """Return the states after a further component of the path; `**` matches any number of them."""
    on = {at for at in states if at < len(pattern) and pattern[at] == "**"}
    on |= {at + 1 for at in states - on if at < len(pattern) and fnmatchcase(name, pattern[at])}
    return _skipping(on, pattern)


def _skipping(states: set[int], pattern: Sequence[str]) -> set[int]:
    # No two `**` follow each other.
    return states | {at + 1 for at in states if at < len(pattern) and pattern[at] == "**"}


_CONTEXT: Final = 3
"""Unchanged lines that are shown around each change."""
_MOST_COMPARED: Final = 10**9
"""Old lines times new lines that are compared: with more it can take hours."""
_HUNK: Final = re.compile(r"^@@ -(\d+)(\S*) \+(\d+)")
_NO_END: Final = "\n\\ No newline at end of file\n"


def unified_diff(path: str, before: str, after: str) -> str:
    """Return what has changed in a text; where that is too much, the lines from first to last."""
    old, new = StringIO(before).readlines(), StringIO(after).readlines()
    start = _count_same(old, new)
    if start == len(old) == len(new):
        return "Nothing changed"
    end = min(_count_same(reversed(old), reversed(new)), min(len(old), len(new)) - start)
    if (len(old) - start - end) * (len(new) - start - end) > _MOST_COMPARED:
        lines = f"lines {start + 1} to {len(old) - end}"
        return f"The changes in {path} are too far apart to be shown: {lines}"
    above = max(0, start - _CONTEXT)
    first = [_Unlike(line) for line in old[above:start]]
    last = [_Unlike(line) for line in old[len(old) - end :][:_CONTEXT]]
    # No further lines are compared: they are the same.
    was = [*first, *old[start : len(old) - end], *last]
    now = [*first, *new[start : len(new) - end], *last]
    shown = difflib.unified_diff(was, now, path, path, n=_CONTEXT)

    def moved(hunk: re.Match[str]) -> str:
        return f"@@ -{int(hunk[1]) + above}{hunk[2]} +{int(hunk[3]) + above}"

    lines = (_HUNK.sub(moved, line) for line in shown)
    return "".join(one if one.endswith("\n") else f"{one}{_NO_END}" for one in lines)


class _Unlike(str):
    """A line that equals no other one: `difflib` passes over lines that are there often."""

    __slots__ = ()
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other


def _count_same(one: Iterable[str], other: Iterable[str]) -> int:
    """Return how many lines are the same before the first that is not."""
    return sum(1 for _ in takewhile(bool, map(eq, one, other)))
