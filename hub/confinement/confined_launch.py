"""Turn a launch plan into one that starts the child confined, with private HOME and TMPDIR.

At the start of the hub: what this kernel cannot confine is told, or refused.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import quote

import structlog
from msgspec import Struct
from msgspec.structs import replace

from hub.confinement import landlock, launcher
from hub.confinement.grants import (
    Confined,
    ConfinementStatus,
    FileGrant,
    FileGrants,
    NotAsked,
    Unconfined,
    confinement_status,
    file_grants,
    missing,
)
from hub.confinement.program_files import DEVICES, KERNEL, SETTINGS, SYSTEM, Program, program
from hub.confinement.seccomp_rules import PARENT, PARENTS_GROUP, compiled
from hub.errors import ChildError, ConfigError
from hub.launch.known_servers import short_name
from hub.launch.plan import LaunchPlan, LaunchTemplate
from hub.specs import ConfineSetting, ServerSpec
from hub.system.machine import CACHE, Kernel, home_directory, own_directory

RUNNERS: Final = frozenset(
    {"npx", "npm", "pnpm", "pnpx", "yarn", "bun", "bunx", "deno", "uv", "uvx", "pipx"}
)
"""Commands that download the program they run: they need a writable cache directory."""
GIT_PATIENCE = 5.0
"""Seconds to wait for git to print the user's name and email."""

log = structlog.stdlib.get_logger(__name__)


class PrivateDirs(Struct, frozen=True):
    """Directories a confined child may write besides its roots. `cache`: per server, kept."""

    home: str
    tmp: str
    cache: str


_SHOWN = PrivateDirs("(private HOME)", "(private TMPDIR)", "")
"""Placeholder texts for a child that is only planned, not launched."""


def this_kernel() -> Kernel:
    """Return whether this machine's kernel has Landlock and seccomp, and if not why."""
    return Kernel(landlock.abi(), landlock.why_not(), launcher.why_no_seccomp())


def cache_of(server: str, environment: Mapping[str, str]) -> str:
    """Return the cache directory of a server's runner. Nothing else runs programs from there."""
    base = own_directory(environment, *CACHE)
    return f"{base}/servers/{quote(server, safe='')}.d"


def planned_grants(spec: ServerSpec, plan: LaunchPlan) -> FileGrants:
    """Return the grants that the child of `plan` would get. Nothing is created.

    Raises: ChildError if the command does not exist.
    """
    return _grants(spec, plan, _program(spec, plan), _SHOWN)


def confined_plan(
    spec: ServerSpec, plan: LaunchPlan, private: str, found_here: Confined
) -> LaunchPlan:
    """Create the child's files in `private`, and return the plan that launches it confined.

    Raises: ChildError if the command does not exist, or if a grant opens the hub's keys and
        `confine` is `require`.
    """
    cache = cache_of(spec.name, spec.inherits)
    places = PrivateDirs(f"{private}/home", f"{private}/temporary", cache)
    found = _program(spec, plan)
    granted = _grants(spec, plan, found, places)
    for grant in granted.unheld:
        log.warning("not enforced by the kernel", server=spec.name, what=grant)
    _must_open_no_keys(spec, granted)
    _furnish(places, spec.inherits, keeps=_is_runner(plan))
    rules = [("r", grant) for grant in granted.read] + [("w", grant) for grant in granted.write]
    if plan.cwd is None:
        rules.append(("w", FileGrant(".")))
    encoded = landlock.encode([(kind, one.path, one.inode) for kind, one in rules])
    held = launcher.pieces(_held(spec.confine, encoded, found_here))
    before = (sys.executable, "-I", "-S", "-B", launcher.__file__, *held, found.command)
    env = {**_env(places, plan), **found.env, **dict(plan.env)}
    return replace(plan, argv=(*before, *plan.argv), env=tuple(sorted(env.items())))


def _held(setting: ConfineSetting, encoded: bytes, found: Confined) -> str:
    """Return the launcher's argument: grants, seccomp filter, kept capabilities."""
    refused = b""
    machine = launcher.architecture()
    if not found.no_seccomp and machine:
        spared = (os.getpid(), -os.getpgrp())
        refused = compiled(machine, frozenset(setting.allow), spared)
    kept = launcher.FILES_OF_ANY_OWNER if "any_owner" in setting.allow else ()
    return launcher.encode(encoded, refused, (PARENT, PARENTS_GROUP), kept)


def _must_open_no_keys(spec: ServerSpec, granted: FileGrants) -> None:
    """Warn of a grant that opens the hub's keys. Raises: ChildError for `confine: require`."""
    opened = [path for path in granted.keys if Path(path).is_dir() and any(Path(path).iterdir())]
    for path in opened:
        if spec.confine.mode == "require":
            why = f"it is granted {path}, which has the hub's keys"
            raise ChildError(f"it cannot be confined, and `confine: require` is set: {why}")
        log.warning("CAN READ the hub's keys", server=spec.name, keys=path, asked="confine: auto")


def _program(spec: ServerSpec, plan: LaunchPlan) -> Program:
    """Return the plan's program with its files. Raises: ChildError if there is no such command."""
    cwd = spec.target.cwd if isinstance(spec.target, LaunchTemplate) else None
    # A `cwd` that depends on the roots is itself granted as a root, or is the parent of one.
    directory = plan.cwd if cwd is not None and not cwd.mentions_roots else None
    env = {**spec.inherits, **dict(plan.env)}
    found = program(
        plan.argv,
        env,
        home=home_directory(spec.inherits),
        directory=directory,
        writable=(*plan.roots.paths, *spec.confine.write),
    )
    if found is None:
        raise ChildError(f"it cannot start: {plan.no_command}")
    return found


def _grants(spec: ServerSpec, plan: LaunchPlan, found: Program, places: PrivateDirs) -> FileGrants:
    system = (place for place in (*SYSTEM, *SETTINGS, *KERNEL) if Path(place).exists())
    kept = (places.cache or cache_of(spec.name, spec.inherits),) if _is_runner(plan) else ()
    writable = (*DEVICES, places.home, places.tmp, *kept)
    policy = spec.confined_by or spec.policy
    readable = (*system, *found.read)
    granted = file_grants(spec.confine, plan, policy, reads=readable, writes=writable)
    others = Path(tempfile.gettempdir()).resolve()
    opened = (
        f"it can write in other servers' private folders in {others}: {grant.path} is writable"
        for grant in granted.write
        if others.is_relative_to(grant.path)
    )
    return replace(granted, unheld=(*granted.unheld, *opened))


def _is_runner(plan: LaunchPlan) -> bool:
    return short_name(plan.argv[0]) in RUNNERS


def _env(places: PrivateDirs, plan: LaunchPlan) -> dict[str, str]:
    home, cache = places.home, places.cache
    env = {
        "HOME": home,
        **dict.fromkeys(("TMPDIR", "TMP", "TEMP"), places.tmp),
        "XDG_CACHE_HOME": f"{home}/.cache",
        "XDG_CONFIG_HOME": f"{home}/.config",
        "XDG_DATA_HOME": f"{home}/.local/share",
        "XDG_RUNTIME_DIR": places.tmp,
        "XDG_STATE_HOME": f"{home}/.local/state",
    }
    if not _is_runner(plan):
        return env
    if short_name(plan.argv[0]) in {"pnpm", "pnpx"}:  # npm warns about unknown variables
        env["npm_config_store_dir"] = f"{cache}/pnpm"
    return env | {
        "BUN_INSTALL_CACHE_DIR": f"{cache}/bun",
        "DENO_DIR": f"{cache}/deno",
        "PIPX_HOME": f"{cache}/pipx",
        "UV_CACHE_DIR": f"{cache}/uv",
        "UV_PYTHON_INSTALL_DIR": f"{cache}/uv-python",
        "UV_TOOL_DIR": f"{cache}/uv-tools",
        "YARN_CACHE_FOLDER": f"{cache}/yarn",
        "npm_config_cache": f"{cache}/npm",
        "npm_config_update_notifier": "false",
    }


def _furnish(places: PrivateDirs, environment: Mapping[str, str], *, keeps: bool) -> None:
    home = Path(places.home)
    for place in (home, Path(places.tmp)):
        place.mkdir(mode=0o700)
    if keeps:
        Path(places.cache).mkdir(mode=0o700, parents=True, exist_ok=True)
    user = _git_user(environment)
    if user:
        (home / ".gitconfig").write_text(user, encoding="utf-8")


def _git_user(environment: Mapping[str, str]) -> str:
    """Return a git config with the user's name and email, which commits need; empty if unset."""
    git = shutil.which("git", path=environment.get("PATH"))
    if git is None:
        return ""
    command = [git, "config", "--global", "-z", "--get-regexp", r"^user\.(name|email)$"]
    try:
        said = subprocess.run(  # noqa: S603 - the user's own git
            command,
            env=dict(environment),
            capture_output=True,
            check=True,
            timeout=GIT_PATIENCE,
        ).stdout.decode("utf-8", "replace")
    except (OSError, subprocess.SubprocessError):
        return ""
    lines = ["[user]"]
    for entry in said.split("\0")[:-1]:
        key, _, value = entry.partition("\n")
        escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        lines.append(f'\t{key.removeprefix("user.")} = "{escaped}"')
    return "\n".join(lines) + "\n"


def settle_confinement(servers: Iterable[ServerSpec], kernel: Kernel) -> None:
    """Log a warning for each server that this kernel cannot confine, or only in part.

    Raises: ConfigError for a server with `confine: require` that cannot be confined.
    """
    for spec in servers:
        if isinstance(spec.target, LaunchTemplate):
            _settle(spec, confinement_status(spec.confine, spec.target, kernel))


def _settle(spec: ServerSpec, found: ConfinementStatus) -> None:
    match found:
        case Unconfined(reason) if spec.confine.mode == "require":
            raise ConfigError(
                f"servers.{spec.name}.confine",
                f"is require, but confining fails: {reason}",
                "`roots-hub check --confine` shows why. With confine: auto it runs unconfined.",
            )
        case Unconfined(reason):
            log.warning("NOT confined", server=spec.name, asked="confine: auto", reason=reason)
        case Confined(abi, no_seccomp):
            if no_seccomp:
                log.warning("confined WITHOUT seccomp", server=spec.name, reason=no_seccomp)
            tell = log.warning if spec.confine.mode == "require" else log.info
            for text in missing(abi):
                tell("not enforced by this kernel", server=spec.name, abi=abi, what=text)
        case NotAsked():
            pass
