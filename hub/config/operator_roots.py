"""The operator's roots: from `--root`, `HUB_ROOTS`, the config, or a detected project."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import structlog
from msgspec import Struct

from hub.config.models import Roots
from hub.errors import RootError, StartError
from hub.guard.own_files import OwnFiles
from hub.paths.file_uris import path_meant, uri_from_path
from hub.paths.resolve import Flavour, LinkReader, resolve
from hub.roots.effective import OperatorRoots, Source
from hub.roots.roots import (
    EMPTY,
    INACCESSIBLE,
    UNSAFE,
    Rejected,
    Root,
    RootSet,
    UnsafePaths,
    root_from_path,
    root_set,
)

MARKERS = (".git", "package.json", "Cargo.toml", "pyproject.toml", "pom.xml", "build.gradle")
WORKSPACE = ".code-workspace"
MAX_DEPTH = 4
"""How many levels of directories below the start are searched."""
_SKIPPED = frozenset({"node_modules", ".venv", "venv", "target", "build", "dist", "__pycache__"})


class Project(Struct, frozen=True):
    """A project: its directory, its name, and the file name that marks it as a project."""

    path: Path
    name: str
    marker: str


def _marker(directory: Path) -> str | None:
    try:
        names = set(os.listdir(directory))  # noqa: PTH208 - names, not paths
    except OSError:
        return None
    found = next((name for name in MARKERS if name in names), None)
    return found or next((name for name in sorted(names) if name.endswith(WORKSPACE)), None)


def nearest_project(directory: Path) -> Path | None:
    """Return the innermost project around `directory`. Home and what is above never count."""
    home = Path.home()
    for place in (directory, *directory.parents):
        if place == home or place in home.parents:
            return None
        if _marker(place) is not None:
            return place
    return None


def projects_below(directory: Path, *, depth: int = MAX_DEPTH) -> Iterator[Project]:
    """Yield the projects at and below `directory`. Projects inside a project are not searched."""
    marker = _marker(directory)
    if marker is not None:
        workspace = marker.endswith(WORKSPACE)
        yield Project(
            directory, marker.removesuffix(WORKSPACE) if workspace else directory.name, marker
        )
        return
    if depth == 0:
        return
    try:
        below = sorted(
            entry.name for entry in os.scandir(directory) if entry.is_dir(follow_symlinks=False)
        )
    except OSError:
        return
    for name in below:
        if name not in _SKIPPED and not name.startswith("."):
            yield from projects_below(directory / name, depth=depth - 1)


log = structlog.stdlib.get_logger(__name__)


class PathContext(Struct, frozen=True):
    """The parts of this machine that parsing a root needs; `own` are the hub's own files.

    `is_shared`: other clients, with environments of their own, are served by the same hub.
    """

    links: LinkReader
    flavour: Flavour
    unsafe: UnsafePaths | None
    directory: str
    environment: Mapping[str, str]
    own: OwnFiles | None = None
    is_shared: bool = False

    def resolved(self, path: str) -> str:
        """Return a path with links followed. A relative path starts at the working directory.

        Raises: PathError if it cannot be followed.
        """
        return resolve(path, cwd=self.directory, links=self.links, flavour=self.flavour)

    def full(self, path: str) -> str:
        """Return a path as an absolute one, with its links as they are."""
        return os.path.join(self.directory, os.path.expanduser(path))  # noqa: PTH111, PTH118 - text that is parsed next

    def root(self, path: str, name: str | None = None) -> Root:
        """Return the root at `path`. A relative path starts at the working directory.

        Raises: RootError if it cannot be a root or may not be read.
        """
        if not path:
            raise RootError("an empty path names nothing")
        if path_meant(path) is not None:
            raise RootError("it must be a path, not a URI")
        root = root_from_path(
            self.full(path), name=name, links=self.links, flavour=self.flavour, unsafe=self.unsafe
        )
        if not os.access(root.path, os.R_OK | (0 if root.is_file else os.X_OK)):
            raise RootError("Path is not accessible: it may not be read")
        return root

    def remedy(self, path: str, why: str) -> str:
        """Return what to do about a path that `root` refuses, and says `why`."""
        if not path:
            return "Take it out, or name a folder."
        if (meant := path_meant(path)) is not None:
            return f"Write {meant}."
        if why == UNSAFE:
            return (
                "Name a folder that is safe to share; `roots.allow_unsafe: true` allows all others."
            )
        if why == INACCESSIBLE and not os.path.exists(self.full(path)):  # noqa: PTH110 - never an error
            return "Make it, or name a folder that is there."
        return "Name a folder or file that you may read."


def operator_roots(
    roots: Roots, given: Sequence[str], place: PathContext, *, ceiling: Sequence[str] = ()
) -> OperatorRoots:
    """Return the fallback roots for clients without roots, and the ceiling of all roots.

    The first source with roots wins: `given` (the `--root` options), `HUB_ROOTS`, the config,
    detection. Roots of the config that do not exist are skipped.

    Raises: StartError if a root of `--root` or `HUB_ROOTS` does not exist or is not allowed.
    """
    rejected: list[Rejected] = []
    fallback, source = _fallback(roots, given, place, rejected)
    return OperatorRoots(
        fallback=fallback,
        fallback_source=source,
        rejected=tuple(rejected),
        ceiling=ceiling_of([*roots.ceiling, *ceiling], "roots.ceiling", place),
        when_missing=roots.when_missing,
        when_empty=roots.when_empty,
        strict=roots.strict,
    )


def ceiling_of(paths: Sequence[str], where: str, place: PathContext) -> RootSet | None:
    """Return the ceiling that the config's key `where` names; None if it names no path."""
    if not paths:
        return None
    return root_set(_present(((path, None) for path in paths), where, place, []))


def roots_in(environment: Mapping[str, str]) -> list[str]:
    """Return the paths in `HUB_ROOTS`."""
    return [path for path in environment.get("HUB_ROOTS", "").split(os.pathsep) if path]


def _fallback(
    roots: Roots, given: Sequence[str], place: PathContext, rejected: list[Rejected]
) -> tuple[RootSet | None, Source]:
    if given:
        return root_set(_required(given, "--root", place)), "--root"
    from_environment = roots_in(place.environment)
    if from_environment:
        return root_set(_required(from_environment, "HUB_ROOTS", place)), "HUB_ROOTS"
    if roots.fallback:
        named = ((entry.path, entry.name) for entry in roots.fallback)
        return root_set(_present(named, "roots.fallback", place, rejected)), "config"
    project = nearest_project(Path(place.directory)) if roots.detect else None
    if project is not None:
        found = _present([(str(project), None)], "roots.detect", place, rejected)
        return root_set(found), "detected"
    if "fallback" in roots.model_fields_set:
        return EMPTY, "config"  # an empty list in the config grants nothing
    return None, "none"


def _required(paths: Iterable[str], what: str, place: PathContext) -> Iterable[Root]:
    for path in paths:
        try:
            yield place.root(path)
        except RootError as exc:
            why, fix = str(exc), place.remedy(path, str(exc))
            if why == INACCESSIBLE and not os.path.exists(full := place.full(path)):  # noqa: PTH110 - never an error
                why = f"there is no {os.path.realpath(full) if os.path.islink(full) else full}"  # noqa: PTH114 - as above
            if what == "HUB_ROOTS":
                fix += f" HUB_ROOTS has `{os.pathsep}` between its folders."
            raise StartError(f"{what} {path}: {why}", fix) from exc


def _present(
    entries: Iterable[tuple[str, str | None]],
    what: str,
    place: PathContext,
    rejected: list[Rejected],
) -> Iterable[Root]:
    """Yield the valid roots. Log each other entry and add it to `rejected`."""
    for path, name in entries:
        try:
            yield place.root(path, name)
        except RootError as exc:
            fix = place.remedy(path, str(exc))
            log.warning("root skipped", where=what, path=path, reason=str(exc), fix=fix)
            rejected.append(Rejected(uri_from_path(path, place.flavour), str(exc)))
