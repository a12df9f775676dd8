"""A real hub and a real file server, in a folder that holds the hub's own config."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import anyio

from tests.kit.warm import WARM_HUB
from tests.live.programs import call, config_file, connected

FILES = {"command": sys.executable, "args": ["-P", "-m", "hub.file_server.server", "${roots}"]}


def planted(tmp_path: Path) -> tuple[Path, Path]:
    """Return a folder to share, and the config in it."""
    root = tmp_path / "root"
    (root / "conf").mkdir(parents=True)
    config = config_file(root / "conf", {"files": FILES}, audit={"file": "a.log"}, guard="off")
    (root / "link").symlink_to("conf")
    os.link(config, root / "hard.yaml")
    return root, Path(config)


async def tried(tmp_path: Path, root: Path, config: Path) -> None:
    command = [WARM_HUB, "run", "--config", str(config), "--root", str(root)]
    async with connected(command, [root], cwd=tmp_path) as client:
        await call(client, "write_file", path=str(root / "a.txt"), content="mine")
        own = [config, root / "link" / config.name, root / "hard.yaml", root / "conf/a.log"]
        for path in (*map(str, own), f"conf/{config.name}", f"conf/../link/{config.name}"):
            said = await call(client, "write_file", path=path, content="{}")
            assert "one of the hub's own files" in said, path
        for source, target in (
            (config, root / "b"),
            (root / "a.txt", config),
            (root / "conf", root / "d"),
            (root / "a.txt", root / "conf/a.log.1"),
        ):
            said = await call(client, "move_file", source=str(source), destination=str(target))
            assert "one of the hub's own files" in said, (source, target)
        assert "files" in await call(client, "read_file", path=str(config))


def test_a_client_changes_all_that_it_shares_but_what_is_the_hubs(tmp_path: Path) -> None:
    root, config = planted(tmp_path)
    before = config.read_bytes()
    anyio.run(tried, tmp_path, root, config)
    assert config.read_bytes() == before
    assert (root / "a.txt").read_text() == "mine"
    assert (root / "conf/a.log").read_text().count('"refused"') == 10
