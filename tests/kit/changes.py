"""Makes the changes that the hub's log and `explain` name, as an operator would by hand."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

_SHARE = re.compile(r"the client has to share (.*), or a folder around it")
_LINE = re.compile(r"(\S+): (add|set|remove) (.*)")


@dataclass
class Setup:
    """A config as written, the folders of `--root`, and what the client shares, if it does."""

    config: dict[str, Any]
    given: list[str] = field(default_factory=list[str])
    shared: list[str] | None = None

    def after(self, changes: Iterable[str]) -> Setup:
        """Return the setup after these changes."""
        made = copy.deepcopy(self)
        for change in changes:
            made.make(change)
        return made

    def make(self, change: str) -> None:
        """Make one change."""
        share = _SHARE.fullmatch(change)
        if share is not None:
            assert self.shared is not None, change
            self.shared.append(share[1])
            return
        line = _LINE.fullmatch(change)
        assert line is not None, change
        if line[1] in {"--root", "HUB_ROOTS"}:
            self.given.append(line[3])
            return
        *path, key = line[1].split(".")
        part = self.config
        for name in path:
            part = part.setdefault(name, {})
        value = json.loads(line[3])
        if line[2] == "set":
            part[key] = value
        elif line[2] == "remove":
            part[key] = [one for one in part[key] if one != value]
        elif isinstance(value, dict) and key != "access":
            part.setdefault(key, {}).update(value)
        else:
            part.setdefault(key, []).append(value)
