"""Whether the token that a call came with has the scopes that the call needs."""

from __future__ import annotations

from collections.abc import Sequence

from hub.calls.addressing import Addressed
from hub.calls.audit_trail import turned_away_at
from hub.catalog.names import Names
from hub.errors import InsufficientScopeError
from hub.jsonrpc.peer import Asked
from hub.sessions.session import Session
from hub.specs import ServerSpec
from hub.values import CallMethod, ServerName


def has_scopes(granted: frozenset[str] | None, needed: Sequence[str]) -> bool:
    """Return whether a token with the scopes `granted` will do; None: one that has no scopes."""
    return granted is None or granted.issuperset(needed)


def check_call(
    session: Session, asked: Asked, spec: ServerSpec, method: CallMethod, name: str
) -> None:
    """Check the scopes for a call of `name` at a server; a refusal is recorded under that name.

    Raises: InsufficientScopeError.
    """
    needed = spec.scopes.of(method, name)
    if not needed or has_scopes(asked.granted, needed):
        return
    missing = [scope for scope in needed if scope not in (asked.granted or ())]
    error = InsufficientScopeError(needed, missing)
    turned_away_at(session, spec.name, name, str(error))
    raise error


def check_before_route(session: Session, asked: Asked, named: Addressed) -> None:
    """Check the scopes of a call as far as its name tells where it leads, and nothing is looked up.

    Raises: InsufficientScopeError.
    """
    services = session.services
    if asked.granted is None or not services.needs_scopes or named.question is not None:
        return
    spec = _only_owner(session, named)
    if spec is not None:
        name = _own_tool(named, spec, services.names) or named.name
        check_call(session, asked, spec, named.method, name)


def _only_owner(session: Session, named: Addressed) -> ServerSpec | None:
    """Return the server that a name must lead to; None if it may be another one, or the hub."""
    services = session.services
    owners = named.servers(services.names)
    if owners is None:
        owners = services.names.servers
    return services.servers.get(next(iter(owners))) if len(owners) == 1 else None


def _own_tool(named: Addressed, spec: ServerSpec, names: Names) -> str | None:
    """Return a server's own name of a tool that needs scopes of its own, if that is called."""
    if named.method != "tools/call":
        return None
    for tool in spec.scopes.tools:
        if named.name in _public(spec.name, tool, names, is_own=named.server is not None):
            return tool
    return None


def _public(server: ServerName, tool: str, names: Names, *, is_own: bool) -> set[str | None]:
    """Return the names that a tool may be called by."""
    if is_own:
        return {tool}
    return {names.public(server, tool), names.prefixed(server, tool), names.alias(server, tool)}
