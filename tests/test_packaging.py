"""What is installed is pinned and comes from no named place; the image is what it says."""

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from hatchling.builders.sdist import SdistBuilder
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from hub import __version__
from hub.cli.command_line import parser
from hub.config.clients.locations import CLIENTS
from tests.kit.pages import blocks

PROJECT = Path(__file__).parent.parent
PYPROJECT = tomllib.loads((PROJECT / "pyproject.toml").read_text())
GROUPS = PYPROJECT["dependency-groups"]
ADDRESS = re.compile(r"://|^\s*--?(i|f|index-url|extra-index-url|find-links)\b| @ |(^|\s)/\w")

DIRECT = {
    "requirements.txt": PYPROJECT["project"]["dependencies"],
    "requirements-build.txt": GROUPS["build"],
    "requirements-dev.txt": [
        *PYPROJECT["project"]["dependencies"],
        *GROUPS["build"],
        *(each for each in GROUPS["dev"] if isinstance(each, str)),
    ],
}
APART = {
    "requirements-docs.txt": GROUPS["docs"],
    "requirements-dist.txt": [each for each in GROUPS["dist"] if isinstance(each, str)],
}
"""The locks of environments that have no part of the hub's."""
LOCKS = {**DIRECT, **APART}


def pins(lock: str) -> dict[str, str]:
    found = re.findall(r"^([\w.-]+)(?:\[[^]]*])?==([^\s;]+)", (PROJECT / lock).read_text(), re.M)
    return {canonicalize_name(name): version for name, version in found}


def image() -> list[tuple[str, str]]:
    text = (PROJECT / "Dockerfile").read_text().replace("\\\n", "")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines)]


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_pins_what_the_project_asks_for(lock: str) -> None:
    pinned = pins(lock)
    for wanted in map(Requirement, LOCKS[lock]):
        assert wanted.specifier.contains(pinned[canonicalize_name(wanted.name)]), wanted


def test_the_locks_can_be_installed_side_by_side() -> None:
    everything = pins("requirements-dev.txt")
    for lock in DIRECT:
        assert pins(lock).items() <= everything.items()


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_has_hashes_and_no_address(lock: str) -> None:
    text = (PROJECT / lock).read_text()
    assert text.count("==") <= text.count("--hash=sha256:")
    assert [line for line in text.splitlines() if ADDRESS.search(line)] == []


@pytest.mark.parametrize("folder", [".", "packaging/npm"])
def test_npm_packages_are_pinned_without_an_address(folder: str) -> None:
    wanted = json.loads((PROJECT / folder / "package.json").read_text())["devDependencies"]
    lock = json.loads((PROJECT / folder / "package-lock.json").read_text())["packages"]
    assert all(version[0].isdigit() for version in wanted.values())
    assert lock.pop("")["devDependencies"] == wanted
    assert [name for name, package in lock.items() if "resolved" in package] == []
    assert [name for name, package in lock.items() if "integrity" not in package] == []


def test_a_source_distribution_has_what_its_readme_and_its_tests_need() -> None:
    packed = {file.relative_path for file in SdistBuilder(str(PROJECT)).recurse_included_files()}
    linked = re.findall(r"\]\(([\w./-]+)(?:#[\w-]+)?\)", (PROJECT / "README.md").read_text())
    assert linked
    assert {
        *linked,
        *LOCKS,
        "Makefile",
        "mkdocs.yml",
        "package-lock.json",
        "server.json",
        "packaging/dist.py",
        "packaging/npm/package-lock.json",
        "tests/test_packaging.py",
        *PYPROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["shared-data"],
    } <= packed
    hidden = {name for name in packed if name.startswith(".")}
    assert hidden <= {".dockerignore", ".gitignore", ".npmrc"}, "what tools leave behind is none"


def own_program(name: str) -> subprocess.CompletedProcess[str]:
    """Run a program of packaging/ that needs no other tools."""
    return subprocess.run(  # noqa: S603 - the project's own
        [sys.executable, str(PROJECT / "packaging" / name)],
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_registries_and_clients_are_told_what_pyproject_says() -> None:
    told = own_program("manifests.py")
    assert (told.returncode, told.stderr) == (0, "")


def test_the_address_of_the_repository_is_in_one_place() -> None:
    address = PYPROJECT["project"]["urls"]["Repository"].removeprefix("https://")
    listed = subprocess.run(  # noqa: S603 - of this project
        ["git", "grep", "--files-with-matches", "--fixed-strings", address],  # noqa: S607 - as users have it
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode:
        pytest.skip("not a git repository")
    made = {"server.json", "packaging/mcpb/manifest.json"}
    made |= {
        f"packaging/claude-code/.claude-plugin/{name}.json" for name in ("plugin", "marketplace")
    }
    assert set(listed.stdout.split()) == {"pyproject.toml", *made}


def test_clients_are_given_commands_that_the_hub_knows() -> None:
    registry = json.loads((PROJECT / "server.json").read_text())["packages"][0]
    assert parser().parse_args([each["value"] for each in registry["packageArguments"]])
    plugin = json.loads((PROJECT / "packaging/claude-code/.mcp.json").read_text())
    args = plugin["mcpServers"]["roots-hub"]["args"]
    assert args[0] == f"roots-hub@{__version__}"
    assert parser().parse_args(args[1:])


def test_the_registry_takes_the_description() -> None:
    assert len(json.loads((PROJECT / "server.json").read_text())["description"]) <= 100


def test_completions_and_manual_are_those_of_the_command_line() -> None:
    said = own_program("command_line_hash.py")
    assert (said.returncode, said.stderr) == (0, "")


@pytest.mark.parametrize("file", ["roots-hub", "_roots-hub", "roots-hub.fish"])
def test_the_names_of_clients_are_completed(file: str) -> None:
    text = (PROJECT / "packaging/completions" / file).read_text()
    assert len(re.findall(rf'[("]{" ".join(CLIENTS)}[)"]', text)) == 3  # import, install, uninstall


def test_a_release_runs_only_actions_of_one_commit() -> None:
    workflow = PROJECT / ".github/workflows/release.yml"
    if not workflow.is_file():
        pytest.skip("a source distribution has no workflow")
    used = re.findall(r"uses: (\S+)", workflow.read_text())
    assert used
    assert [name for name in used if not re.search(r"@[0-9a-f]{40}$", name)] == []


@pytest.mark.parametrize(
    "name",
    ["systemd/roots-hub.service", "systemd/roots-hub.socket", "launchd/roots-hub.plist"],
)
def test_a_page_shows_a_service_as_it_is_packed(name: str) -> None:
    shown = {block.text for block in blocks(PROJECT / "docs/serve-http.md")}
    assert (PROJECT / "packaging" / name).read_text() in shown


def test_the_image_does_not_run_as_root() -> None:
    users = [rest for word, rest in image() if word == "USER"]
    assert users
    assert users[-1] not in {"0", "root"}


def test_the_image_asks_the_port_that_it_serves_for_its_health() -> None:
    words = dict(image())
    port = words["EXPOSE"]
    assert f"0.0.0.0:{port}" in words["CMD"]
    assert f"http://127.0.0.1:{port}/health" in words["HEALTHCHECK"]
    check = json.loads(words["HEALTHCHECK"].partition("CMD ")[2])
    compile(check[2], "HEALTHCHECK", "exec")


def test_the_image_copies_only_existing_files_that_are_not_ignored() -> None:
    allowed = [
        line[1:]
        for line in (PROJECT / ".dockerignore").read_text().splitlines()
        if line.startswith("!")
    ]
    copies = [shlex.split(rest) for word, rest in image() if word == "COPY"]
    sources = [name for copy in copies if "--from" not in copy[0] for name in copy[:-1]]
    assert sources
    for name in sources:
        assert (PROJECT / name).exists(), name
        assert any(fnmatchcase(name, pattern) for pattern in allowed), name


def test_make_tells_the_hub_who_starts_it_and_the_user_what_it_installs() -> None:
    shown = subprocess.run(
        ["make", "--dry-run", "--always-make", "run", "LISTEN=127.0.0.1:9"],  # noqa: S607 - as users have it
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "HUB_STARTED_BY='make run' .venv/bin/roots-hub run --http 127.0.0.1:9" in shown
    assert "make: installs what the hub needs into .venv: about 40 packages" in shown
