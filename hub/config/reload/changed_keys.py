"""Find the keys in which two configs differ."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Final, cast

from hub.config.fields import Part
from hub.config.listening.listen import PrincipalLimits
from hub.config.listening.profile import Profile
from hub.config.models import Guard, HubConfig, Roots, ToolOverride, said_by
from hub.config.source.excerpts import shown_key
from hub.config.source.places import Path, spelled
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
    if _in_both(old.servers, new.servers) != _in_both(new.servers, old.servers):
        yield ("servers",)  # their order
    before, after = _entries(old), _entries(new)
    for name in dict.fromkeys((*before, *after)):
        was, is_now = before.get(name), after.get(name)
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


def _in_both(names: Iterable[str], others: Container[str]) -> list[str]:
    return [name for name in names if name in others]


def _entries(config: HubConfig) -> dict[str, Part | LeftOut]:
    return {**{str(one.name): one for one in config.left_out}, **config.servers}


def _differing(old: object, new: object, at: Path) -> Iterator[Path]:
    pattern = pattern_of(at)
    if pattern == "servers.*.guard":
        was, is_now = said_by(cast("Guard | None", old)), said_by(cast("Guard | None", new))
        for name in Guard.model_fields:
            if was.get(name) != is_now.get(name):
                yield *at, name
    elif pattern == "servers.*.tools.overrides":
        yield from _overrides(*cast("tuple[_Overrides, _Overrides]", (old, new)), at)
    elif isinstance(old, Part) and type(old) is type(new):
        for name in type(old).model_fields:
            yield from _differing(_value(old, name), _value(cast("Part", new), name), (*at, name))
    elif old != new:
        yield at


_Overrides = Mapping[str, ToolOverride]


def _overrides(old: _Overrides, new: _Overrides, at: Path) -> Iterator[Path]:
    for tool in dict.fromkeys((*old, *new)):
        was, is_now = old.get(tool, _NO_OVERRIDE), new.get(tool, _NO_OVERRIDE)
        yield from _differing(was, is_now, (*at, tool))


def _value(part: Part, name: str) -> object:
    value = getattr(part, name)
    if isinstance(part, Roots) and name == "fallback":
        return "fallback" in part.model_fields_set, value  # an empty list grants nothing
    if isinstance(part, ToolOverride) and name == "arguments":
        return tuple(part.arguments.items())  # of two pointers to one argument the later one counts
    return value
