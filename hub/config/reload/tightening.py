"""Split a change of the config: the keys that differ, what a running hub takes over, what waits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final, cast

from msgspec import Struct

from hub.config.fields import Part, is_unread
from hub.config.listening.listen import Listen, NamedToken, PrincipalLimits
from hub.config.listening.profile import Profile
from hub.config.models import (
    Confine,
    Guard,
    HubConfig,
    RemoteServer,
    Roots,
    StdioServer,
    ToolOverride,
    said_by,
)
from hub.config.reload.folders import covered, shared_paths, tighter_roots
from hub.config.reload.orders import NEEDS_RESTART, Locate, order_of, tighter_by_key
from hub.config.source.places import Path, shown_key, spelled
from hub.specs import LeftOut

ANY: Final = "*"
"""Stands for the name of any server, tool or profile in a pattern."""
_NO_OVERRIDE: Final = ToolOverride()
_NO_LIMITS: Final = PrincipalLimits()


def changed_keys(old: HubConfig, new: HubConfig) -> Iterator[Path]:
    """Yield the keys that differ; a key that is not set is its default.

    A server that only one config has, or that is left out of one, is a key as a whole. So is a
    mapping such as `env`, and so are the profiles but for their limits.
    """
    for name in type(old).model_fields:
        if name == "servers":
            yield from _servers(old, new)
        elif name == "profiles":
            yield from _profiles(old, new)
        else:
            yield from _differing(_value(old, name), _value(new, name), (name,))


def pattern_of(path: Path) -> str:
    """Return a key with `*` for names of servers, tools and profiles: `servers.*.command`."""
    names = [*map(str, path)]
    if names[0] == "profiles" and len(names) > 1:
        names[1] = ANY
    if names[0] == "servers" and len(names) > 1:
        names[1] = ANY
        if names[2:4] == ["tools", "overrides"] and len(names) > 4:  # noqa: PLR2004 - the tool
            names[4] = ANY
    return ".".join(names)


def shown(path: Path) -> str:
    """Return a key as people read it, without what may be a secret in it."""
    return spelled(tuple(shown_key(str(part), path[:at]) for at, part in enumerate(path)))


def _servers(old: HubConfig, new: HubConfig) -> Iterator[Path]:
    before = [name for name in old.servers if name in new.servers]
    if before != [name for name in new.servers if name in old.servers]:
        yield ("servers",)  # their order
    entries, new_entries = _entries(old), _entries(new)
    for name in dict.fromkeys((*entries, *new_entries)):
        was, is_now = entries.get(name), new_entries.get(name)
        if isinstance(was, Part) and type(was) is type(is_now):
            yield from _differing(was, is_now, ("servers", name))
        elif was != is_now:
            yield "servers", name


def _profiles(old: HubConfig, new: HubConfig) -> Iterator[Path]:
    if _without_limits(old) != _without_limits(new):
        yield ("profiles",)
    for name, was in old.profiles.items():
        is_now = new.profiles.get(name, was)
        yield from _differing(was.limits, is_now.limits, ("profiles", name, "limits"))


def _without_limits(config: HubConfig) -> list[tuple[str, Profile]]:
    """Return the profiles in their order: of several that fit the first one counts."""
    return [
        (name, one.model_copy(update={"limits": _NO_LIMITS}))
        for name, one in config.profiles.items()
    ]


def _entries(config: HubConfig) -> dict[str, Part | LeftOut]:
    return {**{str(one.name): one for one in config.left_out}, **config.servers}


def _differing(old: object, new: object, at: Path) -> Iterator[Path]:
    pattern = pattern_of(at)
    if pattern == "servers.*.guard":
        was, is_now = said_by(cast("Guard | None", old)), said_by(cast("Guard | None", new))
        names = Guard.model_fields
        yield from ((*at, name) for name in names if was.get(name) != is_now.get(name))
    elif pattern == "servers.*.tools.overrides":
        before, after = cast("tuple[dict[str, ToolOverride], ...]", (old, new))
        for tool in dict.fromkeys((*before, *after)):
            was, is_now = before.get(tool, _NO_OVERRIDE), after.get(tool, _NO_OVERRIDE)
            yield from _differing(was, is_now, (*at, tool))
    elif isinstance(old, Part) and type(old) is type(new):
        for name in type(old).model_fields:
            yield from _differing(_value(old, name), _value(cast("Part", new), name), (*at, name))
    elif old != new:
        yield at


def _value(part: Part, name: str) -> object:
    value = getattr(part, name)
    if isinstance(part, Roots) and name == "fallback":
        return "fallback" in part.model_fields_set, value  # an empty list grants nothing
    if isinstance(part, ToolOverride) and name == "arguments":
        return tuple(part.arguments.items())  # of two pointers to one argument the later one counts
    return value


_LONG_AGO: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NOBODYS: Final = NamedToken(name="nobody", sha256="0" * 64)
"""No text is known that has this hash."""
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
    running: HubConfig, new: HubConfig, *, only_tightens: bool, locate: Locate
) -> ConfigChange:
    """Return what becomes of the config `new` in a hub that runs with `running`.

    `only_tightens`: nothing is taken over that may allow more than `running` does.
    """
    startable = _without_restart(running, new)
    taken = _tightened(running, startable, locate) if only_tightens else startable
    return ConfigChange(
        taken,
        _spelled(changed_keys(running, taken)),
        tuple(WaitingKey(shown(at), _why(at, running)) for at in changed_keys(taken, startable)),
        _spelled(changed_keys(startable, new)),
    )


def without_revoked(running: HubConfig, said: Mapping[str, Any]) -> ConfigChange:
    """Return `running` as far as it lets in who is let in by the keys `said` of `listen`, too.

    Without any token everybody would be let in: so some stay that have ended, or one of nobody's.
    """
    was = running.listen
    new = was.model_copy(update=said)
    listen = tighter_by_key(was, new, "listen")
    keeps_token = new.token is not None and (new.token == was.token or is_unread(new.token))
    left = {
        "token": was.token if keeps_token else None,
        "auth": listen.auth if _issuers_of(was) & _issuers_of(new) else None,
    }
    listen = listen.model_copy(update=left)
    if was.is_guarded and not listen.is_guarded:
        ended = tuple(one.model_copy(update={"expires": _LONG_AGO}) for one in was.tokens)
        listen = listen.model_copy(update={"tokens": ended or (_NOBODYS,)})
    made = running.model_copy(update={"listen": listen})
    return ConfigChange(made, _spelled(changed_keys(running, made)))


def _issuers_of(listen: Listen) -> set[str]:
    return set() if listen.auth is None else {one.issuer for one in listen.auth.issuers}


def _spelled(keys: Iterable[Path]) -> tuple[str, ...]:
    return tuple(map(shown, keys))


def _why(at: Path, running: HubConfig) -> str:
    if len(at) == 2 and at[1] in running.servers:  # noqa: PLR2004 - the server as a whole
        return _OTHERWISE
    return order_of(pattern_of(at)).why


def _without_restart(running: HubConfig, new: HubConfig) -> HubConfig:
    """Return `new` with what cannot change while the hub runs as in `running`."""
    made = new
    for key in NEEDS_RESTART:
        first, _, second = key.partition(".")
        value = getattr(running, first)
        if second:
            part: Part = getattr(made, first)
            value = part.model_copy(update={second: getattr(value, second)})
        made = made.model_copy(update={first: value})
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
    roots = tighter_roots(old.roots, new.roots, locate)
    values: dict[str, object] = {"roots": roots, "servers": {}}
    made = _with_a_token(old, tighter_by_key(old, new, "").model_copy(update=values))
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
    guard = _tighter_guard(old, new, made.guard, name)
    effective = made.guard.model_copy(update=said_by(guard))
    server = tighter_by_key(was, wanted, "servers.*")
    overrides = _tighter_overrides(old, new, effective, name)
    tools = server.tools.model_copy(update={"overrides": overrides})
    values: dict[str, object] = {"guard": guard, "tools": tools}
    if isinstance(was, StdioServer) and isinstance(wanted, StdioServer):
        values["confine"] = _tighter_confinement(was.confine, wanted.confine, locate)
    return server.model_copy(update=values)


def _tighter_confinement(old: Confine, new: Confine, locate: Locate) -> Confine:
    """Return the tighter of two ways to confine a server."""
    if old.mode == "off" or old == new:
        return new
    if new.mode == "off":
        return old
    # By both: what may be written may be read.
    read = covered(new.read, (*old.read, *old.write), locate)
    read += covered(old.read, (*new.read, *new.write), locate)
    return Confine(
        mode="require" if "require" in {old.mode, new.mode} else "auto",
        read=tuple(dict.fromkeys(read)),
        write=shared_paths(old.write, new.write, locate),
        allow=tuple(one for one in new.allow if one in old.allow),
        abi=max(old.abi, new.abi),
    )


def _tighter_guard(old: HubConfig, new: HubConfig, hub: Guard, server: str) -> Guard | None:
    """Return the keys of a server's guard that make it as tight as both; `hub` is the hub's."""
    before, after = old.guard_of(server), new.guard_of(server)
    was, wanted = said_by(old.servers[server].guard), said_by(new.servers[server].guard)
    said: dict[str, object] = {}
    for key in Guard.model_fields:
        needed = order_of(f"guard.{key}").tighter(getattr(before, key), getattr(after, key))
        for side in (wanted, was, {key: needed}):
            if side.get(key, getattr(hub, key)) == needed:
                said.update((one, value) for one, value in side.items() if one == key)
                break
    return Guard.model_validate(said) if said else None


def _tighter_overrides(
    old: HubConfig, new: HubConfig, guard: Guard, server: str
) -> dict[str, ToolOverride]:
    """Return the tighter overrides for a server's tools; `guard` is the server's from now on."""
    before, after = old.servers[server].tools.overrides, new.servers[server].tools.overrides
    made: dict[str, ToolOverride] = {}
    for tool in dict.fromkeys((*after, *before)):
        was, wanted = before.get(tool, _NO_OVERRIDE), after.get(tool, _NO_OVERRIDE)
        one = tighter_by_key(was, wanted, "servers.*.tools.overrides.*")
        needed = order_of("guard.mode").tighter(
            was.guard or old.guard_of(server).mode, wanted.guard or new.guard_of(server).mode
        )
        modes = (wanted.guard, was.guard, needed)
        mode = next(mode for mode in modes if (mode or guard.mode) == needed)
        one = one.model_copy(update={"guard": mode})
        if one != _NO_OVERRIDE:
            made[tool] = one
    return made
