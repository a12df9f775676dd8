"""What is wrong with a config that loads: folders, variables, audit file, port, tokens.

Tokens: the hub's own that are weak or end, and servers' that have expired. None is shown.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import re
import socket
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from errno import EADDRINUSE
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, cast

from msgspec.structs import replace

from hub.app.machine import place_of, this_machine
from hub.audit.open_file import unfit
from hub.cli.check.problems import folder_problems, token_problems
from hub.cli.check.secrets import secret_problems, secret_warnings
from hub.cli.doctor.configs import raw_servers
from hub.cli.doctor.scene import LookedAtConfig, Scene, opened_up, quoted, status
from hub.cli.terminal import Finding
from hub.config.inheritance import missed
from hub.config.listening.listen import GUESSABLE, is_guessable
from hub.legible import on_one_line
from hub.roots.effective import for_server

_TRIES: Final = 50


def variables(scene: Scene) -> Iterator[Finding]:
    """Yield the variables that servers mention and do not get."""
    for config, spec in scene.specs():
        for what, fix in missed(spec, scene.environment):
            where = f"servers.{spec.name}"
            place = f"In {config.name}, below {where}: {fix}"
            yield Finding("warning", "servers", where, what, place)


def folders(scene: Scene) -> Iterator[Finding]:
    """Yield the folders that configs name and that are not there, or cannot be used."""
    for config in scene.configs:
        if config.config is None or config.roots is None:
            continue
        roots = config.roots
        servers = ((spec, for_server(roots, spec.ceiling)) for spec in config.specs)
        place = place_of(this_machine(os.environ), config.config, config.path)
        for one in folder_problems(config.config, servers, place):
            yield replace(one.finding, fix=one.command or config.edit_fix(one.finding))


def secrets(scene: Scene) -> Iterator[Finding]:
    """Yield the secrets of servers that cannot be read, and those that other users can read."""
    for config in scene.configs:
        if config.config is None:
            continue
        for look in (secret_problems, secret_warnings):
            for one in look(config.config, config.specs):
                yield replace(one, fix=config.edit_fix(one)) if one.fix else one


def audit_file(scene: Scene) -> Iterator[Finding]:
    """Yield why the audit file of a config cannot be written."""
    for config in scene.configs:
        if config.config is None or config.config.audit is None:
            continue
        path = Path(config.config.audit.file)
        found = unfit(path)
        if found is not None:
            what = f"cannot be the audit file: {found[0]}"
            yield Finding("problem", "audit", str(path), what, _audit_fix(path, config))


def _audit_fix(path: Path, config: LookedAtConfig) -> str:
    found = status(path)
    if path.is_symlink():
        return config.set_fix("audit.file", os.path.realpath(path))
    if found is None:
        return _audit_folder_fix(path, config)
    if stat.S_ISDIR(found.st_mode):
        return config.set_fix("audit.file", str(path / "audit.jsonl"))
    if found.st_nlink > 1:
        return config.set_fix("audit.file", f"{path}.new")
    return opened_up(path, "600") or _audit_elsewhere(config)


def _audit_folder_fix(path: Path, config: LookedAtConfig) -> str:
    above = status(path.parent)
    if above is None:
        return f"mkdir -p {quoted(path.parent)}"
    if not stat.S_ISDIR(above.st_mode):
        return config.set_fix("audit.file", f"{path.parent}.jsonl")
    return opened_up(path.parent, "u+rwx") or _audit_elsewhere(config)


def _audit_elsewhere(config: LookedAtConfig) -> str:
    folder = Path.home() if config.path is None else config.path.parent
    return config.set_fix("audit.file", str(folder / "audit.jsonl"))


def port(scene: Scene) -> Iterator[Finding]:
    """Yield whether another program has the port that `run --http` would serve at."""
    told: set[tuple[str, int]] = set()
    for config in scene.configs or (None,):
        listen = None if config is None or config.config is None else config.config.listen
        host, number = ("127.0.0.1", 8765) if listen is None else (listen.host, listen.port)
        is_named = listen is not None and bool({"host", "port"} & listen.model_fields_set)
        why = None if (host, number) in told or not number else _why_not(host, number)
        told.add((host, number))
        if why is None:
            continue
        where, level = f"{host}:{number}", "problem" if is_named else "warning"
        if why == EADDRINUSE:
            holder = _holder(number)
            if holder.endswith("(roots-hub)"):
                yield Finding("ok", "port", where, f"a hub serves there: {holder}")
                continue
            what = f"is in use{f' by {holder}' if holder else ''}"
        else:
            what = f"cannot be listened on: {os.strerror(why) if why > 0 else 'no such host'}"
        yield Finding(level, "port", where, what, _port_fix(config, host, number, is_named, scene))


def _port_fix(
    config: LookedAtConfig | None, host: str, number: int, is_named: bool, scene: Scene
) -> str:
    base = number if 8765 <= number < 65536 - _TRIES else 8765  # noqa: PLR2004 - all ports
    free = next(
        (one for one in range(base + 1, base + _TRIES) if _why_not(host, one) is None), None
    )
    if free is None:
        host, free = "127.0.0.1", base + 1
        if config is not None and is_named:
            return config.set_fix("listen.host", host)
    if config is not None and is_named:
        return config.set_fix("listen.port", str(free))
    shown = f"[{host}]" if ":" in host else host
    return f"{scene.hub} run --http {shown}:{free}{'' if config is None else config.option}"


def _why_not(host: str, number: int) -> int | None:
    """Return the error of listening at a port: its number, or -1 without one; None if it works."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family) as trying:
            if os.name != "nt":
                trying.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trying.bind((host, number))
    except (OSError, UnicodeError, OverflowError) as exc:
        known = getattr(exc, "errno", None)
        return known if isinstance(known, int) and known > 0 else -1
    return None


def _holder(number: int) -> str:
    """Return the process that listens on a port: its id and program; empty if not known."""
    owners: dict[str, int] = {}
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with suppress(OSError):
            for line in Path(table).read_text(encoding="ascii").splitlines()[1:]:
                fields = line.split()
                if fields[3] == "0A" and int(fields[1].rpartition(":")[2], 16) == number:
                    owners[f"socket:[{fields[9]}]"] = int(fields[7])
    hubs: list[str] = []
    for process in Path("/proc").glob("[0-9]*") if owners else ():
        with suppress(OSError):
            words = os.fsdecode((process / "cmdline").read_bytes()).split("\0")
            named = f"process {process.name} ({_program_of(words)})"
            try:
                if any(os.readlink(one) in owners for one in (process / "fd").iterdir()):  # noqa: PTH115 - a name, no path
                    return named
            except PermissionError:  # a hub shows its files to root only
                is_http = any(word.partition("=")[0] == "--http" for word in words)
                hubs += [named] if is_http and named.endswith("(roots-hub)") else []
    return " or ".join(hubs) if hubs and os.getuid() in owners.values() else ""


def _program_of(words: list[str]) -> str:
    """Return the name of a process's program. Its arguments may hold secrets."""
    names = [Path(word).name for word in words[:4]]
    is_module = any(pair == ("-m", "hub") for pair in pairwise(words))
    return "roots-hub" if "roots-hub" in names or is_module else on_one_line(names[0])


_NEW: Final = 'export HUB_TOKEN="$(openssl rand -hex 32)"'
_NEW_WITHOUT_OPENSSL: Final = (
    "export HUB_TOKEN=\"$(head -c 32 /dev/urandom | od -An -v -tx1 | tr -d ' \\n')\""
)
_JWT: Final = re.compile(r"\beyJ[\w-]+\.[\w-]+\.[\w-]*")
_VARIABLE: Final = re.compile(r"\$\{(?:env:)?([A-Za-z_]\w*)(?::-[^{}]*)?\}")
_NAMING: Final = frozenset({"bearer_token_env_var", "env_vars", "env_keys", "env_http_headers"})
_DEPTH: Final = 8


def tokens(scene: Scene) -> Iterator[Finding]:
    """Yield which of the hub's tokens are empty, too easy to guess, have ended, or end soon."""
    given = scene.environment.get("HUB_TOKEN")
    if given is not None and (not given.strip() or is_guessable(given)):
        what = GUESSABLE if given.strip() else "is empty: no token is asked for"
        new = _NEW if scene.which("openssl") else _NEW_WITHOUT_OPENSSL
        yield Finding("warning", "token", "HUB_TOKEN", what, new)
    for config in scene.configs:
        if config.config is None:
            continue
        own = config.config.listen.token
        for one in token_problems(config.config):
            if one.where == "listen.token" and own and own.get_secret_value() == given:
                continue  # told as HUB_TOKEN: it is written as ${HUB_TOKEN}
            fix = one.fix.replace("roots-hub", scene.hub, 1)
            line = f"prints another one, and its line for {config.name}."
            yield replace(one, fix=f"{fix} {line}")


def expired_tokens(scene: Scene) -> Iterator[Finding]:
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
