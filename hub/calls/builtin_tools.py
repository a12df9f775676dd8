"""The hub's own tools: `get-roots` reports the effective roots; meta tools search the servers'."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TypeAlias

from msgspec import Struct

from hub.catalog.merge import Catalog
from hub.catalog.search import SYNTAX, Pattern, SearchError, summary, tool_of, tools_of
from hub.catalog.search_tools import LIST_SERVERS, SearchQuery
from hub.children.child import Ready
from hub.children.slot import ChildSlot
from hub.confinement.grants import confinement_status
from hub.guard.roots_hint import takes_paths, told_of, with_sentence
from hub.jsonrpc import exact_json
from hub.jsonrpc.exact_json import mended
from hub.launch.plan import LaunchTemplate
from hub.roots.effective import EffectiveRoots
from hub.sessions.session import Session
from hub.specs import LeftOut, ServerSpec
from hub.values import ChildRoute, Json, JsonObject, ServerName, object_or_empty

GET_ROOTS = "get-roots"

_STRINGS: JsonObject = {"type": "array", "items": {"type": "string"}}
_ENTRY: JsonObject = {"type": "object", "additionalProperties": True}
_ENTRIES: JsonObject = {"type": "array", "items": _ENTRY}

BUILTINS: tuple[JsonObject, ...] = (
    {
        "name": GET_ROOTS,
        "title": "Roots in force",
        "description": "Shows the folders (roots) that tool calls through this hub may reach, "
        "where they come from, and which servers they apply to.",
        "inputSchema": {"type": "object", "properties": {}, "additionalProperties": False},
        "outputSchema": {
            "type": "object",
            "properties": {
                "supportsRoots": {"type": "boolean"},
                "rootsListChanged": {"type": "boolean"},
                "rootsCount": {"type": "integer"},
                "roots": _ENTRIES,
                "filePaths": _STRINGS,
                "source": {"type": "string"},
                "enforcing": {"type": "boolean"},
                "mode": {"type": "string"},
                "generation": {"type": "integer"},
                "refreshedAt": {"type": ["number", "null"]},
                "stale": {"type": "boolean"},
                "rejected": _ENTRIES,
                "ceiling": {"type": ["array", "null"], "items": {"type": "string"}},
                "servers": _ENTRIES,
                "recentRefusals": _ENTRIES,
                "whyNoRoots": {"type": ["string", "null"]},
                "config": {"type": ["object", "null"], "additionalProperties": True},
                "limits": {"type": ["object", "null"], "additionalProperties": True},
                "profile": {"type": ["string", "null"]},
                "profileLimits": {"type": ["object", "null"], "additionalProperties": True},
            },
            "required": ["supportsRoots", "rootsListChanged", "rootsCount", "roots", "filePaths"],
        },
        "annotations": {"readOnlyHint": True, "openWorldHint": False},
    },
)


def get_roots(
    session: Session, effective: EffectiveRoots, granted: frozenset[str] | None = None
) -> JsonObject:
    """Return the result of `get-roots`: the same JSON as text and as structured content.

    `granted` are the scopes of the client's token, None for one that has no scopes.
    """
    # A path on the disk may not be valid text; the URI beside it is exact.
    report = object_or_empty(mended(_report(session, effective, granted)))
    text = exact_json.encode(report).decode()
    return {"content": [{"type": "text", "text": text}], "structuredContent": report}


def _report(
    session: Session, effective: EffectiveRoots, granted: frozenset[str] | None
) -> JsonObject:
    declared = session.client.capabilities.get("roots") if session.client is not None else None
    state, operator = session.roots.state, session.services.operator.roots()
    modes = {spec.policy.mode.value for spec in session.services.servers.values()}
    roots: list[Json] = [
        {"uri": root.uri, "name": root.name} if root.name else {"uri": root.uri}
        for root in effective.roots.roots
    ]
    return {
        "supportsRoots": isinstance(declared, dict),
        "rootsListChanged": isinstance(declared, dict) and declared.get("listChanged") is True,
        "rootsCount": len(roots),
        "roots": roots,
        "filePaths": list(effective.roots.paths),
        "source": effective.source,
        "enforcing": effective.enforcing and modes != {"off"},
        "mode": modes.pop() if len(modes) == 1 else "mixed",
        "generation": state.version,
        "refreshedAt": session.services.machine.wall_time(state.last.at)
        if state.last is not None
        else None,
        "stale": effective.stale,
        "rejected": [{"uri": entry.uri, "reason": entry.reason} for entry in effective.rejected],
        "ceiling": None if operator.ceiling is None else list(operator.ceiling.paths),
        "servers": [
            *(
                {**_server(session, spec, effective), "scopes": _scopes(spec, granted)}
                for spec in session.services.servers.values()
            ),
            *map(_left_out, session.services.left_out),
        ],
        "recentRefusals": list[Json](session.refusals.recent),
        "whyNoRoots": session.why_no_roots(effective) or None,
        "config": session.services.config_file.state.shown(),
        **_limits(session),
    }


def _limits(session: Session) -> JsonObject:
    """Return the limits that hold for a client and what is used of them, and its profile."""
    usage, profile = session.services.usage, session.services.profile
    within = None if profile is None else usage.shown(session.principal, profile)
    return {
        "limits": usage.shown(session.principal),
        "profile": profile,
        "profileLimits": within,
    }


def _server(session: Session, spec: ServerSpec, effective: EffectiveRoots) -> JsonObject:
    slot = next((slot for slot in session.slots if slot.spec.name == spec.name), None)
    state = slot.child.state if slot is not None and slot.child is not None else None
    plan = slot.plan if slot is not None else None
    return {
        "name": spec.name,
        **_status_of(session, slot),
        "era": state.handshake.era if isinstance(state, Ready) else None,
        "mode": spec.policy.mode.value,
        "effectiveRoots": list(session.at(spec, effective).roots.uris),
        "args": None if plan is None else list(plan.shown),
        "confinement": _confinement(session, spec),
        "sharing": spec.sharing,
    }


def _scopes(spec: ServerSpec, granted: frozenset[str] | None) -> JsonObject | None:
    """Return the scopes that a server's operations need, and those that the token lacks."""
    needed = spec.scopes
    if not needed:
        return None
    every = dict.fromkeys(
        scope for scopes in (needed.others, *needed.tools.values()) for scope in scopes
    )
    missing = [] if granted is None else [scope for scope in every if scope not in granted]
    tools: JsonObject = {tool: list[Json](scopes) for tool, scopes in needed.tools.items()}
    others = list[Json](needed.others)
    return {"server": others, "tools": tools, "missing": list[Json](missing)}


def _left_out(server: LeftOut) -> JsonObject:
    return {
        "name": server.name,
        "state": "down",
        "reason": f"left out: {server.reason}",
        "era": None,
        "effectiveRoots": [],
        "args": None,
    }


def _status_of(session: Session, slot: ChildSlot | None) -> JsonObject:
    """Return the state of a server's child; if it is down, also the reason and the retry time."""
    if slot is None:
        return {"state": "idle"}
    slot = session.services.children.most_telling(slot)
    machine, retry_at = session.services.machine, slot.health.retry_at
    standing: JsonObject = {"state": slot.state, "breaker": slot.health.breaker}
    if slot.trouble is not None:
        standing["reason"] = slot.trouble
        standing["failures"] = slot.health.failures
        standing["retryAt"] = None if retry_at is None else machine.wall_time(retry_at)
    return standing


def _confinement(session: Session, spec: ServerSpec) -> str:
    if not isinstance(spec.target, LaunchTemplate):
        return "remote"
    return str(confinement_status(spec.confine, spec.target, session.services.machine.kernel))


Missing: TypeAlias = Callable[[Session, Collection[ServerName]], str | None]
"""Returns a text on which of these servers are not running, and why; None if all are."""


def answer(
    question: SearchQuery, session: Session, catalog: Catalog, missing: Missing
) -> JsonObject:
    """Return the result of a meta tool: the same JSON as text and as structured content.

    Raises: SearchError if it asks about an unknown server or tool.
    """
    view = _View(session, catalog, missing)
    try:
        report = view.report(question)
    except SearchError as exc:
        trouble = missing(session, question.servers() or ())
        raise exc if trouble is None else SearchError(f"{exc}: {trouble}") from exc
    text = exact_json.encode(report).decode()
    return {"content": [{"type": "text", "text": text}], "structuredContent": report}


class _View(Struct, frozen=True):
    """Reports on the servers' tools, for one session."""

    session: Session
    catalog: Catalog
    missing: Missing

    def report(self, question: SearchQuery) -> JsonObject:
        if question.name == LIST_SERVERS:
            return {"servers": self._servers()}
        if question.server is None:
            return self._tools(self.catalog.servers, question.pattern)
        if question.tool is None:
            tools_of(self.catalog, question.server)
            return self._tools((question.server,), question.pattern)
        route = tool_of(self.catalog, question.server, question.tool)
        return {"serverName": question.server, "tool": self._with_roots(route)}

    def _servers(self) -> list[Json]:
        told = self.session.services.children.most_telling
        slots = {slot.spec.name: told(slot) for slot in self.session.slots}
        entries: list[Json] = [
            {"serverName": one.name, "state": "down", "trouble": f"left out: {one.reason}"}
            for one in self.session.services.left_out
        ]
        for server in self.session.services.servers:
            slot, tools = slots.get(server), self.catalog.own_tools.get(server)
            entry: JsonObject = {"serverName": server, "state": slot.state if slot else "idle"}
            if tools is not None:
                entry["tools"] = len(tools)
            if slot is not None and slot.trouble is not None:
                entry["trouble"] = slot.trouble
            entries.append(entry)
        return entries

    def _tools(self, servers: Collection[ServerName], pattern: Pattern | None) -> JsonObject:
        """Return the matching tools by server; a server without a listing gets `trouble`."""
        entries: list[Json] = []
        found = False
        for server in servers:
            tools = self.catalog.own_tools.get(server)
            hits = self._hits(tools.values() if tools is not None else (), pattern)
            found = found or bool(hits)
            entry: JsonObject = {"serverName": server, "tools": hits}
            if tools is None:
                entry["trouble"] = self.missing(self.session, (server,)) or "it cannot be started"
            if hits or tools is None or pattern is None:
                entries.append(entry)
        hint: JsonObject = {} if found or pattern is None else {"hint": f"Nothing found. {SYNTAX}"}
        return {"servers": entries, **hint}

    def _hits(self, routes: Collection[ChildRoute], pattern: Pattern | None) -> list[Json]:
        tools = map(self._described, routes)
        return [summary(tool) for tool in tools if pattern is None or pattern.matches(tool)]

    def _with_roots(self, route: ChildRoute) -> JsonObject:
        tool, session = self._described(route), self.session
        spec = session.services.servers[route.server]
        told = told_of(session.at(spec, session.known_effective())) if spec.describe_roots else None
        if told is None:
            return tool
        guard = session.services.guards.of(spec, "tools/call", route)
        return with_sentence(tool, told) if takes_paths(guard) else tool

    def _described(self, route: ChildRoute) -> JsonObject:
        offer = self.session.services.servers[route.server].offer
        return offer.described(dict(route.definition), route.name)
