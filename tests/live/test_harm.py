"""What the guard refuses does harm without it, or it would prove nothing to refuse it.

Each refused row of the catalogue is sent through a hub whose guard is off to a real process that
acts on real files in a tree of the row's own. `unproven.json` lists the rows whose harm cannot be
shown this way, by the reason.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast
from urllib.parse import unquote, urlsplit

import anyio
import pytest

from hub.app.machine import Setting
from hub.app.running import ConnectionBuilder, running_hub
from hub.config.models import HubConfig
from hub.jsonrpc.exact_json import WireError
from hub.values import Json, JsonObject
from tests.guard.test_decide import CATALOGUE, ROWS, placed, planted
from tests.kit.hubs import FakeClient
from tests.kit.trees import plant

TOOL = [sys.executable, str(Path(__file__).parent / "obliging_tool.py")]
LINUX = {str(row["id"]): row for row in ROWS if row["platform"] == "linux"}
REFUSED = {id_: row for id_, row in LINUX.items() if row["expect"] == "deny"}
DEEP = "abcdefgh"
"""Directories above a tree, so that `..` has somewhere to lead to."""
TABLE = cast(
    "dict[str, list[str]]", json.loads((CATALOGUE.parent / "unproven.json").read_text("utf-8"))
)
BY_MACHINE = set(TABLE["it depends on the machine whether this is there"])
UNPROVEN = {id_ for ids in TABLE.values() for id_ in ids}


@dataclass(frozen=True)
class Prepared:
    """A row in a tree of its own: what is sent, and where its roots really are."""

    arguments: Json
    top: Path
    roots: tuple[str, ...]

    def outside(self, got: list[str]) -> list[str]:
        """Return what of this lies in no root."""
        return [
            one for one in got if not any(f"{one}/".startswith(f"{root}/") for root in self.roots)
        ]


def prepared(row: JsonObject, top: Path) -> Prepared:
    """Plant a row's tree."""
    top = top.joinpath(*DEEP)
    top.mkdir(parents=True)
    top = top.resolve()
    planted(row, top)
    plant(top, "etc/passwd", "etc/x/y.conf", "var/run/", "tmp/", "root/id_rsa")
    row = cast("JsonObject", placed(row, str(top)))
    uris = map(urlsplit, cast("list[str]", row["roots"]))
    roots = [unquote(uri.path) for uri in uris if not uri.netloc]
    real = tuple(os.path.realpath(root) for root in roots if Path(root).exists())
    return Prepared(row["arguments"], top, real)


async def harm(rows: Mapping[str, Prepared]) -> dict[str, list[str]]:
    """Send rows through a hub whose guard is off; return what each reached outside its roots."""
    tool = {"command": TOOL[0], "args": TOOL[1:]}
    config = {"version": 1, "guard": "off", "servers": {"tool": tool}}
    found: dict[str, list[str]] = {}
    async with anyio.create_task_group() as tasks:
        made = HubConfig.model_validate(config)
        # The hub's own files, which are held even so, lie in no row's way.
        names = ("XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR")
        own = dict.fromkeys(names, "/proc/nobody")
        environment = {**os.environ, "HOME": "/nobody/home", **own}
        async with running_hub(made, Setting(), environment=environment) as hub:
            client = FakeClient(ConnectionBuilder(hub.services), tasks)
            await client.initialize({})
            await client.initialized()
            for id_, row in rows.items():
                where: JsonObject = {
                    "top": str(row.top),
                    "cwd": f"{row.top}/project",
                    "bound": str(row.top.parents[len(DEEP) - 1]),
                }
                params: JsonObject = {"name": "act", "arguments": row.arguments, "_meta": where}
                try:
                    result = await client.request("tools/call", params)
                except WireError:
                    found[id_] = []  # no message can carry it
                    continue
                said = cast("dict[str, list[str]]", result.get("structuredContent") or {})
                found[id_] = row.outside(said.get("got", []))
        tasks.cancel_scope.cancel()
    return found


async def test_every_refused_row_does_harm_or_is_in_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # whose parent has none of the hub's own files, which are held
    rows = {
        id_: prepared(row, tmp_path / str(number))
        for number, (id_, row) in enumerate(REFUSED.items())
    }
    harmless = {id_ for id_, got in (await harm(rows)).items() if not got}
    assert harmless <= UNPROVEN, sorted(harmless - UNPROVEN)
    assert harmless >= UNPROVEN - BY_MACHINE, "what does harm is not for the table"


def test_the_table_names_each_row_once_and_only_refused_ones() -> None:
    listed: list[Json] = [id_ for ids in TABLE.values() for id_ in ids]
    assert len(listed) == len(UNPROVEN)
    assert set(REFUSED) >= UNPROVEN
    assert all(reason and ids for reason, ids in TABLE.items())
