"""Plant small trees of files, directories and links below a temporary directory."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple


class Renamed(NamedTuple):
    """A file as it was right after it was renamed: mode and content."""

    mode: int
    content: bytes


@contextmanager
def asked_as_another_user() -> Generator[None]:
    """Let `os.access` answer for a user without rights to the tests' files, if they run as root.

    All else is done as root still: only the real user changes, and `os.access` asks for that one.
    """
    if os.geteuid() != 0:
        yield
        return
    os.setreuid(65534, 0)
    try:
        yield
    finally:
        os.setreuid(0, 0)


def plant(top: Path, *lines: str) -> Path:
    """Make each line: `dir/`, `file` or `link => target`; returns `top` with its links followed."""
    top = top.resolve()
    for line in lines:
        name, arrow, target = line.partition(" => ")
        path = top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if arrow:
            path.symlink_to(target)
        elif name.endswith("/"):
            path.mkdir(exist_ok=True)
        else:
            path.write_text("x")
    return top


def grow(top: Path, nodes: list[tuple[list[str], list[str] | None]]) -> None:
    """Make each node where there is room: a directory, or a link to what its steps lead to.

    Never through a link: what it leads to may lie outside of `top`.
    """
    for names, steps in nodes:
        path = top.joinpath(*names)
        if path.is_symlink() or path.exists() or any(map(Path.is_symlink, path.parents)):
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        if steps is None:
            path.mkdir()
        else:
            path.symlink_to("/".join(steps) or ".")


PROJECT = (
    "project/a.txt",
    "project/README.md",
    "project/src/a.py",
    "project/src/deep/b.txt",
    "docs/b.md",
    "private/secret.txt",
    "project2/x.txt",
    "home/.ssh/id_rsa",
)
"""The tree that the guard's tests speak of: `project` and `docs` are shared, the others are not."""


def files_in(directory: Path) -> list[str]:
    """Return the names of all entries of a directory."""
    return sorted(path.name for path in directory.iterdir())


def instead_of(module: str, code: str, top: Path) -> dict[str, str]:
    """Plant a module in the place of one of the hub's; return the environment that has it found."""
    *packages, name = module.split(".")
    folder = top
    for package in packages:
        folder /= package
        folder.mkdir()
        (folder / "__init__.py").touch()
    (folder / f"{name}.py").write_text(code)
    return {**os.environ, "PYTHONPATH": str(top)}
