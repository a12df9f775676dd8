import os
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from structlog.testing import capture_logs

from hub.config.models import Roots
from hub.config.operator_roots import PathContext, operator_roots
from hub.errors import RootError, StartError
from hub.paths.resolve import Flavour
from hub.roots.effective import OperatorRoots
from hub.roots.roots import Rejected, UnsafePaths
from hub.system.machine import OsDisk
from tests.kit.trees import asked_as_another_user, plant


@pytest.fixture
def top(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    top = plant(
        tmp_path, "given/", "env/", "env2/", "config/", "app/.git/", "app/src/", "a.txt", "home/x/"
    )
    monkeypatch.setenv("HOME", str(top / "home"))
    return top


def place(top: Path, directory: str = "", **environment: str) -> PathContext:
    unsafe = UnsafePaths(str(top / "home"), Flavour.POSIX)
    return PathContext(OsDisk(), Flavour.POSIX, unsafe, str(top / directory), environment)


def settled(
    top: Path,
    given: Sequence[str] = (),
    *,
    config: dict[str, Any] | None = None,
    ceiling: Sequence[str] = (),
    hub_roots: str = "",
) -> OperatorRoots:
    """Return the roots of a hub that runs in `app/src`."""
    roots = Roots.model_validate(config or {})
    return operator_roots(roots, given, place(top, "app/src", HUB_ROOTS=hub_roots), ceiling=ceiling)


def paths(top: Path, found: OperatorRoots) -> list[str] | None:
    if found.fallback is None:
        return None
    return [str(Path(path).relative_to(top)) for path in found.fallback.paths]


def test_the_command_line_goes_before_the_environment_the_config_and_detection(top: Path) -> None:
    config = {"fallback": [str(top / "config")], "detect": True}
    hub_roots = f"{top}/env{os.pathsep}{top}/env2"
    found = settled(top, [f"{top}/given"], config=config, hub_roots=hub_roots)
    assert (found.fallback_source, paths(top, found)) == ("--root", ["given"])
    found = settled(top, config=config, hub_roots=hub_roots)
    assert (found.fallback_source, paths(top, found)) == ("HUB_ROOTS", ["env", "env2"])
    found = settled(top, config=config)
    assert (found.fallback_source, paths(top, found)) == ("config", ["config"])
    found = settled(top, config={"detect": True})
    assert (found.fallback_source, paths(top, found)) == ("detected", ["app"])
    found = settled(top)
    assert (found.fallback_source, paths(top, found)) == ("none", None)


def test_where_nothing_is_detected_there_is_no_fallback(top: Path) -> None:
    found = operator_roots(Roots(detect=True), (), place(top, "home/x"))
    assert (found.fallback, found.fallback_source) == (None, "none")


def test_the_settings_for_missing_and_stale_roots_are_kept(top: Path) -> None:
    found = settled(
        top, config={"when_missing": "deny", "when_empty": "allow", "strict": True, "ceiling": []}
    )
    assert (found.when_missing, found.when_empty, found.strict) == ("deny", "allow", True)
    assert found.ceiling is None


@pytest.mark.parametrize(
    ("root", "reason"),
    [
        ("/etc", "Path is not safe for sharing"),
        ("/", "Path is not safe for sharing"),
    ],
)
def test_an_unusable_root_on_the_command_line_is_an_error(
    top: Path, root: str, reason: str
) -> None:
    fix = "Name a folder that is safe to share; `roots.allow_unsafe: true` allows all others."
    with pytest.raises(StartError) as caught:
        settled(top, [str(top / "given"), root])
    assert (caught.value.what, caught.value.fix) == (f"--root {root}: {reason}", fix)
    with pytest.raises(StartError) as caught:
        settled(top, hub_roots=f"{top}/env{os.pathsep}{root}")
    fix += f" HUB_ROOTS has `{os.pathsep}` between its folders."
    assert (caught.value.what, caught.value.fix) == (f"HUB_ROOTS {root}: {reason}", fix)


def test_a_root_that_is_a_link_to_nothing_is_told_by_what_is_not_there(top: Path) -> None:
    (top / "link").symlink_to(top / "gone")
    with pytest.raises(StartError) as caught:
        settled(top, [f"{top}/link"])
    assert caught.value.what == f"--root {top}/link: there is no {top}/gone"
    assert caught.value.fix == "Make it, or name a folder that is there."


def test_a_root_on_the_command_line_that_is_not_there_is_told_in_full(top: Path) -> None:
    with pytest.raises(StartError) as caught:
        settled(top, ["gone"])
    assert caught.value.what == f"--root gone: there is no {top}/app/src/gone"
    assert caught.value.fix == "Make it, or name a folder that is there."


def test_a_root_on_the_command_line_is_no_uri(top: Path) -> None:
    with pytest.raises(StartError) as caught:
        settled(top, [(top / "given").as_uri()])
    assert caught.value.what.endswith(": it must be a path, not a URI")
    assert caught.value.fix == f"Write {top}/given."


def test_a_root_that_is_skipped_is_logged_with_a_remedy(top: Path) -> None:
    config = Roots.model_validate({"fallback": ["none", "/etc", "given"]})
    with capture_logs() as logged:
        operator_roots(config, [], place(top))
    assert [(one["path"].rpartition("/")[2], one["fix"]) for one in logged] == [
        ("none", "Make it, or name a folder that is there."),
        (
            "etc",
            "Name a folder that is safe to share; `roots.allow_unsafe: true` allows all others.",
        ),
    ]


def test_an_unusable_root_of_the_config_is_skipped_with_a_warning(top: Path) -> None:
    config = {"fallback": [f"{top}/gone", {"path": f"{top}/config", "name": "Kept"}, "/etc"]}
    with capture_logs() as logged:
        found = settled(top, config=config)
    assert paths(top, found) == ["config"]
    assert found.fallback is not None
    assert [root.name for root in found.fallback.roots] == ["Kept"]
    assert [(line["log_level"], line["path"], line["reason"]) for line in logged] == [
        ("warning", f"{top}/gone", "Path is not accessible"),
        ("warning", "/etc", "Path is not safe for sharing"),
    ]
    assert {line["where"] for line in logged} == {"roots.fallback"}
    assert found.rejected == (
        Rejected(f"file://{top}/gone", "Path is not accessible"),
        Rejected("file:///etc", "Path is not safe for sharing"),
    )


def test_a_fallback_of_which_nothing_is_there_grants_nothing(top: Path) -> None:
    with capture_logs() as logged:
        found = settled(top, config={"fallback": [f"{top}/gone"]})
    assert (paths(top, found), found.fallback_source, len(logged)) == ([], "config", 1)


def test_an_explicit_empty_fallback_grants_nothing(top: Path) -> None:
    found = settled(top, config={"fallback": []})
    assert (paths(top, found), found.fallback_source) == ([], "config")


def test_a_fallback_that_is_written_as_an_empty_list_grants_nothing(top: Path) -> None:
    found = settled(top, config={"fallback": []})
    assert (paths(top, found), found.fallback_source) == ([], "config")
    found = settled(top, config={"fallback": [], "detect": True})
    assert (paths(top, found), found.fallback_source) == (["app"], "detected")


def test_a_ceiling_comes_from_the_config_and_the_command_line(top: Path) -> None:
    with capture_logs() as logged:
        found = settled(
            top, config={"ceiling": [f"{top}/app", f"{top}/gone"]}, ceiling=[f"{top}/given"]
        )
    assert found.ceiling is not None
    assert found.ceiling.paths == (f"{top}/app", f"{top}/given")
    assert [(line["where"], line["path"]) for line in logged] == [("roots.ceiling", f"{top}/gone")]


def test_a_ceiling_of_which_nothing_is_there_is_still_one(top: Path) -> None:
    with capture_logs():
        found = settled(top, config={"ceiling": [f"{top}/gone"]})
    assert found.ceiling is not None
    assert found.ceiling.roots == ()


def test_a_directory_named_twice_is_one_root(top: Path) -> None:
    (top / "link").symlink_to("given")
    found = settled(top, [f"{top}/given", f"{top}/link", f"{top}/given/"])
    assert paths(top, found) == ["given"]


def test_empty_parts_of_the_variable_name_nothing(top: Path) -> None:
    found = settled(top, hub_roots=f"{os.pathsep}{top}/env{os.pathsep}{os.pathsep}")
    assert paths(top, found) == ["env"]
    assert settled(top, hub_roots=os.pathsep).fallback_source == "none"


def test_a_relative_root_starts_at_the_working_directory_and_a_tilde_at_home(top: Path) -> None:
    here = place(top, "app")
    assert here.root("src").path == f"{top}/app/src"
    assert here.root(".").path == f"{top}/app"
    assert here.root("../a.txt").is_file
    assert here.root("~/x").path == f"{top}/home/x"
    named = here.root("src", "Sources")
    assert (named.uri, named.name) == (f"file://{top}/app/src", "Sources")
    assert here.root("src").name == "src"


def test_an_unreadable_directory_is_not_a_root() -> None:
    with TemporaryDirectory() as made, asked_as_another_user():  # others cannot reach `tmp_path`
        top = plant(Path(made), "given/", "a.txt")
        for name, mode in (("", 0o755), ("given", 0o644), ("a.txt", 0o644)):
            (top / name).chmod(mode)
        assert place(top).root(f"{top}/a.txt").is_file
        with pytest.raises(RootError, match="it may not be read"):
            place(top).root(f"{top}/given")
