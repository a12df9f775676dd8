"""Dispatches one call in a task: session, route, guard, child, response. No step is skipped."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from typing import TypeAlias, cast

import anyio
from msgspec.structs import replace

from hub.audit.record import refusal_of
from hub.calls.addressing import Addressed, address, check_headers
from hub.calls.audit_trail import CallAudit, looking_up
from hub.calls.builtin_tools import answer, get_roots
from hub.calls.caller import ClientCaller
from hub.calls.consent import JudgingContext, decide_or_ask
from hub.calls.era_bridge import send_to_urls
from hub.calls.listings import Listings
from hub.calls.results import UNCACHED, completed
from hub.calls.rounds.modern_routes import ModernRoutes
from hub.calls.rounds.roots_needed import (
    RootsRequirement,
    need_before_deciding,
    need_before_looking,
)
from hub.calls.routes import SessionRoutes, resolved_route_of
from hub.catalog.merge import Catalog
from hub.catalog.search import SearchError
from hub.children.child import Child, StaleError, log_from
from hub.children.clients import Caller, RootsNeededError, Stoppable
from hub.children.failures import denied, failed, tool_error
from hub.errors import ChildError, RouteError
from hub.guard.decide import Admitted, Refused, ToolGuard, compile_tool
from hub.jsonrpc.messages import Payload
from hub.jsonrpc.peer import Asked, RpcError
from hub.protocol.request_state import NO_RETRY, CallState, RetryInput
from hub.roots.effective import EffectiveRoots
from hub.sessions.services import Services
from hub.sessions.session import Session
from hub.specs import ServerSpec
from hub.values import (
    BuiltinRoute,
    Call,
    CallMethod,
    ChildRoute,
    JsonObject,
    Route,
    ServerName,
)

MAX_JUDGEMENTS = 4
"""How many times one call is judged if its roots or its child change while it waits."""
_TOO_FAST = "its roots, or its server, change faster than the call can be sent"

Owners: TypeAlias = Collection[ServerName] | None
"""The servers that may own a public name; None if any server may."""

CallerFactory: TypeAlias = Callable[[JudgingContext, Stoppable], Caller]
"""Returns the `Caller` through which the child reaches the client of an admitted call.

The `Stoppable` gives the call up if its client has to be asked for its roots.
"""


class Relay:
    """Sends the calls of all sessions to their children, and caches the resolved routes."""

    def __init__(self, services: Services) -> None:
        self.listings = Listings(services)
        self.session_routes = SessionRoutes()
        self.modern_routes = ModernRoutes(services.info, services.expose)
        self._services = services
        self._guards: dict[tuple[str, str, str], tuple[object, ToolGuard]] = {}

    async def call(
        self,
        session: Session,
        asked: Asked,
        retry: RetryInput = NO_RETRY,
        caller_factory: CallerFactory | None = None,
    ) -> Payload:
        """Return the child's result for one call, or the guard's refusal.

        A legacy client gets the result unchanged. `retry` is the input of a modern client's retry.
        `caller_factory` returns the `Caller`; by default that is the client of this request alone.

        Raises: RouteError for a name without a route; RpcError that the child answered;
            InputNeededError if a modern client must be asked for input first,
            RootsNeededError if it must be asked for its roots.
        """
        caller_factory = caller_factory or partial(
            _with_consent, ClientCaller.of(session, asked, retry)
        )
        try:
            return await self._take(session, asked, retry, caller_factory)
        except SearchError as exc:
            return tool_error(str(exc))

    async def _take(
        self, session: Session, asked: Asked, retry: RetryInput, caller_factory: CallerFactory
    ) -> Payload:
        method = cast("CallMethod", asked.request.method)
        named = address(method, asked.request.params, expose=self._services.expose)
        try:
            return await self._settled(session, asked, named, retry, caller_factory)
        except ChildError as exc:
            return failed(method, str(exc))

    async def _settled(
        self,
        session: Session,
        asked: Asked,
        named: Addressed,
        retry: RetryInput,
        caller_factory: CallerFactory,
    ) -> Payload:
        """Return a call's result; judge the call again while its verdict is stale before sending.

        Raises: ChildError after `MAX_JUDGEMENTS` stale verdicts, or if no server can take it.
        """
        for _ in range(MAX_JUDGEMENTS):
            with suppress(StaleError):
                return await self._call(session, asked, named, retry, caller_factory)
        with self._looking_up(session, named, named.servers(self._services.names)):
            raise ChildError(_TOO_FAST)

    async def _call(
        self,
        session: Session,
        asked: Asked,
        named: Addressed,
        retry: RetryInput,
        caller_factory: CallerFactory,
    ) -> Payload:
        owners = named.servers(self._services.names)
        with self._looking_up(session, named, owners):
            effective = await session.effective(asked.outlet)
            self._ask(session, asked, need_before_looking(session, named, owners))
            catalog = await self._catalog_for(session, effective, named, owners)
            if session.known_effective() != effective:
                raise StaleError  # the roots changed while the catalog was awaited
            route = self._route(session, named, owners, catalog)
        if isinstance(route, BuiltinRoute):
            if named.question is not None:
                return answer(named.question, session, catalog, self.listings.missing)
            return get_roots(session, effective)
        check_headers(session, named, route)
        slot = session.slot_for(self._services.servers[route.server], effective)
        call = named.call(catalog, route)
        guard = self._guard(slot.spec, call, route)
        case = JudgingContext(session, asked, call, guard, effective, slot, named.pointer, retry)
        return await self._judged(case, caller_factory, named.label)

    def _looking_up(
        self, session: Session, named: Addressed, owners: Owners
    ) -> AbstractContextManager[None]:
        if named.question is not None:
            return nullcontext()
        return looking_up(self._services, session, owners, named.name)

    def _route(self, session: Session, named: Addressed, owners: Owners, catalog: Catalog) -> Route:
        """Return the route of a call.

        Raises: RouteError if there is none; ChildError if one of `owners` is not running.
        """
        try:
            return named.route(catalog)
        except RouteError:
            trouble = self.listings.missing(session, owners or ())
            if trouble is None:
                raise
            raise ChildError(trouble) from None

    async def _judged(
        self, case: JudgingContext, caller_factory: CallerFactory, label: str
    ) -> Payload:
        """Return the child's result if the guard admits the call, or the refusal; audit both."""
        self._ask(case.session, case.asked, need_before_deciding(case))
        call, spec = case.call, case.slot.spec
        with CallAudit(self._services, case.session, spec.name, call.name) as record:
            verdict = await self._decide(case, record)
            if isinstance(verdict, Refused):
                return denied(call, verdict, spec, case.pointer(verdict.pointer))
            try:
                with case.slot.in_use(), case.slot.health.trying():
                    child = await self._obtain(case)
                    result = await self._answer(child, verdict, case, caller_factory)
                result = self._completed(case, result)
            except ChildError as exc:
                record.failed(str(exc))
                return failed(call.method, str(exc))
            except RpcError as exc:
                record.failed(str(exc))
                client, notifier = case.session.client, case.session.notifier
                send_to_urls(client, notifier, spec, exc, CallState(consented=case.consented))
                raise
            return self._keeping_route(label, case, child, result)

    def _ask(self, session: Session, asked: Asked, need: RootsRequirement | None) -> None:
        """Do nothing if `need` is None; otherwise remember it for the next calls of the same kind.

        Raises: RootsNeededError if there is a need: the client is asked for its roots.
        """
        if need is not None:
            self.modern_routes.ask(session, asked.request, need)
            raise RootsNeededError

    def _keeping_route(
        self, label: str, case: JudgingContext, child: Child, result: Payload
    ) -> Payload:
        """Return `result`, and cache the resolved route for the next calls of the same tool."""
        if case.session.is_modern:
            self.modern_routes.keep(case, child)
        elif (resolved := resolved_route_of(case, child)) is not None:
            self.session_routes.keep(case.session, label, resolved)
        return result

    def _completed(self, case: JudgingContext, result: Payload) -> Payload:
        """Return a child's result, with the fields that a modern client requires.

        Raises: RpcError for a result that cannot be read.
        """
        if not case.session.is_modern:
            return result
        hints = UNCACHED if case.call.method == "resources/read" else None
        return completed(result, self._services.info, hints)

    async def judge_again(self, case: JudgingContext) -> JsonObject | None:
        """Return, and audit, the refusal of a call in flight; None if the call may go on.

        Raises: RpcError for the refusal of a prompt or a resource.
        """
        verdict, spec = await case.decide(case.granted), case.slot.spec
        if not isinstance(verdict, Refused):
            return None
        with CallAudit(self._services, case.session, spec.name, case.call.name) as record:
            record.verdict = refused = _explained(verdict, spec, case.effective, case.here)
            case.session.refusals.add(spec, case.call, refused)
            return denied(case.call, refused, spec, case.pointer(refused.pointer))

    async def _catalog_for(
        self, session: Session, effective: EffectiveRoots, named: Addressed, owners: Owners
    ) -> Catalog:
        if owners is None and named.question is None:
            known = await self.listings.catalog(session, effective, ())
            if named.is_listed(known):
                return known
        return await self.listings.catalog(session, effective, owners)

    async def _obtain(self, case: JudgingContext) -> Child:
        try:
            return await self._services.children.obtain(case.slot)
        except ChildError:
            if case.is_still_valid():
                raise
            raise StaleError from None

    async def _answer(
        self, child: Child, admitted: Admitted, case: JudgingContext, caller_factory: CallerFactory
    ) -> Payload:
        log_level = case.session.notifier.log_level
        if log_level is not None and case.session.is_modern:
            await log_from(child, log_level)
        with anyio.CancelScope() as scope:
            caller = caller_factory(case, scope)
            try:
                return await child.call(admitted, caller, case.holds_with_room)
            finally:
                # The client gets the child's notifications before the result or the error.
                await caller.flush()
        raise RootsNeededError

    async def _decide(self, case: JudgingContext, record: CallAudit) -> Admitted | Refused:
        verdict = await decide_or_ask(case, record)
        refused = refusal_of(verdict)
        if refused is None:
            return verdict
        refused = _explained(refused, case.slot.spec, case.effective, case.here)
        case.session.refusals.add(case.slot.spec, case.call, refused, record.consent)
        if isinstance(verdict, Refused):
            verdict = record.verdict = refused
        return verdict

    def _guard(self, spec: ServerSpec, call: Call, route: ChildRoute) -> ToolGuard:
        """Return the compiled guard of a call; compile again only if the definition has changed."""
        is_tool = call.method == "tools/call"
        # All prompts of a server have one guard, and so have all its resources.
        definition = route.definition if is_tool else None
        key = (spec.name, call.method, route.name if is_tool else "")
        kept = self._guards.get(key)
        if kept is not None and kept[0] is definition:
            return kept[1]
        hints = None if definition is None else definition.get("annotations")
        read_only = not is_tool or (isinstance(hints, dict) and hints.get("readOnlyHint") is True)
        schema = None if definition is None else definition.get("inputSchema")
        made = compile_tool(
            schema, read_only=read_only, policy=spec.policy_of(call.name if is_tool else "")
        )
        self._guards[key] = (definition, made)
        return made


def _with_consent(caller: ClientCaller, case: JudgingContext, for_roots: Stoppable) -> Caller:
    caller.consented, caller.for_roots = case.consented, for_roots
    return caller


def _explained(
    refused: Refused, spec: ServerSpec, effective: EffectiveRoots, at: EffectiveRoots
) -> Refused:
    """Return `refused`; if the roots and the server's own directories do not overlap, say so."""
    if spec.ceiling is None or at.roots.roots or not effective.roots.roots:
        return refused
    own = ", ".join(spec.ceiling.paths)
    reason = (
        f"the client's roots ({', '.join(effective.roots.paths)}) and the directories that server "
        f"{spec.name!r} is started with ({own}) do not overlap; with `roots: {{args: replace}}` "
        "the client's roots stand in for them"
    )
    return replace(refused, reason=reason)
