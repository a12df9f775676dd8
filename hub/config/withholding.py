"""Warn at the start of what servers do not get: all that is left out, variables, confinement.

A server that must be confined and cannot be is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import structlog

from hub.confinement.grants import (
    Confined,
    ConfinementStatus,
    NotAsked,
    Unconfined,
    confinement_status,
    missing,
)
from hub.errors import ConfigError
from hub.launch.environments import mentioned
from hub.launch.plan import LaunchTemplate
from hub.specs import LeftOut, RemoteTarget, ServerSpec
from hub.system.machine import Kernel

log = structlog.stdlib.get_logger(__name__)


def warn_of_left_out(left_out: Iterable[LeftOut]) -> None:
    """Log an error for each server that the config has and that cannot be used."""
    for one in left_out:
        for fault in one.faults:
            log.error(
                "server LEFT OUT",
                server=one.name,
                where=fault.where,
                what=fault.what,
                fix=fault.fix,
            )


def warn_of_missed(servers: Iterable[ServerSpec], environment: Mapping[str, str]) -> None:
    """Log a warning for each variable that a server misses."""
    for spec in servers:
        for what, fix in missed(spec, environment):
            sentence = f"servers.{spec.name}: {what}: {fix}"
            log.warning(sentence)


def missed(spec: ServerSpec, environment: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return for each variable of `environment` that a server misses what is wrong, and a remedy.

    A variable that its process inherits, or that the config sets or fills in, is not missed.
    For a remote server: each `$NAME` in its URL or headers that is sent literally.
    """
    if isinstance(spec.target, RemoteTarget):
        texts = (spec.target.url, *spec.target.headers.values())
        # URL and headers may hold secrets: show only names that are set in the environment.
        names = [name for name in mentioned(texts, environment, {}) if _is_sent(name, texts)]
        return [
            (f"${name} is sent literally, not replaced", f"write ${{{name}}}")
            for name in names
            if name in environment
        ]
    names = list(
        mentioned(_texts(spec.target), environment, {*spec.inherits, *dict(spec.target.env)})
    )
    return [
        (
            f"uses {name}, which its process does not inherit (environment: {_shown(spec)})",
            f'write env: {{{name}: "${{{name}}}"}}',
        )
        for name in names
    ]


def _texts(template: LaunchTemplate) -> tuple[str, ...]:
    """Return the command, arguments and `env` values of a server, without filled placeholders."""
    texts = (template.command, *template.args, *(value for _, value in template.env))
    filled = (text.filled(lambda _: "", ()) for text in texts if not text.spreads)
    return tuple("".join(part for part in one.parts if isinstance(part, str)) for one in filled)


def _is_sent(name: str, texts: tuple[str, ...]) -> bool:
    return any(f"${name}" in text or f"${{{name}}}" in text for text in texts)


def _shown(spec: ServerSpec) -> str:
    choice = spec.environment
    return choice if isinstance(choice, str) else f"[{', '.join(choice)}]"


def settle_confinement(servers: Iterable[ServerSpec], kernel: Kernel) -> None:
    """Log a warning for each server that this kernel cannot confine, or only in part.

    Raises: ConfigError for a server with `confine: require` that cannot be confined.
    """
    for spec in servers:
        if isinstance(spec.target, LaunchTemplate):
            _settle(spec, confinement_status(spec.confine, spec.target, kernel))


def _settle(spec: ServerSpec, found: ConfinementStatus) -> None:
    match found:
        case Unconfined(reason) if spec.confine.mode == "require":
            raise ConfigError(
                f"servers.{spec.name}.confine",
                f"is require, but confining fails: {reason}",
                "`roots-hub check --confine` shows why. With confine: auto it runs unconfined.",
            )
        case Unconfined(reason):
            log.warning("NOT confined", server=spec.name, asked="confine: auto", reason=reason)
        case Confined(abi, no_seccomp):
            if no_seccomp:
                log.warning("confined WITHOUT seccomp", server=spec.name, reason=no_seccomp)
            tell = log.warning if spec.confine.mode == "require" else log.info
            for text in missing(abi):
                tell("not enforced by this kernel", server=spec.name, abi=abi, what=text)
        case NotAsked():
            pass
