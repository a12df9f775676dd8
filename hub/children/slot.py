"""The pool's slots: the key that decides which uses share a child, and the users of each child.

And which idle children end so that another can start.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager, nullcontext
from typing import NoReturn

from msgspec import Struct, field
from msgspec.structs import replace

from hub.catalog.merge import KnownCatalog, Listing
from hub.children.child import Child, Down, Ready
from hub.children.circuit_breaker import ChildHealth
from hub.children.clients import ChildUser
from hub.errors import ChildError
from hub.jsonrpc import exact_json
from hub.launch.plan import LaunchPlan
from hub.paths.resolve import Flavour, parts_of
from hub.roots.roots import Root, RootSet, entry_of
from hub.specs import ServerSpec
from hub.usage.principals import UsageLimits
from hub.values import JsonObject, ServerName, SessionKey, identity_of, principal_in


class ChildKey(Struct, frozen=True):
    """The key of a child: two uses of a server with equal keys share one child.

    `plan` is None for a remote child. `asks` is the JSON of the client capabilities that the hub
    declares to it. `session` is the client that the child belongs to; None if clients share it.
    `unknown`: the clients have roots, but were not asked for them, so `roots` is empty.
    `fingerprint` is that of the `ServerSpec`.
    """

    server: ServerName
    plan: LaunchPlan | None
    roots: RootSet
    principal: str
    asks: bytes
    session: SessionKey | None = None
    unknown: bool = False
    fingerprint: str = ""


class ChildSlot(Struct, eq=False):
    """The pool's entry for one key; its child is running, down, or not started.

    `launched` is the plan that the child was started with: a child that is kept while its key
    changes still runs as it was launched. `is_kept`: calls with this key still use this slot.
    `unlisted` is the reason last logged for a failed listing. `is_late`: a list has waited for the
    child in vain, so no other list does. `known` is what the cache has of the child: it is shown
    until the child has listed. `answered_at` is when the last child was ready; 0 if it was not.
    `kept_for`: seconds without users and calls after which the child ends. `used_at` is when a call
    last began or ended. `uses` counts calls before they are in flight.
    """

    key: ChildKey
    spec: ServerSpec
    child: Child | None = None
    launched: LaunchPlan | None = None
    users: dict[SessionKey, ChildUser] = field(default_factory=dict["SessionKey", "ChildUser"])
    health: ChildHealth = field(default_factory=ChildHealth)
    unused_since: float | None = None
    kept_for: float = 0.0
    started_at: float = 0.0
    answered_at: float = 0.0
    used_at: float = 0.0
    uses: int = 0
    is_kept: bool = True
    unlisted: str | None = None
    is_late: bool = False
    known: KnownCatalog | None = None

    def is_of(self, principal: str, profile: str | None) -> bool:
        """Return whether the child belongs to a principal, in this profile (None: in any)."""
        whose = self.key.principal
        if profile is None:
            return principal_in(whose) == principal
        return whose == identity_of(principal, profile)

    def follow(self, spec: ServerSpec) -> None:
        """Apply the limits of `spec`: a changed config may have others for the running child."""
        if self.spec is not spec:
            self.spec = spec
            if self.child is not None:
                self.child.follow(spec)

    @contextmanager
    def trying(self) -> Generator[None]:
        """Count a call from before its child is ready until its response.

        Raises: ChildError as `ChildHealth.trying`.
        """
        with self.wanted(), nullcontext() if self.health.is_well else self.health.trying():
            yield

    @contextmanager
    def wanted(self) -> Generator[None]:
        """Count a call that waits for the child, or is in flight there."""
        self.uses += 1
        try:
            yield
        finally:
            self.uses -= 1

    @property
    def plan(self) -> LaunchPlan | None:
        """The plan of the running child, else of the next one; None for a remote child."""
        return self.launched if self.is_running else self.key.plan

    @property
    def is_running(self) -> bool:
        """Whether the child is ready or starting."""
        return self.child is not None and not isinstance(self.child.state, Down)

    def is_used_by(self, session: SessionKey) -> bool:
        """Whether a session uses the child, or still has calls in flight at it."""
        child = self.child
        return session in self.users or (child is not None and child.answers.serves(session))

    @property
    def is_idle(self) -> bool:
        """Whether the child is ready, and no call is in flight at it, waits, or is about to."""
        child = self.child
        if child is None or self.uses or not isinstance(child.state, Ready):
            return False
        return child.answers.is_idle

    @property
    def state(self) -> str:
        """The state in one word, for people: `idle`, `cached`, `starting`, `ready` or `down`.

        `cached`: not started by this process, and listed as it was when it last ran.
        """
        if self.child is not None:
            return type(self.child.state).__name__.lower()
        return "cached" if self.known is not None and not self.answered_at else "idle"

    @property
    def trouble(self) -> str | None:
        """The reason why the child is down; None if it is not."""
        state = self.child.state if self.child is not None else None
        return state.reason if isinstance(state, Down) else None

    @property
    def listing(self) -> Listing | None:
        """The child's listing, if the child is ready."""
        ready = self.child.state if self.child is not None else None
        return ready.listing if isinstance(ready, Ready) else None


class ClientOfKey(Struct, frozen=True):
    """What a child's key has of the session that uses it.

    `client` tells the session's client from others; None if the hub cannot tell it from those of
    the same principal. `asks` are the client capabilities that children may use. `unknown`: the
    client has roots, but was not asked for them.
    """

    session: SessionKey
    client: SessionKey | None
    principal: str
    asks: JsonObject
    unknown: bool = False


def key_of(
    spec: ServerSpec, plan: LaunchPlan | None, roots: RootSet, user: ClientOfKey
) -> ChildKey:
    """Return the key of a server's child for one session."""
    made_by = spec.fingerprint
    if spec.share == "all":
        return ChildKey(spec.name, plan, roots, "", exact_json.encode({}), fingerprint=made_by)
    owners = {"auto": user.client, "session": user.client or user.session, "roots": None}
    hidden = user.unknown and spec.answer_roots and not roots.roots
    # A modern child gets the client's capabilities with each request.
    asks = exact_json.encode({} if spec.era == "modern" else user.asks)
    owner = owners[spec.share]
    return ChildKey(spec.name, plan, roots, user.principal, asks, owner, hidden, made_by)


def why_not_kept(slot: ChildSlot, key: ChildKey, flavour: Flavour) -> str | None:
    """Return why the child of `slot` cannot go on under `key`, with other roots; None if it can.

    It can if it was not launched for its roots, if it can be told of the new ones, and if they
    cover the directory that it runs in, which is still the same one.
    """
    if slot.key.fingerprint != key.fingerprint:
        return "its config has changed"
    if replace(slot.key, plan=key.plan, roots=key.roots) != key:
        return "it belongs to another client"
    others = slot.child is not None and slot.child.answers.serves_others(slot.users)
    if slot.key.session is None and (len(slot.users) != 1 or others):
        return "other clients use it, too"
    if not (slot.key.roots.roots and key.roots.roots):  # the handshake tells whether there are any
        return f"its client {'shared no roots before' if key.roots.roots else 'shares no roots'}"
    return None if key.plan is None else _why_not_with(slot, key.plan, key.roots, flavour)


def _why_not_with(
    slot: ChildSlot, plan: LaunchPlan, roots: RootSet, flavour: Flavour
) -> str | None:
    """Return why a launched child cannot go on with `roots`, for which `plan` was made."""
    spec, runs_as = slot.spec, slot.plan
    if not slot.is_running or runs_as is None:
        return "it is not running"
    if spec.is_launched_for_roots:
        return "its roots are in its command, its environment or its `cwd`"
    if spec.confine.mode != "off":
        return "it is confined to its roots"
    here, was = (_root_above(runs_as.cwd, one, flavour) for one in (roots, slot.key.roots))
    if runs_as.cwd != plan.cwd and here is None:
        return "it runs in a directory outside of the new roots"
    if here and was and here.parts == was.parts and entry_of(here) != entry_of(was):
        return "another directory is in the place of the one that it runs in"
    return None


def _root_above(directory: str | None, roots: RootSet, flavour: Flavour) -> Root | None:
    return None if directory is None else roots.covers(parts_of(directory, flavour))


class ChildLimits(Struct, frozen=True):
    """Limits on running children: `in_all`, and `per_session` for those that one session uses."""

    in_all: int
    per_session: int

    def made_for(
        self, slot: ChildSlot, running: Iterable[ChildSlot], limits: Iterable[UsageLimits] = ()
    ) -> list[ChildSlot]:
        """Return the children in `running` that must end before the child of `slot` starts.

        `limits` are those of the principal that it is for, in its profile and in all; for each of
        them an idle child of that principal, there or anywhere, makes room. Then each session that
        waits for it must be below its limit: a child that no other session uses makes room. Then
        the total must be below its limit: an unused child makes room, else the one that was used
        least recently. Only idle children are returned.

        Raises: ChildError if every child that could make room is busy; then none needs to end.
        """
        left, ended = list(running), list[ChildSlot]()

        def make_room(among: Iterable[ChildSlot], how_many: str, knob: str) -> None:
            spare = _least_missed(among) or _full(slot.spec.name, how_many, knob)
            left.remove(spare)
            ended.append(spare)

        principal = principal_in(slot.key.principal)
        for one in limits:
            its = [other for other in left if other.is_of(principal, one.profile)]
            if one.children is not None and len(its) >= one.children:
                knob = f"{one.key}.children: {one.children}; call it again when one has ended"
                make_room(its, f"{principal} uses {len(its)} children", knob)
        for session in slot.users:
            own = [other for other in left if other.is_used_by(session)]
            if len(own) >= self.per_session:
                alone = [other for other in own if other.users.keys() <= {session}]
                knob = f"max_children_per_session: {self.per_session}"
                make_room(alone, f"this session uses {len(own)} children", knob)
        if len(left) >= self.in_all:
            make_room(left, f"{len(left)} children run", f"max_children: {self.in_all}")
        return ended


def _least_missed(among: Iterable[ChildSlot]) -> ChildSlot | None:
    """Return the slot of the idle child to end first; None if there is none.

    First those that nobody uses, then those that keep nothing for one client, then the others; of
    each kind the one that was used least recently.
    """
    idle = (other for other in among if other.is_idle)
    return min(idle, key=_how_missed, default=None)


def _how_missed(slot: ChildSlot) -> tuple[bool, bool, float]:
    is_owned = slot.key.session is not None
    return is_owned or bool(slot.users), is_owned, slot.used_at


def _full(name: ServerName, how_many: str, knob: str) -> NoReturn:
    raise ChildError(
        f"server {name!r} is not started: {how_many} already, and all start or serve calls ({knob})"
    )
