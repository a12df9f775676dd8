"""The operator's roots: from the command line, the environment, the config, or a project found."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import structlog
from msgspec import Struct

from hub.config.detect import nearest_project
from hub.config.models import Roots
from hub.errors import RootError, StartError
from hub.guard.own_files import OwnFiles
from hub.paths.file_uris import uri_from_path
from hub.paths.resolve import Flavour, LinkReader
from hub.roots.effective import OperatorRoots, Source
from hub.roots.roots import EMPTY, Rejected, Root, RootSet, UnsafePaths, root_from_path, root_set

log = structlog.stdlib.get_logger(__name__)


class Place(Struct, frozen=True):
    """The machine as far as roots are concerned."""

    links: LinkReader
    flavour: Flavour
    unsafe: UnsafePaths | None
    directory: str
    environment: Mapping[str, str]
    own: OwnFiles | None = None

    def root(self, path: str, name: str | None = None) -> Root:
        """Return the root at `path`, a relative one below the working directory.

        Raises: RootError.
        """
        full = os.path.join(self.directory, os.path.expanduser(path))  # noqa: PTH111, PTH118 - text that is parsed next
        root = root_from_path(
            full, name=name, links=self.links, flavour=self.flavour, unsafe=self.unsafe
        )
        if not os.access(root.path, os.R_OK | (0 if root.is_file else os.X_OK)):
            raise RootError("Path is not accessible: it may not be read")
        return root


def operator_roots(
    roots: Roots, given: Sequence[str], place: Place, *, ceiling: Sequence[str] = ()
) -> OperatorRoots:
    """Return what stands in for clients' roots, and their ceiling.

    `given` (the `--root` options) goes before `HUB_ROOTS`, that before the config, that before
    detection. What was said on the command line or in the environment must be there; of the config,
    what is not there is skipped.

    Raises: StartError.
    """
    rejected: list[Rejected] = []
    fallback, source = _fallback(roots, given, place, rejected)
    tops = [*roots.ceiling, *ceiling]
    return OperatorRoots(
        fallback=fallback,
        fallback_source=source,
        rejected=tuple(rejected),
        ceiling=root_set(_present(((path, None) for path in tops), "roots.ceiling", place, []))
        if tops
        else None,
        when_missing=roots.when_missing,
        when_empty=roots.when_empty,
        strict=roots.strict,
    )


def roots_in(environment: Mapping[str, str]) -> list[str]:
    """Return the paths that `HUB_ROOTS` names."""
    return [path for path in environment.get("HUB_ROOTS", "").split(os.pathsep) if path]


def _fallback(
    roots: Roots, given: Sequence[str], place: Place, rejected: list[Rejected]
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
        return EMPTY, "config"  # an empty list that somebody wrote grants nothing
    return None, "none"


def _required(paths: Iterable[str], what: str, place: Place) -> Iterable[Root]:
    for path in paths:
        try:
            yield place.root(path)
        except RootError as exc:
            raise StartError(
                f"{what} {path}: {exc}",
                "Give a directory (or file) that exists, that you may read, and that is safe to "
                "share.",
            ) from exc


def _present(
    entries: Iterable[tuple[str, str | None]], what: str, place: Place, rejected: list[Rejected]
) -> Iterable[Root]:
    """Yield the roots that there are; say what is none in the log, and add it to `rejected`."""
    for path, name in entries:
        try:
            yield place.root(path, name)
        except RootError as exc:
            log.warning("root skipped", where=what, path=path, reason=str(exc))
            rejected.append(Rejected(uri_from_path(path, place.flavour), str(exc)))
