"""The snapshot that one call is judged by: its roots, its guard, its child's slot."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from hub.calls.addressing import OwnParam
from hub.catalog.merge import Catalog
from hub.children.slot import ChildSlot
from hub.guard.consent import QUESTION_BUDGET, Wanted, wanted, within
from hub.guard.containment import CallContext
from hub.guard.decide import Admitted, Refused, ToolGuard, decide, decide_within_inline_budget
from hub.jsonrpc.peer import Asked
from hub.launch.plan import LaunchPlan
from hub.protocol.request_state import NO_RETRY, RetryInput
from hub.roots.effective import EffectiveRoots
from hub.roots.roots import Root, RootSet
from hub.roots.state import State
from hub.sessions.session import Session
from hub.specs import ServerSpec
from hub.system.disk import CachedDisk
from hub.values import Call


class JudgingContext(Struct, eq=False):
    """A snapshot for judging one call: its session, guard, roots, server and its child's slot.

    `pointer` converts a JSON pointer into the call's arguments to one into the client's arguments.
    `own` is the param that replaces the client's. `can_move`: the name may move to another server.
    `retry` is what a modern client's request brought from the previous round. `consented` (a
    digest) and `granted` are what the user has agreed to in this call. `plan` is how the child runs
    that the call was judged for. `version` is that of the
    config when the call was judged, `state` that of the client's roots. `judged_in` is the context
    of another call at the server that was judged for the same roots and `plan`, if there is one.
    """

    session: Session
    asked: Asked
    call: Call
    guard: ToolGuard
    effective: EffectiveRoots
    spec: ServerSpec
    slot: ChildSlot
    pointer: Callable[[str], str]
    own: OwnParam
    catalog: Catalog
    can_move: bool = False
    retry: RetryInput = NO_RETRY
    consented: str | None = None
    granted: tuple[Root, ...] = ()
    plan: LaunchPlan | None = None
    version: int = -1
    state: State | None = None
    judged_in: CallContext | None = None
    _here: EffectiveRoots | None = None

    @property
    def here(self) -> EffectiveRoots:
        """The effective roots at the call's server, as they were when first asked for."""
        if self._here is None:
            self._here = self.session.at(self.spec, self.effective)
        return self._here

    @property
    def no_overlap(self) -> str | None:
        """Why no path is admitted, if roots and the server's own directories do not overlap."""
        spec, effective = self.spec, self.effective
        if spec.ceiling is None or self.here.roots.roots or not effective.roots.roots:
            return None
        own = ", ".join(spec.ceiling.paths)
        return (
            f"the client's roots ({', '.join(effective.roots.paths)}) and the directories that "
            f"server {spec.name!r} is started with ({own}) do not overlap"
        )

    def context(self, granted: tuple[Root, ...] = ()) -> CallContext:
        """Return the guard's context of the call, with a fresh view of the disk."""
        at, machine, plan = self.here, self.session.services.machine, self.slot.plan
        links, granted = CachedDisk(machine.links), self._within_ceilings(granted)
        if self.judged_in is not None:
            if plan is self.plan:
                return replace(self.judged_in, links=links, granted=granted)
            self.judged_in = None
        return CallContext(
            roots=at.roots,
            cwd=plan.cwd if plan is not None else None,
            env=self.session.services.environment_of(self.spec, plan),
            links=links,
            flavour=machine.flavour,
            enforcing=at.enforcing,
            granted=granted,
            no_roots=self.session.why_no_roots(self.effective),
        )

    def decide_within_inline_budget(self) -> Admitted | Refused | None:
        """Return the guard's verdict without grants; None if it takes too long to wait for."""
        return decide_within_inline_budget(self.call, self.guard, self.context())

    async def decide(self, granted: tuple[Root, ...] = ()) -> Admitted | Refused:
        """Return the guard's verdict, from the worker thread if it takes long."""
        context, services = self.context(granted), self.session.services
        self.version, self.state = services.operator.version, self.session.roots.state
        self.plan = self.slot.plan
        soon = decide_within_inline_budget(self.call, self.guard, context)
        if soon is not None:
            return soon
        fresh = replace(context, links=CachedDisk(services.machine.links))
        work = partial(decide, self.call, self.guard, fresh)
        return await services.worker.run(self.session.party, work)

    async def wanted(self, refused: Refused, granted: tuple[Root, ...]) -> tuple[Wanted, ...]:
        """Return the places outside the roots that the user would have to grant.

        `refused` is the verdict with what is `granted` already.
        """
        context, ceilings = self.context(granted), self._ceilings
        soon = wanted(refused, self.call, self.guard, context, ceilings, QUESTION_BUDGET)
        if soon:
            return soon
        fresh = self.context(granted)
        work = partial(wanted, refused, self.call, self.guard, fresh, ceilings)
        return await self.session.services.worker.run(self.session.party, work)

    def is_still_valid(self) -> bool:
        """Whether the child, the effective roots and the operator's roots are the same."""
        known, here = self._known, self.here
        return (
            self.slot.is_kept
            and self.slot.plan is self.plan
            and (known.roots, known.enforcing) == (here.roots, here.enforcing)
            and self.session.services.operator.version == self.version
        )

    @property
    def _known(self) -> EffectiveRoots:
        """The effective roots at the server as they are known now."""
        session, spec = self.session, self.spec
        services = session.services
        is_same = session.roots.state is self.state and services.operator.version == self.version
        if is_same and services.operator.is_current(spec.name, services.machine.links):
            return self.here
        return session.at(spec, session.known_effective())

    @property
    def is_current(self) -> bool:
        """Whether the effective roots at the server are those that the call was judged by."""
        return self._known == self.here

    async def look_again(self) -> None:
        """Replace `effective` and `slot` by those of the roots that are effective now."""
        self.effective, self._here = await self.session.effective(self.asked.outlet), None
        self.judged_in = None
        self.slot = self.session.slot_for(self.spec, self.effective)

    @property
    def _ceilings(self) -> tuple[RootSet, ...]:
        operator = self.session.services.operator
        ceilings = (operator.roots().ceiling, operator.ceiling_of(self.spec.name))
        return tuple(ceiling for ceiling in ceilings if ceiling is not None)

    def _within_ceilings(self, granted: tuple[Root, ...]) -> tuple[Root, ...]:
        ceilings = self._ceilings if granted else ()
        return tuple(slot for slot in granted if within(slot, ceilings))
