"""`roots-hub explain`: would this call pass, and why."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import TextIO

from hub.core.guard import Refused, Surroundings, compile_tool, decide
from hub.core.paths import Entry, Flavour, LinkReader
from hub.core.policy import ToolPolicy
from hub.core.roots import EMPTY, parse_announcement
from hub.core.values import Call, JsonObject
from hub.runtime.links import CachedLinks, OsLinks

_FLAVOURS = {"linux": Flavour.POSIX, "darwin": Flavour.MACOS, "windows": Flavour.WINDOWS}


class NoDisk(LinkReader):
    """A disk on which every path is a directory: pure path logic, for another platform's rows."""

    def entry(self, path: str) -> Entry | None:
        return Entry("directory", 0, 0)

    def target(self, path: str) -> str:
        raise NotImplementedError


def answer(row: JsonObject) -> JsonObject:
    platform = str(row.get("platform", "linux"))
    flavour = _FLAVOURS[platform]
    links = CachedLinks(OsLinks()) if platform == "linux" else NoDisk()
    announcement = parse_announcement(
        {"roots": [{"uri": uri} for uri in row["roots"]]}, links=links, flavour=flavour, unsafe=None
    )
    env = row.get("env") or {}
    around = Surroundings(announcement.roots, row.get("cwd"), env, links, flavour)
    guard = compile_tool(row.get("schema"), read_only=False, policy=ToolPolicy())
    arguments = row["arguments"]
    verdict = decide(Call("tools/call", "", arguments, {"arguments": arguments}), guard, around)
    if isinstance(verdict, Refused):
        return {
            "id": row["id"],
            "verdict": "deny",
            "pointer": verdict.pointer,
            "reason": verdict.reason,
        }
    return {"id": row["id"], "verdict": "allow", "pointer": None, "reason": None}


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))))
