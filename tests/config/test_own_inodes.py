from __future__ import annotations

from pathlib import Path

from hub.config.own_files import EVERY, MOST, OwnInodes


def inode(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_dev, found.st_ino


def test_new_files_are_noticed_after_a_moment(tmp_path: Path) -> None:
    config, keys, now = tmp_path / "hub.yaml", tmp_path / "keys", [0.0]
    config.write_text("a")
    own = OwnInodes([str(keys)], [str(config), str(tmp_path / "none"), "\0"], lambda: now[0])
    first = inode(config)
    assert own().kept == {first}
    assert own().secret == frozenset()
    keys.mkdir()
    (keys / "key").write_text("k")
    (keys / "inner").mkdir()
    edited = tmp_path / "edited"
    edited.write_text("b")
    edited.replace(config)
    assert own().kept == {first}
    now[0] += EVERY
    assert own().kept == {inode(config)}
    assert own().secret == {inode(keys / "key")}


def test_a_directory_of_very_many_files_is_looked_at_in_part(tmp_path: Path) -> None:
    for number in range(MOST + 5):
        (tmp_path / str(number)).touch()
    assert len(OwnInodes([str(tmp_path)], [], lambda: 0.0)().secret) == MOST
