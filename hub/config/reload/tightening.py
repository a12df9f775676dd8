"""Split a change of the config: what a running hub takes over now, what waits, and why; tell it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from msgspec import Struct

from hub.config.fields import Part, is_unread
from hub.config.listening.listen import Listen, NamedToken
from hub.config.models import (
    Confine,
    Guard,
    HubConfig,
    RemoteServer,
    StdioServer,
    ToolOverride,
    said_by,
)
from hub.config.reload.changed_keys import changed_keys, pattern_of, shown
from hub.config.reload.folders import covered, shared_paths, tighter_roots
from hub.config.reload.orders import NEEDS_RESTART, Locate, order_of, tighter_by_key
from hub.config.source.places import Path
from hub.errors import ConfigError, Fault, HubError, StartError
from hub.legible import on_one_line
from hub.sessions.operator import ConfigState

_NO_OVERRIDE: Final = ToolOverride()
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


def _tighter_guard(old: HubConfig, new: HubConfig, hub: Guard, server: str) -> Guard | None:
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


def _tighter_overrides(
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


MOST_FAULTS = 3
"""So many mistakes of a file are told in its state; the log has all."""


class ReloadReport(Struct, frozen=True):
    """What a reload took over, what waits for the user (and `because` of what), and what failed.

    `error`: why nothing was taken over, but that tokens or issuers were taken out. `file` is the
    name of the config. `earlier` was taken over by the reload before: a hub may notice a change
    before the user asks. `is_in_force`: there is a client that it is in force for.
    """

    file: str | None = None
    taken: tuple[str, ...] = ()
    waiting: tuple[WaitingKey, ...] = ()
    restart: tuple[str, ...] = ()
    error: str | None = None
    because: str | None = None
    earlier: tuple[str, ...] = ()
    is_in_force: bool = True

    def lines(self) -> list[str]:
        """Return the report as lines for a terminal."""
        if self.error is not None:
            what = "Nothing was taken over: the config that was in force stays."
            if self.taken:
                what = f"Taken over: what is taken out of {', '.join(self.taken)}; nothing else."
            return [what, *self.error.splitlines()]
        return [on_one_line(line) for line in self._lines()]

    def _lines(self) -> Iterator[str]:
        if not self.is_in_force:
            yield f"No client is there: the next one gets {self.file} as it is then."
            return
        if self.taken:
            yield f"Taken over from {self.file}: {', '.join(self.taken)}"
        if self.waiting:
            yield f"Waiting for `roots-hub reload`, as {self.because}:"
            yield from (f"  {one.key}: {one.why}" for one in self.waiting)
        if self.restart:
            yield f"After a restart of the hub: {', '.join(self.restart)}"
        if not (self.taken or self.waiting or self.restart):
            yield f"{self.file} has nothing new."
            if self.earlier:
                yield f"Taken over before: {', '.join(self.earlier)}"

    def state(self) -> ConfigState:
        """Return the state of the config file after a reload without error."""
        waiting = tuple(one.key for one in self.waiting)
        return ConfigState(self.file, None, waiting, self.restart)


def faults_of(error: HubError) -> tuple[Fault, ...]:
    """Return the mistakes that an error names, with remedies."""
    if isinstance(error, ConfigError):
        return error.faults
    if isinstance(error, StartError):
        return (Fault("", error.what, error.fix),)
    what, _, fix = str(error).partition("\n")
    return (Fault("", what, fix),)


def told(faults: tuple[Fault, ...]) -> str:
    """Return the first mistakes as sentences, without the lines of the file."""
    sentences = [on_one_line(f"{one.said}. {one.fix}") for one in faults[:MOST_FAULTS]]
    if len(faults) > MOST_FAULTS:
        sentences.append(f"And {len(faults) - MOST_FAULTS} more.")
    return " ".join(sentences)
