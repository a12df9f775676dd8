"""Builds all that a release has, from one commit: twice the same commit is twice the same bytes."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

PINNED = re.compile(r"^([\w.\[\]-]+==[^\s;]+)\s*(?:;\s*(.*?))?\s*\\?$", re.MULTILINE)
BUNDLE_PROJECT = """\
# The hub, and what it needs in the versions that it is tested with. The bundle's host has uv
# install them.
[project]
name = "roots-hub-bundle"
version = "{version}"
requires-python = "{python}"
dependencies = {dependencies}

[tool.uv]
package = false

[tool.uv.sources]
roots-hub = {{ path = "{wheel}" }}
"""


def commit_time(repository: Path) -> int:
    """Return when the commit was made, in seconds: the time of all files in archives."""
    shown = ["git", "-C", str(repository), "log", "-1", "--format=%ct"]
    return int(subprocess.run(shown, check=True, capture_output=True, text=True).stdout)


def checked_out(repository: Path, folder: Path) -> Path:
    """Return a folder with the files of the commit, and nothing else of the work tree."""
    folder.mkdir(parents=True)
    packed = subprocess.run(
        ["git", "-C", str(repository), "archive", "HEAD"], check=True, capture_output=True
    ).stdout
    subprocess.run(["tar", "-x", "-C", str(folder)], input=packed, check=True)
    return folder


def build_all(tree: Path, out: Path, seconds: int) -> None:
    """Build sdist, wheel (from the sdist), bundle and plugin of a tree."""
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(tree)]
    done = subprocess.run(
        build,
        env={**os.environ, "SOURCE_DATE_EPOCH": str(seconds)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"{done.stdout}{done.stderr}")
    version = json.loads((tree / "server.json").read_text())["version"]
    plugin = tree / "packaging/claude-code"
    named = {
        file.relative_to(plugin).as_posix(): file for file in plugin.rglob("*") if file.is_file()
    }
    _pack(
        out / f"roots-hub-{version}-claude-code.zip",
        {**named, "LICENSE": tree / "LICENSE"},
        seconds,
    )
    bundle = dict(_bundle_files(tree, next(out.glob("*.whl")), version))
    _pack(out / f"roots-hub-{version}.mcpb", bundle, seconds)


def _bundle_files(tree: Path, wheel: Path, version: str) -> Iterator[tuple[str, Path]]:
    """Yield the bundle's files. The hub is there as its wheel: its file server needs it too."""
    source = tree / "packaging/mcpb"
    manifest = json.loads((source / "manifest.json").read_text())
    pins = PINNED.findall((tree / "requirements.txt").read_text())
    pinned = [f"{pin}; {when}" if when else pin for pin, when in pins]
    project = source / "pyproject.toml"
    project.write_text(
        BUNDLE_PROJECT.format(
            version=version,
            python=manifest["compatibility"]["runtimes"]["python"],
            dependencies=json.dumps(["roots-hub", *pinned], indent=4),
            wheel=wheel.name,
        )
    )
    for file in (source / "manifest.json", project, source / "src/server.py"):
        yield file.relative_to(source).as_posix(), file
    yield wheel.name, wheel
    yield "LICENSE", tree / "LICENSE"


def _pack(archive: Path, files: dict[str, Path], seconds: int) -> None:
    when = time.gmtime(seconds)[:6]
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, when)
            entry.external_attr = 0o100644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            packed.writestr(entry, files[name].read_bytes())


def build_twice(repository: Path, work: Path, out: Path) -> list[Path]:
    """Build the commit in two places; exit if their archives differ; return those of `out`."""
    seconds = commit_time(repository)
    shutil.rmtree(out, ignore_errors=True)
    again = work / "again"
    for place, target in (("one", out), ("another-place", again)):
        build_all(checked_out(repository, work / place), target, seconds)
    built = sorted(out.iterdir())
    names = [file.name for file in built]
    if names != sorted(file.name for file in again.iterdir()):
        sys.exit(f"two builds made different archives: {names}")
    differing = [
        file.name for file in built if file.read_bytes() != (again / file.name).read_bytes()
    ]
    if differing:
        sys.exit(f"two builds of one commit differ: {', '.join(differing)}")
    return built
