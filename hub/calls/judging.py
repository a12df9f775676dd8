"""What one call is judged by: its guard, and a snapshot of its roots, its child and the config."""

from __future__ import annotations

from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from hub.calls.addressing import OwnParam
from hub.calls.permission import Circumstances
from hub.catalog.merge import Catalog, Listing
from hub.children.clients import StaleError
from hub.children.slot import ChildSlot
from hub.errors import RouteError
from hub.guard.budget import INLINE_BUDGET
from hub.guard.consent import QUESTION_BUDGET, Enough, Judgement, enough, judgement_of, within
from hub.guard.containment import CallContext, RootIndex
from hub.guard.decide import Admitted, Refused, ToolGuard, decide_within_inline_budget
from hub.jsonrpc.peer import Asked
from hub.launch.plan import LaunchPlan
from hub.paths.resolve import CachedDisk
from hub.protocol.input_requests import NO_RETRY, RetryInput
from hub.roots.effective import EffectiveRoots
from hub.roots.roots import Root, RootSet
from hub.roots.state import State
from hub.sessions.services import Services
from hub.sessions.session import Session
from hub.specs import ServerSpec
from hub.values import Call, CallMethod, ChildRoute


class Destination(Struct, frozen=True):
    """Where a public name leads: what a server offers by `route`, and the guard of its calls.

    `own` is the param that replaces the client's, such as the child's own `name` of the tool.
    `base` is the JSON pointer to the child's arguments within the client's. `catalog` is what the
    name was looked up in; `can_move`: in another one it may lead to another server.
    """

    method: CallMethod
    route: ChildRoute
    spec: ServerSpec
    guard: ToolGuard
    own: OwnParam
    base: str
    catalog: Catalog
    can_move: bool = False

    def renewed(self, services: Services) -> Destination:
        """Return the same by the newest config.

        Raises: RouteError if that does not offer it any more.
        """
        spec, name = services.servers.get(self.spec.name), self.route.name
        if spec is self.spec:
            return self
        if spec is None or (self.method == "tools/call" and not spec.offer.includes(name)):
            raise RouteError(f"server {self.spec.name!r} does not offer {name!r} any more")
        return replace(self, spec=spec, guard=services.guards.of(spec, self.method, self.route))


class Snapshot(Struct, frozen=True, eq=False):
    """What a verdict depends on that may change while its call waits, all of one moment.

    `effective` are the client's effective roots, and `here` those at the call's server. `plan` is
    how the child of `slot` runs, and `listing` what it offers. `version` is that of the operator's
    config, `state` that of the client's roots.
    """

    effective: EffectiveRoots
    here: EffectiveRoots
    slot: ChildSlot
    plan: LaunchPlan | None
    listing: Listing | None
    version: int
    state: State

    @classmethod
    def of(
        cls,
        session: Session,
        spec: ServerSpec,
        effective: EffectiveRoots,
        slot: ChildSlot | None = None,
    ) -> Snapshot:
        """Return the present state for calls of `session` to a server.

        They go to the child of `slot`; None: to the child for the roots `effective`.
        """
        services, here = session.services, session.at(spec, effective)
        if slot is None:
            slot = session.slot_at(spec, here)
        return cls(
            effective=effective,
            here=here,
            slot=slot,
            plan=slot.plan,
            listing=services.children.known.last(slot),
            version=services.operator.version,
            state=session.roots.state,
        )


class JudgingContext(Struct, eq=False):
    """All that one call is judged by: its session and guard, and a snapshot of what may change.

    `retry` is what a modern client's request brought from the previous round. `consented` (a
    digest) and `granted` are what the user has agreed to in this call. `judged_in` is the guard's
    context for the snapshot: that of another call at the server, or made for the first verdict.
    """

    session: Session
    asked: Asked
    call: Call
    to: Destination
    snapshot: Snapshot
    retry: RetryInput = NO_RETRY
    consented: str | None = None
    granted: tuple[Root, ...] = ()
    judged_in: CallContext | None = None

    @property
    def circumstances(self) -> Circumstances:
        """What the call is refused under, if the guard refuses it."""
        seen = self.snapshot
        return Circumstances.of(self.session, self.to.spec, seen.effective, seen.here)

    def context(self, granted: tuple[Root, ...] = ()) -> CallContext:
        """Return the guard's context of the call, with a fresh view of the disk."""
        ceilings = self._ceilings if granted else ()
        granted = tuple(root for root in granted if within(root, ceilings))
        return replace(self.around, links=CachedDisk(self.around.links), granted=granted)

    @property
    def around(self) -> CallContext:
        """The guard's context of calls by the snapshot; its disk has no cache."""
        if self.judged_in is not None:
            return self.judged_in
        services, plan, here = self.session.services, self.snapshot.plan, self.snapshot.here
        cwd, starts = (None, ()) if plan is None else (plan.cwd, plan.starts)
        self.judged_in = CallContext(
            roots=here.roots,
            cwd=cwd,
            env=services.environment_of(self.to.spec, plan),
            links=services.machine.links,
            flavour=services.machine.flavour,
            enforcing=here.enforcing,
            no_roots=self.session.why_no_roots(self.snapshot.effective),
            starts=starts,
            near=() if plan is None else plan.near,
            index=RootIndex.of(here.roots, cwd, starts),
        )
        return self.judged_in

    def decide_within_inline_budget(self) -> Admitted | Refused | None:
        """Return the guard's verdict without grants; None if it takes too long to wait for."""
        return decide_within_inline_budget(self.call, self.to.guard, self.context())

    async def judge(self, granted: tuple[Root, ...] = ()) -> Judgement:
        """Return the guard's verdict and how it was found, from the worker thread if it is slow."""
        soon = judgement_of(self.call, self.to.guard, self.context(granted), INLINE_BUDGET)
        if soon.is_final:
            return soon
        work = partial(judgement_of, self.call, self.to.guard, self.context(granted))
        return await self.session.services.worker.run(self.session.queue_key, work)

    async def enough(self, refused: Judgement) -> Enough:
        """Return which places the user would have to grant, and the verdict that this would give.

        `refused` is what `judge` has just returned.
        """
        ceilings = self._ceilings
        soon = enough(refused, ceilings, QUESTION_BUDGET)
        if soon is not None:
            return soon
        # What was seen is as of now, unless the worker gave it.
        work = partial(enough, refused, ceilings)
        found = await self.session.services.worker.run(self.session.queue_key, work)
        return found or Enough((), refused.verdict)

    def is_still_valid(self) -> bool:
        """Whether the child, its listing, the effective roots and the config are the same."""
        return self.known_if_valid() is not None

    def known_if_valid(self) -> EffectiveRoots | None:
        """Return the effective roots at the server as they are known now, if `is_still_valid`.

        They may come from another source than those of the snapshot, or be stale.
        """
        seen, known, services = self.snapshot, self._known, self.session.services
        is_same = (
            seen.slot.is_kept
            and seen.slot.plan is seen.plan
            and services.children.known.last(seen.slot) is seen.listing
            and (known.roots, known.enforcing) == (seen.here.roots, seen.here.enforcing)
            and services.operator.version == seen.version
        )
        return known if is_same else None

    @property
    def _known(self) -> EffectiveRoots:
        """The effective roots at the server as they are known now."""
        session, seen = self.session, self.snapshot
        operator, machine = session.services.operator, session.services.machine
        is_same = session.roots.state is seen.state and operator.version == seen.version
        presences = (session.roots.presence, *operator.presences(self.to.spec.name))
        if is_same and all(
            presence.is_unchanged(machine.links, machine.flavour) for presence in presences
        ):
            return seen.here
        session.roots.look_again()
        return session.at(self.to.spec, session.known_effective())

    @property
    def is_newest(self) -> bool:
        """Whether roots and config are those that the call was judged by, whatever its child is."""
        seen, operator = self.snapshot, self.session.services.operator
        return self._known == seen.here and operator.version == seen.version

    async def look_again(self) -> bool:
        """Take a new snapshot, with the roots effective now; return False if nothing has changed.

        Raises: StaleError if the config has changed: the guard may be another one now.
        """
        session = self.session
        if session.roots.is_settled_at(self.snapshot.state) and self.is_still_valid():
            return False
        effective = await session.effective(self.asked.outlet)
        if session.services.operator.version != self.snapshot.version:
            raise StaleError
        if effective == self.snapshot.effective and self.is_still_valid():
            return False
        self.snapshot = Snapshot.of(session, self.to.spec, effective)
        self.judged_in = None
        return True

    @property
    def _ceilings(self) -> tuple[RootSet, ...]:
        operator = self.session.services.operator
        ceilings = (operator.roots().ceiling, operator.ceiling_of(self.to.spec.name))
        return tuple(ceiling for ceiling in ceilings if ceiling is not None)
