"""A kernel that cannot confine is a fault only for servers that want to be confined."""

import os
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from hub.cli.doctor.machine import confinement
from hub.cli.doctor.scene import Scene, looked_at
from hub.system.machine import Kernel

OLD = Kernel(abi=0, why_not="it is too old")


def scene(place: Path, confine: str, kernel: Kernel) -> Scene:
    config = place / "hub.yaml"
    config.write_text(f"version: 1\nservers: {{a: {{command: sh, confine: {confine}}}}}\n")
    bare = Scene(dict(os.environ), place, sys.platform, place, kernel)
    return replace(bare, configs=[looked_at(str(config), bare)])


@pytest.mark.parametrize(
    ("confine", "kernel", "levels"),
    [
        ("off", OLD, ["note"]),
        ("auto", OLD, ["note", "warning"]),
        ("require", OLD, ["note", "problem"]),
        ("require", Kernel(abi=3), ["ok"]),
        ("require", Kernel(abi=3, no_seccomp="it has none"), ["note", "problem"]),
        ("{mode: require, abi: 4}", Kernel(abi=3), ["ok", "problem"]),
    ],
)
def test_it_is_as_bad_as_the_config_says(
    tmp_path: Path, confine: str, kernel: Kernel, levels: list[str]
) -> None:
    found = [*confinement(scene(tmp_path, confine, kernel))]
    assert [one.level for one in found] == levels
    if len(found) > 1:
        edit = f"In {tmp_path}/hub.yaml, set `servers.a.confine` to `off`."
        assert found[1].fix.startswith(edit)
        assert [*confinement(scene(tmp_path, "off", kernel))] == found[:1]


def test_the_abi_is_told(tmp_path: Path) -> None:
    (found,) = confinement(scene(tmp_path, "off", Kernel(abi=3)))
    assert found.what.startswith("ABI 3 and seccomp")
