"""Which of two values of a config's key is tighter. A change of a key without an order loosens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar

from msgspec import Struct

from hub.config.fields import Part, is_unread
from hub.config.listening.auth import TrustedIssuer
from hub.config.listening.listen import NamedToken, PrincipalLimits
from hub.config.listening.profile import Profile
from hub.config.models import Confine, RemoteAuth
from hub.guard.keys.vocabulary import Kind
from hub.guard.policy import DenyPatterns
from hub.launch.environments import Inherits

Locate: TypeAlias = Callable[[str], tuple[str, ...] | None]
"""Returns the components of a path with all links followed; None if it cannot be followed."""

PartT = TypeVar("PartT", bound=Part)


class Order(Struct, frozen=True):
    """How one key tightens, and `why` a change of it that does more waits for the user.

    `tighter` returns the part of a change that tightens: what allows no more than the first value.
    """

    tighter: Callable[[Any, Any], Any]
    why: str


def _kept(why: str) -> Order:
    """Return the order of a key of which no change is known to tighten."""
    return Order(lambda old, _new: old, why)


def _ranked(*values: object, why: str) -> Order:
    """Return the order of a key with these values, the loosest first."""

    def tighter(old: object, new: object) -> object:
        return max(old, new, key=values.index)

    return Order(tighter, why)


def _at_most(why: str) -> Order:
    """Return the order of a limit; None is no limit."""

    def tighter(old: float | None, new: float | None) -> float | None:
        if old is None or new is None:
            return new if old is None else old
        return min(old, new)

    return Order(tighter, why)


def _fewer(old: tuple[object, ...], new: tuple[object, ...]) -> tuple[object, ...]:
    """Return the tighter of two lists whose entries each allow something."""
    return tuple(one for one in new if one in old)


def _more(old: tuple[object, ...], new: tuple[object, ...]) -> tuple[object, ...]:
    """Return the tighter of two lists whose entries are each demanded."""
    return (*new, *(one for one in old if one not in new))


def _tokens(old: tuple[NamedToken, ...], new: tuple[NamedToken, ...]) -> tuple[NamedToken, ...]:
    """Return the tokens that are in both lists, each with the earlier of its two ends."""
    made: list[NamedToken] = []
    for one in new:
        for was in old:
            if was.model_copy(update={"expires": one.expires}) == one or _is_unread(was, one):
                ends = (end for end in (was.expires, one.expires) if end is not None)
                end = min(ends, default=None)
                is_same = end == was.expires  # then the key stays unset where it was
                made.append(was if is_same else was.model_copy(update={"expires": end}))
    return tuple(made)


def _is_unread(old: NamedToken, new: NamedToken) -> bool:
    """Return whether a token is not read again, so that nobody knows whether it is another."""
    is_named_so = old.name == new.name and old.token is not None
    return is_named_so and new.token is not None and is_unread(new.token)


def _issuers(
    old: tuple[TrustedIssuer, ...], new: tuple[TrustedIssuer, ...]
) -> tuple[TrustedIssuer, ...]:
    """Return the issuers that are in both lists, each as it lets fewer in.

    Without any the old ones stay: an empty list is no `auth`.
    """
    before = {one.issuer: one for one in old}
    shared = [(before[one.issuer], one) for one in new if one.issuer in before]
    return tuple(one if _lets_in_fewer(was, one) else was for was, one in shared) or old


def _lets_in_fewer(old: TrustedIssuer, new: TrustedIssuer) -> bool:
    """Return whether a token of `new` must be as one of `old`, if not with further claims."""
    narrowed = old.model_copy(update={"claims": new.claims, "algorithms": new.algorithms})
    wanted, was = new.wanted_claims, old.wanted_claims
    return (
        narrowed == new
        and set(new.algorithms) <= set(old.algorithms)
        and all(name in wanted and set(wanted[name]) <= set(was[name]) for name in was)
    )


def _restrictions(
    is_exception: Callable[[Any], bool], old: tuple[Any, ...], new: tuple[Any, ...]
) -> tuple[Any, ...]:
    """Return the tighter list of two, of which later entries may be exceptions from earlier ones.

    A list allows no more with further restrictions, wherever they stand, and with fewer exceptions.
    """
    if not any(map(is_exception, new)) and all(one in new for one in old if not is_exception(one)):
        return new
    left = [one for one in old if not is_exception(one) or one in new]
    if left == [one for one in new if is_exception(one) or one in old]:
        return new
    return (*left, *(one for one in new if one not in old and not is_exception(one)))


def _burst(old: int | None, new: int | None) -> int | None:
    # Without it the rate says how many may come at once: that is no limit to compare with.
    return old if old is None or new is None else min(old, new)


def _profiles(old: dict[str, Profile], new: dict[str, Profile]) -> dict[str, Profile]:
    """Return the old profiles with lower limits where the new ones have them."""
    made = dict(old)
    for name, one in old.items():
        limits = tighter_by_key(one.limits, new.get(name, one).limits, "profiles.*.limits")
        if limits != one.limits:
            made[name] = one.model_copy(update={"limits": limits})
    return made


def _share(old: str, new: str) -> str:
    # With `all`, a process has no roots: it may get more files when that ends.
    order = ("roots", "auto", "session")
    return old if "all" in {old, new} else max(old, new, key=order.index)


_WILDCARDS: Final = frozenset("*?[")


def _is_covered(glob: str, globs: Sequence[str]) -> bool:
    if glob in globs or "*" in globs:
        return True
    return _WILDCARDS.isdisjoint(glob) and any(fnmatchcase(glob, one) for one in globs)


def _shared_globs(old: tuple[str, ...], new: tuple[str, ...]) -> tuple[str, ...]:
    found = [one for one in new if _is_covered(one, old)]
    if len(found) < len(new):
        found += [one for one in old if _is_covered(one, new) and one not in found]
    return tuple(found)


def _all_globs(old: tuple[str, ...], new: tuple[str, ...]) -> tuple[str, ...]:
    return (*new, *(one for one in old if not _is_covered(one, new)))


def _arguments(old: dict[str, Kind], new: dict[str, Kind]) -> dict[str, Kind]:
    """Return the old kinds, but without `ignore` where it is gone: other kinds cannot be ranked."""
    made: dict[str, Kind] = {}
    for pointer, kind in old.items():
        if kind is not Kind.IGNORE:
            made[pointer] = kind
        elif pointer in new:
            made[pointer] = new[pointer]
    return new if made == new and [*made] == [*new] else made


def _environment(old: Inherits, new: Inherits) -> Inherits:
    if old in {"all", new} or new in {"minimal", ()}:
        return new
    if isinstance(old, tuple) and isinstance(new, tuple):
        return _shared_globs(old, new)
    return old


_LOOSER: Final = "it may let more calls through"
_HIGHER: Final = "a higher limit"
_LAUNCH: Final = "it would run something else, or otherwise"
_REACH: Final = "calls would go elsewhere, or otherwise"
_INHERITS: Final = "the server would inherit more variables"
_CONFINED: Final = "the server would be confined less"
_TEXT: Final = "models read this text"
_CLIENTS: Final = "it may let other clients in"
_SHOWN: Final = "it changes what is offered, or under which name"
_UNKNOWN: Final = "it is not known to tighten"
_SCOPES: Final = "tokens with fewer scopes would do"

_GUARD: Final = {
    "mode": _ranked("off", "report", "enforce", why=_LOOSER),
    "on_refused": _ranked("ask", "refuse", why=_LOOSER),
    "symlinks": _ranked("follow", "deny", why=_LOOSER),
    "rewrite": _kept(_UNKNOWN),
    "refuse_options": _ranked(False, True, why=_LOOSER),
}
_ROOTS: Final = {
    # They only mean something together: see `folders`.
    **dict.fromkeys(("fallback", "detect"), _kept("it may grant other folders")),
    "ceiling": _kept("roots may reach further"),  # with `deny`: see `folders`
    **dict.fromkeys(("when_missing", "when_empty"), _ranked("allow", "deny", why=_LOOSER)),
    "strict": _ranked(False, True, why=_LOOSER),
    # After the timeout the fallback counts, which may have more than the client's roots.
    **dict.fromkeys(("timeout", "debounce"), _kept(_UNKNOWN)),
    "reuse": _at_most("roots would count for longer"),
    "deny": Order(partial(_restrictions, lambda line: DenyPatterns((line,)).brings_back), _LOOSER),
    "allow_unsafe": _ranked(True, False, why=_LOOSER),
    "access": Order(partial(_restrictions, lambda rule: rule.access == "write"), _LOOSER),
}
_LIMITS: Final = {
    **{key: _at_most(_HIGHER) for key in PrincipalLimits.model_fields},
    "burst": Order(_burst, _HIGHER),
}
_LISTEN: Final = {
    **dict.fromkeys(("host", "port", "path", "token", "keys", "replica"), _kept(_CLIENTS)),
    "tokens": Order(_tokens, _CLIENTS),  # the last one stays: see `tightening`
    **dict.fromkeys(("adopt", "names", "origins", "trusted_proxies"), Order(_fewer, _CLIENTS)),
    "poll_after": _kept(_UNKNOWN),
    "max_result": _at_most(_HIGHER),
    **{f"limits.{key}": order for key, order in _LIMITS.items()},
    # Without any other token it stays: see `tightening`.
    "auth": Order(lambda old, new: new if new is None else old, _CLIENTS),
    "auth.resource": _kept(_CLIENTS),
    "auth.issuers": Order(_issuers, _CLIENTS),
    "auth.scopes": Order(_more, _SCOPES),
}
_OVERRIDE: Final = {
    "title": _kept(_TEXT),
    "description": _kept(_TEXT),
    "access": _ranked("read", None, "write", why=_LOOSER),
    "guard": _kept(_LOOSER),  # with the server's guard: see `tightening`
    "scopes": Order(_more, _SCOPES),
    "arguments": Order(_arguments, _LOOSER),
}
_SERVER: Final = {
    **{f"guard.{key}": order for key, order in _GUARD.items()},
    "share": Order(_share, "more clients may share a process"),
    "start": _ranked("eager", "auto", "lazy", why="it would start without a call"),
    **dict.fromkeys(("start_timeout", "timeout", "concurrency", "idle_stop"), _at_most(_HIGHER)),
    "era": _kept(_UNKNOWN),
    "describe_roots": _kept(_TEXT),
    "scopes": Order(_more, _SCOPES),
    "tools.allow": Order(_shared_globs, "more tools would be offered"),
    "tools.deny": Order(_all_globs, "more tools would be offered"),
    **{f"tools.overrides.*.{key}": order for key, order in _OVERRIDE.items()},
    **dict.fromkeys(("command", "args", "env", "cwd", "roots.args"), _kept(_LAUNCH)),
    "environment": Order(_environment, _INHERITS),
    "roots.answer": _kept(_UNKNOWN),
    # They only mean something together: see `tightening`.
    **dict.fromkeys((f"confine.{key}" for key in Confine.model_fields), _kept(_CONFINED)),
    "paths": _ranked("remote", "local", why=_LOOSER),
    **dict.fromkeys(("url", "headers", "transport", "auth"), _kept(_REACH)),
    **dict.fromkeys((f"auth.{key}" for key in RemoteAuth.model_fields), _kept(_REACH)),
}

ORDERS: Final[dict[str, Order]] = {
    "version": _kept(_UNKNOWN),
    **{f"listen.{key}": order for key, order in _LISTEN.items()},
    **{f"roots.{key}": order for key, order in _ROOTS.items()},
    **{f"guard.{key}": order for key, order in _GUARD.items()},
    **dict.fromkeys(("names", "expose"), _kept(_SHOWN)),
    "instructions": _kept(_TEXT),
    **dict.fromkeys(("max_children", "max_children_per_session"), _at_most(_HIGHER)),
    **dict.fromkeys(("linger", "drain", "stdio.max_result"), _at_most(_HIGHER)),
    **dict.fromkeys(("audit", "audit.file"), _kept("calls would be recorded elsewhere, or not")),
    # One key, but for the limits: those may be lower while the rest of a change waits.
    "profiles": Order(_profiles, "clients may get more"),
    **{f"profiles.*.limits.{key}": order for key, order in _LIMITS.items()},
    # Their order counts in listings only.
    "servers": Order(lambda _old, new: new, ""),
    "servers.*": _kept("it would be started or reached for the first time"),
    **{f"servers.*.{key}": order for key, order in _SERVER.items()},
}
"""The order of each key, by its pattern (`pattern_of`)."""

NEEDS_RESTART: Final = (
    "listen.host",
    "listen.port",
    "listen.path",
    "listen.poll_after",
    "listen.keys",
    "listen.replica",
    "listen.adopt",
    "drain",
)
"""Keys that a running hub does not take over, each with all below it."""


def order_of(pattern: str) -> Order:
    """Return the order of a key; of one that is not in the table no change tightens."""
    return ORDERS.get(pattern, _NOT_THERE)


_NOT_THERE: Final = _kept(_UNKNOWN)


def tighter_by_key(old: PartT, new: PartT, at: str) -> PartT:
    """Return the tighter of two parts, where each key means something alone; "" is the whole."""
    values: dict[str, object] = {}
    for key in type(old).model_fields:
        was, wanted, pattern = getattr(old, key), getattr(new, key), f"{at}.{key}".removeprefix(".")
        if isinstance(was, Part) and type(was) is type(wanted):
            values[key] = tighter_by_key(was, wanted, pattern)
        else:
            values[key] = order_of(pattern).tighter(was, wanted)
    return new.model_copy(update=values)
