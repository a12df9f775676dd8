"""Split a change of the config: what a running hub takes over now, and what waits, and why."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

from hub.config.fields import Part
from hub.config.models import HubConfig, RemoteServer, StdioServer
from hub.config.reload.changed_keys import changed_keys, pattern_of, said_by, shown
from hub.config.reload.folders import tighter_roots
from hub.config.reload.orders import NEEDS_RESTART, Locate, order_of, tighter_by_key
from hub.config.reload.parts import (
    tighter_confinement,
    tighter_guard,
    tighter_overrides,
)
from hub.config.source.places import Path

_OTHERWISE: Final = "it would be reached in another way"


class WaitingKey(Struct, frozen=True):
    """A changed key that waits for the user, and why, as a part of a sentence."""

    key: str
    why: str


class ConfigChange(Struct, frozen=True):
    """What becomes of a changed config: `config` is to be taken over now.

    `taken` are the keys in which it differs from the running one. Of the new config, the keys
    `waiting` wait for the user, and those in `restart` for the next start.
    """

    config: HubConfig
    taken: tuple[str, ...] = ()
    waiting: tuple[WaitingKey, ...] = ()
    restart: tuple[str, ...] = ()


def config_change(
    running: HubConfig,
    new: HubConfig,
    *,
    only_tightens: bool,
    locate: Locate,
    needs_restart: Sequence[str] = NEEDS_RESTART,
) -> ConfigChange:
    """Return what becomes of the config `new` in a hub that runs with `running`.

    `only_tightens`: nothing is taken over that may allow more than `running` does.
    """
    startable = _without_restart(running, new, needs_restart)
    taken = _tightened(running, startable, locate) if only_tightens else startable
    return ConfigChange(
        taken,
        _spelled(changed_keys(running, taken)),
        tuple(WaitingKey(shown(at), _why(at, running)) for at in changed_keys(taken, startable)),
        _spelled(changed_keys(startable, new)),
    )


def _spelled(keys: Iterable[Path]) -> tuple[str, ...]:
    return tuple(map(shown, keys))


def _why(at: Path, running: HubConfig) -> str:
    if len(at) == 2 and at[1] in running.servers:  # noqa: PLR2004 - the server as a whole
        return _OTHERWISE
    return order_of(pattern_of(at)).why


def _without_restart(running: HubConfig, new: HubConfig, keys: Sequence[str]) -> HubConfig:
    """Return `new` with what cannot change while the hub runs as in `running`."""
    made = new
    for key in keys:
        first, _, second = key.partition(".")
        value = getattr(running, first)
        if second:
            part: Part = getattr(made, first)
            value = part.model_copy(update={second: getattr(value, second)})
        made = made.model_copy(update={first: value})
    if "servers" in keys:
        made = made.with_left_out(running.left_out)
    # The old address may be one that needs a token.
    has_old_address = made.listen.host != new.listen.host
    # What is to keep strangers out may be what waits for the restart.
    is_open_till_then = new.listen.is_guarded and not made.listen.is_guarded
    return _with_a_token(running, made) if has_old_address or is_open_till_then else made


def _with_a_token(running: HubConfig, made: HubConfig) -> HubConfig:
    """Return `made`; if it has no tokens, with those of `running`: without any, all are let in."""
    own, was = made.listen, running.listen
    if own.is_guarded:
        return made
    kept = {"token": was.token, "tokens": was.tokens, "auth": was.auth}
    listen = own.model_copy(update=kept)
    return made.model_copy(update={"listen": listen})


def _tightened(old: HubConfig, new: HubConfig, locate: Locate) -> HubConfig:
    """Return `new` as far as it tightens `old`."""
    values: dict[str, object] = {}
    for key in type(old).model_fields:
        was, wanted = getattr(old, key), getattr(new, key)
        if isinstance(was, Part) and type(was) is type(wanted):
            values[key] = tighter_by_key(was, wanted, key)
        else:
            values[key] = order_of(key).tighter(was, wanted)
    values["roots"] = tighter_roots(old.roots, new.roots, locate)
    made = _with_a_token(old, new.model_copy(update={**values, "servers": {}}))
    servers = {
        name: _server(old, new, made, name, locate) for name in new.servers if name in old.servers
    }
    # A server that was left out and could run now waits. Until then it is left out as before.
    left_out = [one for one in old.left_out if one.name in new.servers]
    made = made.with_left_out((*new.left_out, *left_out))
    return made.model_copy(update={"servers": servers})


def _server(
    old: HubConfig, new: HubConfig, made: HubConfig, name: str, locate: Locate
) -> StdioServer | RemoteServer:
    """Return the server `name` of `new` as far as it tightens; `made` has the hub's guard."""
    was, wanted = old.servers[name], new.servers[name]
    if type(was) is not type(wanted):
        return was
    guard = tighter_guard(old, new, made.guard, name)
    effective = made.guard.model_copy(update=said_by(guard))
    server = tighter_by_key(was, wanted, "servers.*")
    overrides = tighter_overrides(old, new, effective, name)
    tools = server.tools.model_copy(update={"overrides": overrides})
    values: dict[str, object] = {"guard": guard, "tools": tools}
    if isinstance(was, StdioServer) and isinstance(wanted, StdioServer):
        values["confine"] = tighter_confinement(was.confine, wanted.confine, locate)
    return server.model_copy(update=values)
