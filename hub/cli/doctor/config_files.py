"""The configs' files: whether they load, who may write them, and who may read secrets in them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from itertools import chain, count
from pathlib import Path
from typing import Any, cast

from hub.cli.doctor.scene import (
    NO_FILE,
    OTHERS_READ,
    OTHERS_WRITE,
    LookedAtConfig,
    Scene,
    barred_by,
    is_directory,
    is_others,
    is_plain_file,
    open_to,
    quoted,
    status,
    take_over,
)
from hub.cli.output import Finding
from hub.config.clients.entries import read_entry
from hub.config.importing.secrets import SecretVariables, hidden, looks_secret
from hub.errors import Fault

_UNSET = re.compile(r"the (?:variable|input) (\w+) (?:is not set|has no value)")
_SECTIONS = ("servers", "mcpServers", "mcp_servers", "context_servers", "extensions")


def configs(scene: Scene) -> Iterator[Finding]:
    """Yield the mistakes for which configs do not load, and the servers that are left out."""
    for one in scene.configs:
        for fault in one.faults:
            yield _fault(fault, one, scene, "config")
        for left in one.left_out:
            for fault in left.faults:
                found = _fault(fault, one, scene, "servers")
                what = f"{left.name} is left out: {found.what}"
                yield Finding(found.level, "servers", found.where, what, found.fix)
        if one.config is not None:
            count = len(one.specs)
            what = f"loads, with {count} server{'' if count == 1 else 's'}"
            yield Finding("ok", "config", one.name, what)
    if not scene.configs and not scene.entries:
        what = "there is no hub.yaml in this directory, and no client has the hub"
        yield Finding("note", "config", str(scene.directory), what, f"{scene.hub} init")


def _fault(fault: Fault, config: LookedAtConfig, scene: Scene, about: str) -> Finding:
    """Return a mistake as a finding."""
    unset = _UNSET.search(fault.what)
    if fault.what == NO_FILE:
        return Finding("problem", about, fault.where, fault.what, fault.fix)
    fix = f"In {config.name}: {fault.fix} Then: {scene.hub} check{config.option}"
    if unset:
        fix = f"export {unset[1]}='...'"
    elif config.path is not None and not os.access(config.path, os.R_OK):
        fix = _readable(config.path, scene)
    return Finding("problem", about, fault.where, fault.what, fix)


def _readable(path: Path, scene: Scene) -> str:
    """Return the command that makes a config that can be read of a file that cannot."""
    above, found = barred_by(path), status(path)
    other = "Name a config of your own: --config FILE."
    if above is not None:
        is_own = (seen := status(above)) is not None and not is_others(seen)
        return f"chmod u+rwx {quoted(above)}" if is_own else take_over(above) or other
    if found is None and path.is_symlink():
        return f"rm {quoted(path)} && {scene.hub} init --yes --output {quoted(path)}"
    if found is None:
        made = f"mkdir -p {quoted(path.parent)} && " if not is_directory(path.parent) else ""
        return f"{made}{scene.hub} init --yes --output {quoted(path)}"
    if is_others(found):
        return take_over(path) or other
    return f"chmod u+r {quoted(path)}"


def modes(scene: Scene) -> Iterator[Finding]:
    """Yield the configs that other users may write, or that have secrets which they may read."""
    for one in scene.configs:
        found = None if one.path is None else status(one.path)
        if one.path is None or found is None or not is_plain_file(one.path):
            continue
        where = one.name
        if is_others(found) and found.st_uid != 0:
            what = "belongs to another user, and it names commands that run as you"
            own = _own_copy(scene)
            copy = f"cp {quoted(one.path)} {own} && {scene.hub} doctor --config {own}"
            yield Finding("problem", "config", where, what, take_over(one.path) or copy)
        elif open_to(found, OTHERS_WRITE):
            what = "other users may write it, and it names commands that run as you"
            yield Finding("problem", "config", where, what, f"chmod go-w {quoted(one.path)}")
        if open_to(found, OTHERS_READ) and _has_secrets(one):
            what = "has a secret in it, and other users may read it"
            yield Finding("warning", "config", where, what, f"chmod 600 {quoted(one.path)}")


def _own_copy(scene: Scene) -> str:
    """Return a new file in the home directory, as a word of a command."""
    home = scene.home or scene.directory
    more = (home / f"hub-{number}.yaml" for number in count(2))
    return quoted(next(one for one in chain([home / "hub.yaml"], more) if status(one) is None))


def raw_servers(config: LookedAtConfig) -> dict[str, dict[str, Any]]:
    """Return the servers of a config as they are written; empty if it cannot be parsed."""
    for section in _SECTIONS:
        found = config.raw.get(section)
        if isinstance(found, dict):
            entries = cast("dict[str, object]", found).items()
            return {
                name: cast("dict[str, Any]", one) for name, one in entries if isinstance(one, dict)
            }
    return {}


def _has_secrets(config: LookedAtConfig) -> bool:
    for name, raw in raw_servers(config).items():
        server = read_entry(raw).server
        if any(one.value is not None for one in hidden(name, server, SecretVariables({}))[1]):
            return True
    if config.config is None:
        return False
    return any(looks_secret(written, "token") for written in _written_tokens(config))


def _written_tokens(config: LookedAtConfig) -> Iterator[str]:
    """Yield the hub's tokens as the file spells them."""
    listen: object = config.raw.get("listen")
    if isinstance(listen, dict):
        keys = cast("dict[str, Any]", listen)
        for one in (keys, *keys.get("tokens", ())):
            if one.get("token"):
                yield str(one["token"])
