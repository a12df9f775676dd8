"""Opens the connections of a hub's clients."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count

from hub.calls.dispatch import CallDispatcher, RequestRegistry
from hub.calls.modern_calls import ModernCalls, principal_key_of
from hub.calls.resolve import Relay
from hub.calls.rounds.modern_routes import Headers
from hub.calls.rounds.sealed_state import StateSealer
from hub.calls.routes import CallRoute, KnownAnswer
from hub.jsonrpc.messages import Request
from hub.jsonrpc.peer import Outlet
from hub.server.connection import ClientConnection
from hub.sessions.services import Services
from hub.system.tasks import TaskStarter
from hub.values import SessionKey


class ConnectionBuilder:
    """Opens the client connections of one hub; implements `ConnectionFactory`.

    `seals` is for states that outlive the process. `profiles` has the services of each profile; it
    may change.
    """

    def __init__(
        self,
        services: Services,
        seals: StateSealer | None = None,
        profiles: Mapping[str, Services] | None = None,
    ) -> None:
        self._services = services
        self._seals = seals
        self._profiles: Mapping[str, Services] = {} if profiles is None else profiles
        self._within: dict[str, ConnectionBuilder] = {}
        self._relay = Relay(services)
        self._rounds = ModernCalls(self._relay, services, seals)
        self._clients = count(1)

    def __call__(self, outlet: Outlet, tasks: TaskStarter, principal: str, /) -> ClientConnection:
        return ClientConnection(
            self._relay, self._rounds, self._services, outlet, tasks, principal=principal
        )

    def within(self, profile: str | None, /) -> ConnectionBuilder:
        if profile is None:
            return self
        made = self._within.get(profile)
        if made is None:
            made = ConnectionBuilder(self._profiles[profile], self._seals)
            made._clients = self._clients  # the keys of their sessions are the hub's
            self._within[profile] = made
        return made

    def route_for(
        self, principal: str, request: Request, headers: Headers, /
    ) -> CallRoute | KnownAnswer | None:
        kept = principal_key_of(principal, None)
        return self._rounds.route_for(self._services.identity_of(principal), kept, request, headers)

    def dispatcher(self, register: RequestRegistry, tasks: TaskStarter, /) -> CallDispatcher:
        return self._rounds.dispatcher(register, tasks, SessionKey(f"post {next(self._clients)}"))
