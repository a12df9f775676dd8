"""What everybody calls tools with, and no guard may refuse."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import NamedTuple

from hypothesis import strategies as st

from hub.values import JsonObject
from tests.oracle.keys import KEYS, ArgumentKey, ProcessTree
from tests.oracle.trees import INSIDE, TREES, PlantedWorld, Tree

NEW = ("project/new.txt", "project/out/new dir/x.md", "docs/new/über.md", "project/.config/new")
PLACES = (*INSIDE, *NEW, "project", "project/src", "docs")
TEXTS = (
    *("fix the login page", "and/or", "50% off", "3/4", "it's 5 o'clock: go!", "a -> b", "C++"),
    *("see notes.txt for more", "jane@example.com", "2026/11/22", "# Title\n\ntext", "yes", "-1"),
    *("e.g. one, two; three", "SELECT 1", "user.name", "v1.2.3", "main", "image/png", "x = 5"),
    *("Größe: 5 µm", "日本語のテキスト", "a|b", "[x] ready", "{name}", 'I said "no"', "..."),
)
URLS = (
    *("https://example.com", "https://example.com/a/b.html?q=/etc/x#top", "http://localhost:80/x"),
    *("https://example.com/%7Ejane/a%20b", "data:text/plain,hi", "mailto:jane@example.com"),
    *("git@example.com:jane/x.git", "wss://example.com/socket"),
)
FAMILIES: tuple[ProcessTree, ...] = (
    *("path", "weak", "neutral", "file key", "key", "glob", "args", "command"),
)
_KEYS = {family: [key for key in KEYS if key.family == family] for family in (*FAMILIES, "payload")}
NUMBERS: tuple[JsonObject, ...] = (
    {"limit": 10, "offset": 0},
    {"path": "notes.txt", "line": 3, "max_files": 5},
    {"value": 0.5, "source": 7},
    {"items": [1, 2, 3], "deep": True, "nothing": None},
)


class Ordinary(NamedTuple):
    """A value, and the key that it goes under."""

    tree: Tree
    key: ArgumentKey
    place: str
    form: int

    def arguments(self, world: PlantedWorld) -> JsonObject:
        """Return a call with it, in a tree that was planted."""
        value = self.place
        if self.form >= 0:
            path = Path(world.top, self.place)
            is_near = self.place.startswith("project/")
            forms = [str(path), path.as_uri(), f"{path}/" if path.is_dir() else str(path)]
            if is_near:
                near = self.place.removeprefix("project/")
                forms += [near, f"./{near}", f"src/../{near}"]
            value = forms[self.form % len(forms)]
            if self.key.family == "command":
                value = shlex.quote(value)
        return self.key.put(value)


def _under(*families: ProcessTree) -> st.SearchStrategy[ArgumentKey]:
    return st.sampled_from([key for family in families for key in _KEYS[family]])


PATHS = st.builds(Ordinary, TREES, _under(*FAMILIES), st.sampled_from(PLACES), st.integers(0, 5))
OTHERS = st.builds(
    Ordinary,
    TREES,
    _under("neutral", "key", "payload"),
    st.sampled_from((*TEXTS, *URLS)),
    st.just(-1),
) | st.builds(Ordinary, TREES, _under("weak", "args"), st.sampled_from(URLS), st.just(-1))
ORDINARY: st.SearchStrategy[Ordinary] = PATHS | OTHERS
