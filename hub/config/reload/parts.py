"""What is tighter, for keys that only mean something together: of confinement and of guards."""

from __future__ import annotations

from typing import Final

from hub.config.models import Confine, Guard, HubConfig, ToolOverride
from hub.config.reload.changed_keys import said_by
from hub.config.reload.folders import covered, shared_paths
from hub.config.reload.orders import Locate, order_of, tighter_by_key

_NO_OVERRIDE: Final = ToolOverride()


def tighter_confinement(old: Confine, new: Confine, locate: Locate) -> Confine:
    """Return the tighter of two ways to confine a server."""
    if old.mode == "off" or old == new:
        return new
    if new.mode == "off":
        return old
    return Confine(
        mode="require" if "require" in {old.mode, new.mode} else "auto",
        read=_read_paths(old, new, locate),
        write=shared_paths(old.write, new.write, locate),
        allow=tuple(one for one in new.allow if one in old.allow),
        abi=max(old.abi, new.abi),
    )


def _read_paths(old: Confine, new: Confine, locate: Locate) -> tuple[str, ...]:
    """Return the paths that a server may read by both: what may be written may be read."""
    found = (
        *covered(new.read, (*old.read, *old.write), locate),
        *covered(old.read, (*new.read, *new.write), locate),
    )
    return tuple(dict.fromkeys(found))


def tighter_guard(old: HubConfig, new: HubConfig, hub: Guard, server: str) -> Guard | None:
    """Return the keys of a server's guard that make it as tight as both; `hub` is the hub's."""
    before, after = old.guard_of(server), new.guard_of(server)
    was, wanted = said_by(old.servers[server].guard), said_by(new.servers[server].guard)
    said: dict[str, object] = {}
    for key in Guard.model_fields:
        needed = _tightest(f"guard.{key}", getattr(before, key), getattr(after, key))
        for side in (wanted, was, {key: needed}):
            if side.get(key, getattr(hub, key)) == needed:
                said.update((one, value) for one, value in side.items() if one == key)
                break
    return Guard.model_validate(said) if said else None


def tighter_overrides(
    old: HubConfig, new: HubConfig, guard: Guard, server: str
) -> dict[str, ToolOverride]:
    """Return the tighter overrides for a server's tools; `guard` is the server's from now on."""
    before, after = old.servers[server].tools.overrides, new.servers[server].tools.overrides
    made: dict[str, ToolOverride] = {}
    for tool in dict.fromkeys((*after, *before)):
        was, wanted = before.get(tool, _NO_OVERRIDE), after.get(tool, _NO_OVERRIDE)
        one = tighter_by_key(was, wanted, "servers.*.tools.overrides.*")
        needed = _tightest(
            "guard.mode",
            was.guard or old.guard_of(server).mode,
            wanted.guard or new.guard_of(server).mode,
        )
        modes = (wanted.guard, was.guard, needed)
        mode = next(mode for mode in modes if (mode or guard.mode) == needed)
        one = one.model_copy(update={"guard": mode})
        if one != _NO_OVERRIDE:
            made[tool] = one
    return made


def _tightest(pattern: str, old: object, new: object) -> object:
    return order_of(pattern).tighter(old, new)
