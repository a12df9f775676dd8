"""Find the changes that let a refused call pass, by making them and judging the call again."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, cast

from msgspec import Struct

from hub.calls.permission import Change
from hub.config.fields import AccessAt
from hub.config.models import FallbackRoot, Guard, HubConfig, StdioServer, ToolOverride
from hub.config.operator_roots import roots_in
from hub.guard.keys.vocabulary import Kind

_MOST: Final = 8


class Setup(Struct, frozen=True):
    """What a call is judged with: a config, and the folders of `--root`."""

    config: HubConfig
    given: tuple[str, ...] = ()


def allowing(
    setup: Setup, needed: Callable[[Setup], Sequence[Change] | None]
) -> tuple[Change, ...] | None:
    """Return the changes after which the call passes; None if none are known.

    `needed` judges the call with a setup: None if it passes, else the changes for its refusal.
    """
    made: list[Change] = []
    for _ in range(_MOST):
        next_ones = needed(setup)
        if next_ones is None:
            return tuple(made)
        new = [change for change in next_ones if change not in made]
        if not new:
            return None
        for change in new:
            setup = changed(setup, change)
        made += new
    return None


def changed(setup: Setup, change: Change) -> Setup:
    """Return `setup` after a change; one that is no setting (a client's roots) changes nothing."""
    config, given = setup.config, setup.given
    match change.key.split("."):
        case ["--root" | "HUB_ROOTS"]:
            before = given or tuple(roots_in(os.environ))
            return Setup(config, (*before, str(change.value)))
        case ["roots", key]:
            roots = _with(config.roots, key, _roots_value(config, key, change))
            return Setup(_with(config, "roots", roots), given)
        case ["servers", *_]:
            return Setup(_with(config, "servers", _servers(config, change)), given)
        case _:
            return setup


def _roots_value(config: HubConfig, key: str, change: Change) -> object:
    before, value = getattr(config.roots, key), cast("Any", change.value)
    if change.op == "set":
        return value
    if change.op == "remove":
        return tuple(one for one in before if one != value)
    made = {"fallback": _fallback, "access": _access}.get(key, str)
    return (*before, made(value))


def _fallback(path: Any) -> FallbackRoot:
    return FallbackRoot.model_construct(path=path, name=None)


def _access(entry: Any) -> AccessAt:
    return AccessAt.model_construct(**entry)


def _servers(config: HubConfig, change: Change) -> Mapping[str, object]:
    name = next(one for one in _longest_first(config.servers) if _is_of(one, change.key))
    server, rest = config.servers[name], change.key.removeprefix(f"servers.{name}.")
    value = cast("Any", change.value)
    if rest.startswith("guard."):
        guard = config.guard_of(name).model_copy()
        own = server.guard or Guard.model_construct(_fields_set=set(), **guard.model_dump())
        made = _with(server, "guard", _with(own, rest.removeprefix("guard."), value))
    elif rest == "args" and isinstance(server, StdioServer):
        made = _with(server, "args", (*server.args, value))
    elif rest == "roots.args":
        made = _with(server, "roots", _with(server.roots, "args", value))
    else:
        tool = rest.removeprefix("tools.overrides.").removesuffix(".arguments")
        before = server.tools.overrides.get(tool) or ToolOverride()
        kinds = {pointer: Kind(kind) for pointer, kind in value.items()}
        override = _with(before, "arguments", {**before.arguments, **kinds})
        overrides = {**server.tools.overrides, tool: override}
        made = _with(server, "tools", _with(server.tools, "overrides", overrides))
    return {**config.servers, name: made}


def _longest_first(names: Iterable[str]) -> list[str]:
    return sorted(names, key=len, reverse=True)


def _is_of(name: str, key: str) -> bool:
    return key.startswith(f"servers.{name}.")


def _with(model: Any, key: str, value: object) -> Any:
    """Return a copy of a part of the config with another value, which counts as written there."""
    return model.model_copy(update={key: value})
