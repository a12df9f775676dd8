"""What is wrong with this machine: programs, caches, and the hub's own directories."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

from hub.cli.doctor.findings import Finding
from hub.cli.setup.showing import shown
from hub.config.own_files import own_directories
from hub.system.machine import Machine

_OLDEST_NODE: Final = 18
"""The first version of Node.js that the MCP SDK for TypeScript runs on."""
_PATIENCE: Final = 10.0


def machine_findings(machine: Machine, programs: Collection[str]) -> Iterator[Finding]:
    """Yield what is wrong, as far as it concerns servers that are started with these programs."""
    yield from _directories(machine)
    if {"npx", "node", "npm", "pnpx", "bunx"} & set(programs):
        yield from _node()
        yield from _cache(os.environ.get("NPM_CONFIG_CACHE", ""), ".npm")
    if {"uvx", "uv"} & set(programs):
        yield from _cache(os.environ.get("UV_CACHE_DIR", ""), ".cache/uv")
    yield from _desktop_path(programs)


def _directories(machine: Machine) -> Iterator[Finding]:
    for directory in map(Path, own_directories(machine)):
        try:
            found = directory.stat()
        except NotADirectoryError:
            what = f"{shown(directory.parent)}: is a file, so the hub can keep nothing there"
            yield Finding("machine", what, f"rm {shlex.quote(str(directory.parent))}")
            continue
        except OSError:
            continue
        quoted = shlex.quote(str(directory))
        if not stat.S_ISDIR(found.st_mode):
            what = f"{shown(directory)}: is a file, so the hub can keep nothing there"
            yield Finding("machine", what, f"rm {quoted}")
        elif hasattr(os, "geteuid") and found.st_uid != os.geteuid():
            what = f"{shown(directory)}: belongs to another user, so the hub ignores it"
            yield Finding("machine", what, f'sudo chown -R "$(id -u)" {quoted}')
        elif stat.S_IMODE(found.st_mode) & 0o022:
            what = f"{shown(directory)}: other users may write it, so the hub ignores what is in it"
            yield Finding("machine", what, f"chmod 700 {quoted}")


def _node() -> Iterator[Finding]:
    node = shutil.which("node")
    if node is None:
        return
    try:
        ran = subprocess.run(  # noqa: S603 - the user's own Node.js
            [node, "--version"], capture_output=True, text=True, timeout=_PATIENCE, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        yield Finding("machine", f"{node} does not start", "Install Node.js 22: nvm install 22")
        return
    version = re.match(r"v(\d+)\.", ran.stdout)
    if version is None:
        yield Finding("machine", f"{node} does not start", "Install Node.js 22: nvm install 22")
    elif int(version[1]) < _OLDEST_NODE:
        what = f"{node} is version {ran.stdout.strip()}; servers need {_OLDEST_NODE} or newer"
        yield Finding("machine", what, "nvm install 22")


def _cache(given: str, usual: str) -> Iterator[Finding]:
    """Yield that a cache belongs to another user: then the runner cannot install a server."""
    path = Path(given) if given else Path.home() / usual
    try:
        found = path.stat()
    except OSError:
        return
    quoted = shlex.quote(str(path))
    if not stat.S_ISDIR(found.st_mode):
        yield Finding("machine", f"{shown(path)}: is no directory", f"rm {quoted}")
    elif hasattr(os, "geteuid") and found.st_uid != os.geteuid():
        what = f"{shown(path)}: belongs to another user, so no server can be installed into it"
        yield Finding("machine", what, f'sudo chown -R "$(id -u)" {quoted}')


def _desktop_path(programs: Collection[str]) -> Iterator[Finding]:
    """Yield the programs that only the terminal finds, and no client that the desktop starts."""
    path = _path_of_the_desktop()
    if path is None:
        return
    for program in sorted(programs):
        here = shutil.which(program)
        if here is not None and shutil.which(program, path=path) is None:
            what = f"{program}: programs that the desktop starts do not find it; this terminal does"
            fix = f"Write `command: {here}` in hub.yaml."
            yield Finding("machine", what, fix, "warning")


def _path_of_the_desktop() -> str | None:
    """Return the PATH of programs that are not started from a terminal; None if unknown."""
    if sys.platform == "darwin":
        return "/usr/bin:/bin:/usr/sbin:/sbin"
    systemctl = shutil.which("systemctl")
    if systemctl is None:
        return None
    try:
        ran = subprocess.run(  # noqa: S603 - the system's own program
            [systemctl, "--user", "show-environment"],
            capture_output=True,
            text=True,
            timeout=_PATIENCE,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r"^PATH=(.+)$", ran.stdout, re.MULTILINE)
    return None if ran.returncode or found is None else found[1]
