from pathlib import Path

import pytest

from hub.guard.budget import Meter, MeteredDisk, TooMuchError
from hub.system.machine import OsDisk
from tests.kit.trees import plant


def test_it_answers_as_the_disk_does_and_knows_what_was_asked(tmp_path: Path) -> None:
    top, links = plant(tmp_path, "l => x"), MeteredDisk(OsDisk(), Meter(10))
    entry = links.entry(f"{top}/l")
    assert entry is not None
    assert (entry.kind, links.target(f"{top}/l"), links.last) == ("link", "x", f"{top}/l")
    assert links.entry(f"{top}/none") is None
    assert links.last == f"{top}/none"


def test_it_answers_only_so_much(tmp_path: Path) -> None:
    top = plant(tmp_path, "a => " + "x/" * 50)
    links = MeteredDisk(OsDisk(), Meter(10))
    for _ in range(10):
        links.entry("/")
    with pytest.raises(TooMuchError):
        links.entry("/")
    with pytest.raises(TooMuchError):
        MeteredDisk(OsDisk(), Meter(10)).target(f"{top}/a")
    with pytest.raises(TooMuchError):
        MeteredDisk(OsDisk(), Meter(10)).effort.spend(11)
