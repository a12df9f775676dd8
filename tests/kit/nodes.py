"""Finds a Node that is new enough for a program of npm."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path


def node(packages: Path, needed: tuple[int, int]) -> str:
    """Return the caller's own Node if it is new enough, else the one among `packages`."""
    own = shutil.which("node")
    if own is not None and _version(own) >= needed:
        return own
    for found in packages.glob("node-*/bin/node"):
        return str(found)
    wanted = ".".join(map(str, needed))
    raise SystemExit(
        f"no Node {wanted} or newer in PATH, nor in {packages}\n"
        "Install one, or let `make conformance` or `make clients` bring it"
    )


def _version(program: str) -> tuple[int, int]:
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)  # noqa: S603 - Node
    major, minor, *_ = said.stdout.removeprefix("v").split(".")
    return int(major), int(minor)
