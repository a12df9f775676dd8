"""Whether calls or children may write the config: it lies in a folder that they were granted."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hub.catalog.merge import Offer
from hub.config.reload.writable import UNKNOWN_PATH, PathLookup, WritablePlace, writable_places
from hub.launch.plan import LaunchTemplate
from hub.launch.templates import parse_template
from hub.paths.resolve import Flavour
from hub.roots.effective import OperatorRoots
from hub.specs import ConfineSetting, RemoteTarget, ServerSpec
from hub.system.machine import OsDisk
from hub.values import ServerName
from tests.kit.trees import plant
from tests.kit.worlds import share


@pytest.fixture
def top(tmp_path: Path) -> Path:
    return plant(
        tmp_path,
        *("home/hub.yaml", "home/inner/", "project/hub.yaml", "elsewhere/"),
        *("home/linked.yaml => ../project/hub.yaml", "project/out.yaml => ../home/hub.yaml"),
        *("home/by_folder => ../project", "project/leaving => ../home", "loop => loop"),
        *("chain.yaml => project/out.yaml", "alias => project"),
    )


def why(top: Path, config: str, *places: str) -> str | None:
    lookup = PathLookup(OsDisk(), Flavour.POSIX, str(top))
    found = [WritablePlace(str(top / place), "a root") for place in places]
    return lookup.why_writable(os.path.join(top, config), found)  # noqa: PTH118 - as spelled


@pytest.mark.parametrize(
    ("config", "place"),
    [
        ("home/hub.yaml", "home"),
        ("home/hub.yaml", "."),
        ("home/hub.yaml", "home/hub.yaml"),
        ("home/linked.yaml", "project"),  # where the link leads
        ("project/out.yaml", "project"),  # the link itself
        ("chain.yaml", "project"),  # a link on the way
        ("home/by_folder/hub.yaml", "project"),
        ("project/leaving/hub.yaml", "project"),
        ("home/by_folder/leaving/hub.yaml", "project"),
        ("home/inner/../hub.yaml", "home/inner"),
        ("project/hub.yaml", "alias"),  # the folder is spelled as a link
        ("home/new.yaml", "home"),
    ],
)
def test_who_may_write_a_folder_on_the_way_may_write_the_file(
    top: Path, config: str, place: str
) -> None:
    assert why(top, config, "elsewhere", place) == f"the file lies in a root: {top / place}"


@pytest.mark.parametrize(
    ("config", "places"),
    [
        ("home/hub.yaml", ("home/inner", "project", "elsewhere", "hom", "home/hub.yaml.old")),
        ("home/linked.yaml", ("home/inner", "elsewhere", "gone")),
        ("project/hub.yaml", ("home", "loop")),
        ("home/hub.yaml", ()),
    ],
)
def test_other_folders_do_not_count(top: Path, config: str, places: tuple[str, ...]) -> None:
    assert why(top, config, *places) is None


def test_a_path_that_cannot_be_followed_counts(top: Path) -> None:
    assert why(top, "loop/hub.yaml") == UNKNOWN_PATH
    assert why(top, "home/hub.yaml/../hub.yaml") == UNKNOWN_PATH


def test_a_folder_that_became_a_link_since_it_was_granted_counts(top: Path) -> None:
    (top / "home").rename(top / "moved")
    (top / "home").symlink_to("moved")
    assert why(top, "home/hub.yaml", "home") is not None
    assert why(top, "home/hub.yaml", "moved") is not None


def test_case_counts_as_on_the_machine(top: Path) -> None:
    lookup = PathLookup(OsDisk(), Flavour.MACOS, str(top))
    places = [WritablePlace(str(top / "HOME").upper(), "a root")]
    assert lookup.why_writable(str(top / "home/hub.yaml"), places) is not None


def spec(name: str, **values: object) -> ServerSpec:
    target = values.pop("target", RemoteTarget("http://h/mcp"))
    return ServerSpec(ServerName(name), target, offer=Offer(), **values)  # pyright: ignore[reportArgumentType]


def launched(cwd: str | None) -> LaunchTemplate:
    return LaunchTemplate(
        "s", parse_template("s"), cwd=None if cwd is None else parse_template(cwd)
    )


def test_the_places_are_roots_grants_and_the_servers_own_directories(top: Path) -> None:
    servers = (
        spec("a", target=launched("/srv/${NAME}"), directories=("/data",)),
        spec("b", target=launched("${root}/x"), confine=ConfineSetting("auto", ("/r",), ("/w",))),
        spec("c", target=launched("${UNSET}")),
        spec("d", target=launched(None)),
        spec("e"),
    )
    operator = OperatorRoots(fallback=share(top / "home"), ceiling=share(top))
    found = [*writable_places(servers, operator, ["/client"], {"NAME": "one"})]
    assert [(one.path, one.what) for one in found] == [
        ("/client", "a root of a client"),
        (f"{top}/home", "a root of clients that share none"),
        ("/data", "a folder of server 'a'"),
        ("/srv/one", "a folder of server 'a'"),
        ("/w", "a folder that server 'b' may write"),
    ]
    assert [*writable_places((), OperatorRoots(), (), {})] == []
