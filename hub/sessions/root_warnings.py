"""What the operator's log says of a client for which no root is in force."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from hub.jsonrpc.rated_log import RatedLog
from hub.launch.plan import LaunchTemplate, passes_roots
from hub.roots.no_roots import why_no_roots
from hub.roots.state import State
from hub.sessions.operator_roots import Operator
from hub.specs import ServerSpec

_WHY: Final = "it shares no roots, and there is no fallback"
_NAME_FOLDERS: Final = "name folders with --root or roots.fallback"


def warn_of_no_paths(
    log: RatedLog, state: State, operator: Operator, principal: str, client: str | None
) -> None:
    """Log why no path is allowed for a client, and what to do; once per client and advice."""
    told = why_no_roots(state, operator.roots())
    if operator.is_first_warning(principal, str(client), told.fix):
        log.warning(
            "no path is allowed for this client", client=client, reason=told.reason, fix=told.fix
        )


def warn_of_all_paths(
    log: RatedLog,
    servers: Iterable[ServerSpec],
    operator: Operator,
    principal: str,
    client: str | None,
) -> None:
    """Log, once per client, at which servers no roots restrict it."""
    event, fix = _unrestricted([one for one in servers if one.ceiling is None])
    if event and operator.is_first_warning(principal, str(client), event):
        log.warning(event, client=client, fix=fix)


def _unrestricted(servers: list[ServerSpec]) -> tuple[str, str]:
    """Return what to log of a client that reaches these servers without roots, and the advice.

    A server that is launched with roots gets none then: it is no place without restrictions.
    """
    bare = [one for one in servers if _is_launched_with_roots(one)]
    free = [one for one in servers if one not in bare]
    if not bare:
        event = f"this client is NOT restricted: {_WHY}" if free else ""
        return event, f"{_NAME_FOLDERS}, or set roots.when_missing: deny"
    rest = f"; its paths are not checked at {_named(free)}" if free else ""
    verb = "gets" if len(bare) == 1 else "get"
    event = f"{_named(bare)} {verb} no folder for this client: {_WHY}{rest}"
    return event, _NAME_FOLDERS


def _is_launched_with_roots(spec: ServerSpec) -> bool:
    return isinstance(spec.target, LaunchTemplate) and passes_roots(spec.target)


def _named(servers: list[ServerSpec]) -> str:
    names = ", ".join(repr(str(spec.name)) for spec in servers)
    return f"server {names}" if len(servers) == 1 else f"servers {names}"
