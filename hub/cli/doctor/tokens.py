"""Tokens: the hub's own that are weak or end, and servers' that have expired. None is shown."""

from __future__ import annotations

import base64
import binascii
import json
import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final, cast

from hub.cli.doctor.config_files import raw_servers
from hub.cli.doctor.scene import LookedAtConfig, Scene
from hub.cli.output import Finding
from hub.config.fields import is_unread

_LEAST: Final = 16
_NEW: Final = 'export HUB_TOKEN="$(openssl rand -hex 32)"'
_NEW_WITHOUT_OPENSSL: Final = (
    "export HUB_TOKEN=\"$(head -c 32 /dev/urandom | od -An -v -tx1 | tr -d ' \\n')\""
)
_JWT: Final = re.compile(r"\beyJ[\w-]+\.[\w-]+\.[\w-]*")
_VARIABLE: Final = re.compile(r"\$\{(?:env:)?([A-Za-z_]\w*)(?::-[^{}]*)?\}")
_NAMING: Final = frozenset({"bearer_token_env_var", "env_vars", "env_keys", "env_http_headers"})
_DEPTH: Final = 8


def own_token(scene: Scene) -> Iterator[Finding]:
    """Yield which of the hub's tokens is empty, or too easy to guess."""
    new = _NEW if scene.which("openssl") else _NEW_WITHOUT_OPENSSL
    given = scene.environment.get("HUB_TOKEN")
    if given is not None:
        yield from _weak("HUB_TOKEN", given, new)
    for config in scene.configs:
        own = None if config.config is None else config.config.listen.token
        if own is not None and not is_unread(own) and own.get_secret_value() != given:
            written = f'{new} && echo "$HUB_TOKEN" shows one. Write it in {config.name} as '
            written += "`listen.token`."
            yield from _weak("listen.token", own.get_secret_value(), written)
        for at, one in enumerate(() if config.config is None else config.config.listen.tokens):
            if one.token is not None and not is_unread(one.token):
                key = f"listen.tokens[{at}].token"
                fix = (
                    f"{scene.hub} token new {one.name} prints one, and its line for {config.name}."
                )
                yield from _weak(key, one.token.get_secret_value(), fix)


def _weak(where: str, value: str, fix: str) -> Iterator[Finding]:
    if not value.strip():
        yield Finding("warning", "token", where, "is empty: no token is asked for", fix)
    elif len(value) < _LEAST or len({*value}) < _LEAST // 2:
        what = f"is easy to guess: take {_LEAST} random characters or more"
        yield Finding("warning", "token", where, what, fix)


def ending(scene: Scene) -> Iterator[Finding]:
    """Yield which of the hub's tokens have ended, or end soon."""
    now = datetime.now(UTC)
    for config in scene.configs:
        for at, one in enumerate(() if config.config is None else config.config.listen.tokens):
            what = one.near_end(now)
            if what is not None:
                fix = f"{scene.hub} token new {one.name} --days 90 prints another one, and its "
                fix += f"line for {config.name}."
                yield Finding("warning", "token", f"listen.tokens[{at}].expires", what, fix)


def expired(scene: Scene) -> Iterator[Finding]:
    """Yield the JSON web tokens of servers whose time is over."""
    now = time.time()
    for config in scene.configs:
        for name, raw in raw_servers(config).items():
            for key, text in _texts(raw, f"servers.{name}"):
                yield from _in_text(key, text, config, scene, now)


def _in_text(
    key: str, text: str, config: LookedAtConfig, scene: Scene, now: float
) -> Iterator[Finding]:
    names = {*_VARIABLE.findall(text)}
    if _NAMING & {*key.split(".")}:
        names.add(text)
    for variable in sorted(names):
        if _has_ended(scene.environment.get(variable, ""), now):
            what = f"the token in the variable {variable} has expired"
            fix = f"Get a new token, then: export {variable}='...'"
            yield Finding("problem", "token", key, what, fix)
    if _has_ended(text, now):
        fix = f"Get a new token, and write it in {config.name} at {key}."
        yield Finding("problem", "token", key, "the token has expired", fix)


def _texts(value: object, key: str, depth: int = 0) -> Iterator[tuple[str, str]]:
    """Yield all texts in a parsed value, each with its key."""
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, dict) and depth < _DEPTH:
        for name, one in cast("dict[str, object]", value).items():
            yield from _texts(one, f"{key}.{name}", depth + 1)
    elif isinstance(value, list) and depth < _DEPTH:
        for at, one in enumerate(cast("list[object]", value)):
            yield from _texts(one, f"{key}[{at}]", depth + 1)


def _has_ended(text: str, now: float) -> bool:
    return any(end < now for end in map(_end, _JWT.findall(text)) if end is not None)


def _end(token: str) -> float | None:
    """Return when a JSON web token expires, in seconds since 1970; None if it does not say."""
    body = token.split(".")[1]
    try:
        claims = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    except (ValueError, binascii.Error, RecursionError):
        return None
    end = cast("dict[str, Any]", claims).get("exp") if isinstance(claims, dict) else None
    return float(end) if isinstance(end, int | float) and not isinstance(end, bool) else None
