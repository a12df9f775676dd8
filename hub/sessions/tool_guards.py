"""The compiled guards of what servers offer: `ToolGuards`, which compiles listed tools ahead."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from functools import partial
from itertools import islice
from typing import Final

import anyio
import structlog
from msgspec import Struct

from hub.catalog.names import UriTemplate
from hub.guard.decide import ToolGuard, compile_tool
from hub.jsonrpc.exact_json import encode
from hub.specs import ServerSpec
from hub.system.tasks import FairWorker
from hub.values import CallMethod, ChildRoute, Json, JsonObject, Route, ServerName, object_or_empty

MAX_GUARDS: Final = 10_000
"""How many guards are kept; the oldest make room."""
MOST_AHEAD: Final = 500
"""The most tools of one list that are compiled ahead; the others wait for their first call."""
REST: Final = 9
"""How long the compiling ahead rests after each tool, as a multiple of the time it took."""
_SAYING: Final = ("description", "title")
"""What says of a prompt's argument that it is a path, beside its name."""
_PARTY: Final = "compile ahead"

log = structlog.stdlib.get_logger(__name__)


class _Kept(Struct, frozen=True, eq=False):
    """A guard, and the definition and server that it was compiled for."""

    definition: Mapping[str, Json] | None
    spec: ServerSpec
    guard: ToolGuard

    def is_for(self, spec: ServerSpec, definition: Mapping[str, Json] | None) -> bool:
        """Return whether the guard holds for this definition: each child has an equal one."""
        if self.spec is not spec:
            return False
        # Not by `==`, to which `true` and `1` are the same.
        return self.definition is definition or encode(self.definition) == encode(definition)


class ToolGuards:
    """The guards of calls, each compiled once for its definition and its server's policy.

    All resources of a server have one guard.
    """

    def __init__(self, *, kept: int = MAX_GUARDS, rest: float = REST) -> None:
        self._max_kept, self._rest = kept, rest
        self._kept: dict[tuple[ServerName, CallMethod, str], _Kept] = {}
        self._next: tuple[Mapping[str, Route], Mapping[ServerName, ServerSpec]] | None = None
        self._is_compiling = False

    def of(self, spec: ServerSpec, method: CallMethod, route: ChildRoute) -> ToolGuard:
        """Return the guard of calls of `route`; compile it, if that was not done before."""
        found = self._find(spec, method, route)
        if found is not None:
            return found
        return self._keep(spec, method, route, _compiled(spec, method, route))

    async def compile_ahead(
        self,
        worker: FairWorker,
        tools: Mapping[str, Route],
        servers: Mapping[ServerName, ServerSpec],
    ) -> None:
        """Compile the guards of listed `tools` in the worker's thread, with rests in between.

        Of lists that come while one is compiled, the newest is next; the others are left out.
        """
        self._next = tools, servers
        if self._is_compiling:
            return
        self._is_compiling = True
        try:
            while self._next is not None:
                (listed, known), self._next = self._next, None
                await self._compile(worker, listed.values(), known)
        finally:
            self._is_compiling = False

    async def _compile(
        self, worker: FairWorker, routes: Iterable[Route], servers: Mapping[ServerName, ServerSpec]
    ) -> None:
        for route in islice(routes, MOST_AHEAD):
            spec = servers.get(route.server) if isinstance(route, ChildRoute) else None
            if spec is None or not isinstance(route, ChildRoute):
                continue
            if self._find(spec, "tools/call", route) is None:
                began = time.perf_counter()
                try:
                    made = await worker.run(_PARTY, partial(_compiled, spec, "tools/call", route))
                except Exception:  # the hub's other tasks must not end with this one
                    log.exception("a tool's schema cannot be read", tool=route.name)
                    continue
                self._keep(spec, "tools/call", route, made)
                await anyio.sleep((time.perf_counter() - began) * self._rest)

    def _find(self, spec: ServerSpec, method: CallMethod, route: ChildRoute) -> ToolGuard | None:
        name, definition = _judged_by(method, route)
        kept = self._kept.get((spec.name, method, name))
        return None if kept is None or not kept.is_for(spec, definition) else kept.guard

    def _keep(
        self, spec: ServerSpec, method: CallMethod, route: ChildRoute, guard: ToolGuard
    ) -> ToolGuard:
        name, definition = _judged_by(method, route)
        self._kept.pop((spec.name, method, name), None)
        while len(self._kept) >= self._max_kept:
            del self._kept[next(iter(self._kept))]
        self._kept[spec.name, method, name] = _Kept(definition, spec, guard)
        return guard


def _compiled(spec: ServerSpec, method: CallMethod, route: ChildRoute) -> ToolGuard:
    name, definition = _judged_by(method, route)
    policy = spec.policy_of(route.name if method == "tools/call" else "")
    if method != "tools/call":
        return compile_tool(_schema_of(method, definition), read_only=True, policy=policy)
    hints = route.definition.get("annotations")
    read_only = isinstance(hints, dict) and hints.get("readOnlyHint") is True
    schema = route.definition.get("inputSchema")
    return compile_tool(schema, read_only=read_only, policy=policy, name=name)


def _judged_by(method: CallMethod, route: ChildRoute) -> tuple[str, Mapping[str, Json] | None]:
    """Return the name and the definition that a guard is compiled for; resources share one."""
    return ("", None) if method.startswith("resources/") else (route.name, route.definition)


def _schema_of(method: CallMethod, definition: Mapping[str, Json] | None) -> JsonObject | None:
    """Return a schema for the arguments of a prompt or completion; None for a resource."""
    if definition is None:
        return None
    listed, template = definition.get("arguments"), definition.get("uriTemplate")
    entries = [object_or_empty(one) for one in listed] if isinstance(listed, list) else []
    declared: JsonObject = {
        str(one.get("name")): {word: one[word] for word in _SAYING if word in one}
        for one in entries
    }
    if isinstance(template, str):
        declared |= dict.fromkeys(UriTemplate.parse(template).variables(), True)
    if method == "prompts/get":
        return {"properties": declared}
    inner: JsonObject = {"properties": declared}
    context: JsonObject = {"properties": {"arguments": inner}}
    return {"properties": {"argument": inner, "context": context}}
