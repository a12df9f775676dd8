"""Random trees: two shared directories with links of all kinds, and what lies beside them."""

from __future__ import annotations

import atexit
import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from functools import cache, cached_property
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import NamedTuple

from hypothesis import strategies as st

TOP = "/R"
"""Stands for the directory in which a tree is planted."""
INSIDE = (
    "project/notes.txt",
    "project/a b.txt",
    "project/100% sure.txt",
    "project/..a",
    "project/...",
    "project/.hidden",
    "project/-x",
    "project/src/a.py",
    "project/src/deep/b.txt",
    "project/évil/文件.txt",
    "project/[id]/page.tsx",
    "docs/b.md",
)
OUTSIDE = (
    "private/secret.txt",
    "private/key.pem",
    "private/deep/more.txt",
    "project2/x.txt",
    "home/.ssh/id_rsa",
)
MACHINE = ("/", "/etc", "/etc/passwd")
"""What lies outside of any tree."""
NAMES = (
    *("leak", "data", "l.txt", "x y", "évil-", "50%", "%2e%2e", "-o", ".l", "..b", "...."),
    *("~", "$HOME", "if", "done", "a,b", "k=v", "@l", "[l]", "{l}", "l;", "a:b", "l#1", "文"),
)
PLACES = ("project", "project/src", "docs")
TARGETS = {
    "file": f"{TOP}/private/secret.txt",
    "folder": f"{TOP}/private",
    "relative folder": "{up}private",
    "up": "{up}.",
    "crooked": "{up}project/src/../../private/secret.txt",
    "sibling": f"{TOP}/project2",
    "home": f"{TOP}/home",
    "chain": "",
    "loop": "",
    "here": ".",
    "inside": f"{TOP}/docs",
}
"""What links lead to; `{up}` climbs from where the link is to the top of the tree."""
BEYOND = {
    "file": ("", "/../key.pem"),
    "folder": ("/secret.txt", "", "/deep/../key.pem"),
    "relative folder": ("/secret.txt", "", "/../project2/x.txt"),
    "up": ("/private/secret.txt", ""),
    "crooked": ("", "/../key.pem"),
    "sibling": ("/x.txt", "/../private/secret.txt"),
    "home": ("/.ssh/id_rsa", "/../private/secret.txt"),
}
"""How a link of each kind is followed to what lies outside; `file/..` is for whoever resolves."""


class PlantedLink(NamedTuple):
    """One link: where it is, its name, and what it leads to."""

    place: str
    name: str
    kind: str


class Tree(NamedTuple):
    """A tree to be planted."""

    links: tuple[PlantedLink, ...] = ()

    def ways(self) -> list[str]:
        """Return ways to what lies outside, from `project` or with `/R` as the top."""
        found = ["../private/secret.txt", f"{TOP}/private/secret.txt", "..", f"{TOP}/project2"]
        found += ["/etc/passwd", "/", "~/.ssh/id_rsa", "src/../../private/key.pem"]
        before = None
        for link in self.links:
            ends = BEYOND.get(link.kind, ())
            if link.kind == "chain" and before is not None:
                ends = BEYOND[before.kind]
            elif ends:
                before = link
            for end in ends:
                beside = f"../docs/{link.name}" if link.place == "docs" else ""
                inside = f"{link.place}/{link.name}".removeprefix("project/")
                found += [f"{beside or inside}{end}", f"{TOP}/{link.place}/{link.name}{end}"]
        return found


def environment(top: str) -> dict[str, str]:
    """Return what the children in a tree have in their environment."""
    return {"HOME": f"{top}/home", "OUT": f"{top}/private"}


class PlantedWorld:
    """A planted tree, and what lies outside of its shared directories."""

    def __init__(self, top: str) -> None:
        self.top = top
        self.cwd = f"{top}/project"
        self.env = environment(top)
        self.roots = (self.cwd, f"{top}/docs")
        self.reached: dict[str, str | None] = {}

    @cached_property
    def outside(self) -> dict[tuple[int, int], str]:
        """Everything outside of the roots that nobody may reach, by device and inode."""
        found = [self.top, *MACHINE]
        for name in ("private", "project2", "home"):
            for folder, _, files in os.walk(f"{self.top}/{name}"):
                found += [folder, *(f"{folder}/{file}" for file in files)]
        known = ((Path(path).stat(), path) for path in found)
        return {(status.st_dev, status.st_ino): path for status, path in known}

    def leads_out(self, path: str) -> str | None:
        """Return what lies outside that the kernel finds at a path, if it does."""
        if path not in self.reached:
            try:
                status = os.stat(path)  # noqa: PTH116 - a Path would tidy it first
            except (OSError, ValueError):
                self.reached[path] = None
            else:
                self.reached[path] = self.outside.get((status.st_dev, status.st_ino))
        return self.reached[path]

    def is_inside(self, path: str) -> bool:
        """Return whether a path without links lies below a root."""
        return any(f"{path}/".startswith(f"{root}/") for root in self.roots)

    def shown(self, text: str) -> str:
        """Return a text with `/R` for the top, which has another name each time."""
        return text.replace(self.top, TOP)


@contextmanager
def planted(tree: Tree) -> Generator[PlantedWorld]:
    """Plant a tree; meanwhile the environment is that of a child in it."""
    top, before = _bare_tree(), dict(os.environ)
    links = list(_link(top, tree))
    os.environ.clear()
    os.environ.update(environment(str(top)), PATH=before.get("PATH", ""))
    try:
        yield PlantedWorld(str(top))
    finally:
        os.environ.clear()
        os.environ.update(before)
        for link in links:
            link.unlink()


@cache
def _bare_tree() -> Path:
    """Return a tree without links, planted once for the whole run: that takes longest."""
    top = Path(mkdtemp(prefix="oracle")).resolve()
    atexit.register(rmtree, top)
    for name in (*INSIDE, *OUTSIDE):
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(f"what is in {name}")
    return top


def _link(top: Path, tree: Tree) -> Iterator[Path]:
    """Yield each link that is made."""
    before = None
    for link in tree.links:
        path = top / link.place / link.name
        if path.is_symlink() or path.exists():
            continue
        target = TARGETS[link.kind].format(up="../" * len(Path(link.place).parts))
        if link.kind == "chain" and before is not None:
            target = str(before)
        elif link.kind in {"chain", "loop"}:
            target = link.name
        elif link.kind in BEYOND:
            before = path
        path.symlink_to(target.replace(TOP, str(top), 1) if target.startswith(TOP) else target)
        yield path


LINKS = st.builds(
    PlantedLink,
    st.sampled_from(PLACES),
    st.sampled_from(NAMES),
    st.sampled_from(sorted(TARGETS)),
)
TREES = st.builds(
    Tree, st.lists(LINKS, max_size=6, unique_by=lambda link: (link.place, link.name)).map(tuple)
)
