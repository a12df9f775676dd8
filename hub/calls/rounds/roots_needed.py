"""Decides whether a modern client must be asked for its roots before its call is served.

A modern client is asked by its request's result, and sends the request again with its roots. Only
calls whose outcome depends on the roots make this round trip. The reason, a `RootsRequirement`, is
remembered, so that later calls of the same kind are asked at once.
"""

from __future__ import annotations

from collections.abc import Collection

from msgspec import Struct
from msgspec.structs import replace

from hub.calls.addressing import Addressed
from hub.calls.judging import JudgingContext
from hub.catalog.merge import Listing
from hub.children.slot import ChildSlot
from hub.guard.containment import OUTSIDE, CallContext
from hub.guard.decide import (
    Admitted,
    Refused,
    ToolGuard,
    acts_on_places,
    compile_tool,
    decide_within_inline_budget,
    refusal_of,
)
from hub.jsonrpc.errors import RpcError
from hub.paths.resolve import CachedDisk
from hub.protocol.constants import MISSING_CLIENT_CAPABILITY
from hub.protocol.input_requests import ASKABLE
from hub.roots.effective import NOT_ASKED
from hub.sessions.services import Services
from hub.sessions.session import Session
from hub.sessions.tool_guards import ToolGuards
from hub.specs import ServerSpec
from hub.values import Call, ChildRoute, Json, JsonObject, ServerName, object_or_empty

_REQUIRED: JsonObject = {"requiredCapabilities": {"roots": {}}}


class KnownServer(Struct, frozen=True):
    """What was known of the one server that a call is for: `tool` is the server's name for it.

    `listing` is the last known one of the child at `slot`, which serves clients of unknown roots.
    """

    slot: ChildSlot
    listing: Listing | None
    tool: str


class RootsRequirement(Struct, frozen=True):
    """Why the client of a call is asked for its roots before the call is judged.

    If `known` is None, the reason is always valid; otherwise only while `known` is up to date. If
    `guard` is None, it applies whatever the arguments; otherwise only to calls that `guard` may
    refuse in the context `judged_in`, whose disk has no cache.
    """

    services: Services
    known: KnownServer | None = None
    guard: ToolGuard | None = None
    judged_in: CallContext | None = None

    @property
    def is_open(self) -> bool:
        """Whether the server's slot and listing are still those of `known`."""
        known = self.known
        if known is None:
            return True
        listed = self.services.children.known.last(known.slot)
        return known.slot.is_kept and listed is known.listing

    def is_of(self, arguments: Json) -> bool:
        """Return whether a call of the same tool with these arguments needs the roots, too."""
        if not isinstance(arguments, dict | None):
            return False  # not a valid call
        if self.guard is None or self.judged_in is None:
            return True
        call = Call("tools/call", "", {} if arguments is None else arguments, {})
        context = replace(self.judged_in, links=CachedDisk(self.judged_in.links))
        return _may_be_refused(decide_within_inline_budget(call, self.guard, context))


def need_before_looking(
    session: Session, named: Addressed, owners: Collection[ServerName] | None
) -> RootsRequirement | None:
    """Return why a call needs its client's roots before its route is looked up; None if not.

    Starts no child.
    """
    if not session.unasked or named.question is not None or named.method not in ASKABLE:
        return None
    services = session.services
    if named.is_get_roots:
        return RootsRequirement(services)
    servers = services.servers
    specs = [servers[name] for name in (servers if owners is None else owners) if name in servers]
    if not specs:
        return None
    if all(_depends_on_roots(session, spec) for spec in specs):
        return RootsRequirement(services)
    return _need_by_arguments(session, named, specs)


class StatefulServers:
    """Which servers may keep something between calls, and have tools that act on places.

    All calls of such a server need the roots: else those that name no path would go to the child
    for clients of unknown roots, and what they leave there would be missing at the other child.
    """

    def __init__(self, guards: ToolGuards) -> None:
        self._guards = guards
        self._known: dict[ServerName, tuple[Listing, bool]] = {}

    def has(self, spec: ServerSpec, listing: Listing | None) -> bool:
        """Return whether a server with this listing is stateful."""
        if spec.share in {"roots", "all"} or listing is None:
            return False
        known = self._known.get(spec.name)
        if known is None or known[0] is not listing:
            routes = (ChildRoute(spec.name, str(tool.get("name")), tool) for tool in listing.tools)
            guards = (self._guards.of(spec, "tools/call", route) for route in routes)
            known = self._known[spec.name] = listing, any(map(acts_on_places, guards))
        return known[1]


def need_before_deciding(
    case: JudgingContext, stateful: StatefulServers
) -> RootsRequirement | None:
    """Return why a call needs its client's roots before the guard decides; None if it does not.

    It needs them if the guard may refuse it without roots; if the child is launched for its roots
    or asks for them; if the tool has an argument that is a path, glob or command, because without
    that argument the tool works in the directory where its server was launched; or if its server is
    one of `stateful`.

    Raises: RpcError if the client declares no roots, none are in force, and the guard refuses.
    """
    session = case.session
    if session.unasked and case.call.method in ASKABLE:
        spec, slot = case.to.spec, case.snapshot.slot
        listing = session.services.children.known.last(slot)
        known = KnownServer(slot, listing, case.call.name)
        acts = case.call.method == "tools/call" and acts_on_places(case.to.guard)
        if acts or _depends_on_roots(session, spec) or stateful.has(spec, listing):
            return RootsRequirement(session.services, known)
        if _may_be_refused(case.decide_within_inline_budget()):
            return RootsRequirement(session.services, known, case.to.guard, case.around)
    elif session.is_modern and case.call.method in ASKABLE and _is_in_vain(case):
        text = "This call names a path, and the operator serves no paths to clients without roots"
        raise RpcError(MISSING_CLIENT_CAPABILITY, text, _REQUIRED)
    return None


def _is_in_vain(case: JudgingContext) -> bool:
    client, effective = case.session.client, case.snapshot.effective
    if (
        client is None
        or client.declares("roots")
        or not effective.enforcing
        or effective.source != "none"
    ):
        return False
    refused = case.decide_within_inline_budget()
    hopeless = isinstance(refused, Refused) and refused.reason == OUTSIDE
    return hopeless and case.to.guard.policy.policy.on_refused != "ask"


def _may_be_refused(verdict: Admitted | Refused | None) -> bool:
    """Return whether a verdict objects to its call, or is None: the inline budget was spent."""
    return verdict is None or refusal_of(verdict) is not None


def _depends_on_roots(session: Session, spec: ServerSpec) -> bool:
    if spec.share == "all":
        return False
    return spec.is_launched_for_roots or session.services.children.has_asked_for_roots(spec.name)


def _need_by_arguments(
    session: Session, named: Addressed, specs: list[ServerSpec]
) -> RootsRequirement | None:
    """Return the need of a call whose arguments name a path while no listing of `specs` is known.

    None unless the guards of all `specs`, compiled without a schema, may refuse the call.
    """
    services = session.services
    slots = [session.slot_for(spec, NOT_ASKED) for spec in specs]
    if any(services.children.known.last(slot) is not None for slot in slots):
        return None
    machine = services.machine
    context = CallContext(
        roots=NOT_ASKED.roots,
        cwd=None,
        env=machine.environment,
        links=machine.links,
        flavour=machine.flavour,
        enforcing=True,
    )
    uri: JsonObject = {"uri": named.name}
    by_uri = named.method.startswith("resources/")
    arguments = uri if by_uri else object_or_empty(named.params.get("arguments"))
    call = Call(named.method, named.name, arguments, named.params)
    guards = [
        compile_tool(None, read_only=True, policy=spec.policy_of(named.name)) for spec in specs
    ]
    seen = replace(context, links=CachedDisk(machine.links))
    verdicts = (decide_within_inline_budget(call, guard, seen) for guard in guards)
    if any(isinstance(verdict, Admitted) for verdict in verdicts):
        return None
    return RootsRequirement(services, KnownServer(slots[0], None, named.name), guards[0], context)
