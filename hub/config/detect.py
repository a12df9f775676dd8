"""Finds projects: the nearest one around a directory, or all of them below one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

MARKERS = (".git", "package.json", "Cargo.toml", "pyproject.toml", "pom.xml", "build.gradle")
WORKSPACE = ".code-workspace"
MAX_DEPTH = 4
"""Levels below the start that are searched."""
_SKIPPED = frozenset({"node_modules", ".venv", "venv", "target", "build", "dist", "__pycache__"})


class Project(Struct, frozen=True):
    """A project's directory, its name, and the file or directory that shows it is one."""

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
    """Return the innermost project that `directory` is in; home and what is above it are none."""
    home = Path.home()
    for place in (directory, *directory.parents):
        if place == home or place in home.parents:
            return None
        if _marker(place) is not None:
            return place
    return None


def projects_below(directory: Path, *, depth: int = MAX_DEPTH) -> Iterator[Project]:
    """Yield the projects at and below `directory`; what lies inside of a project is part of it."""
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
