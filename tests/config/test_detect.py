from pathlib import Path

import pytest

from hub.config.operator_roots import MARKERS, MAX_DEPTH, Project, nearest_project, projects_below
from tests.kit.trees import plant


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = plant(tmp_path, "home/")
    monkeypatch.setenv("HOME", str(home / "home"))
    return home / "home"


@pytest.mark.parametrize("marker", [*MARKERS, "Anything.code-workspace"])
def test_each_marker_makes_a_project(home: Path, marker: str) -> None:
    plant(home, f"work/app/{marker}", "work/app/src/deep/")
    app = home / "work/app"
    assert nearest_project(app / "src/deep") == app
    assert nearest_project(app) == app
    name = "Anything" if marker.endswith("workspace") else "app"
    assert list(projects_below(home)) == [Project(app, name, marker)]


def test_the_innermost_project_is_the_nearest(home: Path) -> None:
    plant(home, "app/.git/", "app/packages/one/package.json", "app/packages/one/src/")
    assert nearest_project(home / "app/packages/one/src") == home / "app/packages/one"


def test_the_home_directory_and_those_above_are_not_projects(home: Path) -> None:
    plant(home.parent, ".git/", "home/.git/", "home/notes/", "elsewhere/")
    assert nearest_project(home) is None
    assert nearest_project(home / "notes") is None
    assert nearest_project(home.parent) is None
    assert nearest_project(home.parent / "elsewhere") is None


def test_outside_of_any_project_there_is_none(home: Path) -> None:
    plant(home, "notes/2024/")
    assert nearest_project(home / "notes/2024") is None


def test_a_directory_that_is_not_there_is_passed_over(home: Path) -> None:
    plant(home, "app/.git/")
    assert nearest_project(home / "app/gone/deeper") == home / "app"
    assert list(projects_below(home / "gone")) == []


def test_a_project_inside_of_a_project_is_part_of_it(home: Path) -> None:
    plant(home, "app/.git/", "app/web/package.json", "lib/Cargo.toml")
    assert [project.path for project in projects_below(home)] == [home / "app", home / "lib"]


def test_git_goes_before_the_other_markers_and_workspaces_last(home: Path) -> None:
    plant(home, "app/package.json", "app/.git/", "app/a.code-workspace")
    plant(home, "lib/b.code-workspace", "lib/pom.xml")
    found = [(project.name, project.marker) for project in projects_below(home)]
    assert found == [("app", ".git"), ("lib", "pom.xml")]


def test_a_search_ends_at_its_depth(home: Path) -> None:
    levels = [f"level{number}" for number in range(MAX_DEPTH + 1)]
    plant(home, "/".join([*levels[:MAX_DEPTH], "pom.xml"]))
    plant(home, "x" + "/".join([*levels, "pom.xml"]))
    found = [project.path for project in projects_below(home)]
    assert found == [home.joinpath(*levels[:MAX_DEPTH])]
    assert list(projects_below(home, depth=1)) == []
    assert list(projects_below(found[0], depth=0)) == [Project(found[0], "level3", "pom.xml")]


@pytest.mark.parametrize("skipped", ["node_modules", ".venv", "target", ".hidden"])
def test_directories_made_by_tools_are_not_searched(home: Path, skipped: str) -> None:
    plant(home, f"{skipped}/lib/package.json")
    assert list(projects_below(home)) == []


def test_links_are_not_followed_in_a_search(home: Path) -> None:
    plant(home, "area/lib/.git/", "area/loop => ..", "area/again => lib")
    assert [project.path for project in projects_below(home)] == [home / "area/lib"]
