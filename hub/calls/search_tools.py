"""Answers the meta tools that look for other tools, for one session."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TypeAlias

from msgspec import Struct

from hub.catalog.merge import Catalog
from hub.catalog.search import SYNTAX, Pattern, SearchError, summary, tool_of, tools_of
from hub.catalog.search_tools import LIST_SERVERS, Question
from hub.guard.roots_hint import takes_paths, told_of, with_sentence
from hub.jsonrpc import exact_json
from hub.sessions.session import Session
from hub.values import ChildRoute, Json, JsonObject, ServerName

Missing: TypeAlias = Callable[[Session, Collection[ServerName]], str | None]
"""Says which of these servers have no listing, and why."""


def answer(question: Question, session: Session, catalog: Catalog, missing: Missing) -> JsonObject:
    """Return the result of a meta tool: the same JSON as text and as structured content.

    Raises: SearchError if it asks about what is not there.
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
    """What one session can learn of the servers' tools."""

    session: Session
    catalog: Catalog
    missing: Missing

    def report(self, question: Question) -> JsonObject:
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
        places = {place.spec.name: place for place in self.session.places}
        entries: list[Json] = []
        for server in self.catalog.servers:
            place, tools = places.get(server), self.catalog.own_tools.get(server)
            entry: JsonObject = {"serverName": server, "state": place.state if place else "idle"}
            if tools is not None:
                entry["tools"] = len(tools)
            if place is not None and place.trouble is not None:
                entry["trouble"] = place.trouble
            entries.append(entry)
        return entries

    def _tools(self, servers: Collection[ServerName], pattern: Pattern | None) -> JsonObject:
        """Return the tools that match, by server; a server that cannot say is not left out."""
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
        told = told_of(session.at(spec, session.known_force())) if spec.describe_roots else None
        wanted = told is not None and takes_paths(spec.policy_of(route.name), route.definition)
        return with_sentence(tool, told) if told is not None and wanted else tool

    def _described(self, route: ChildRoute) -> JsonObject:
        offer = self.session.services.servers[route.server].offer
        return offer.described(dict(route.definition), route.name)
