"""The pool's slots: the key that decides which uses share a child, and the users of each child."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager

from msgspec import Struct, field

from hub.catalog.merge import Listing
from hub.children.child import Child, Down, Ready
from hub.children.circuit_breaker import ChildHealth
from hub.children.clients import ChildUser
from hub.jsonrpc import exact_json
from hub.launch.plan import LaunchPlan
from hub.roots.roots import RootSet
from hub.specs import ServerSpec
from hub.values import JsonObject, ServerName, SessionKey


class ChildKey(Struct, frozen=True):
    """The key of a child: two uses of a server with equal keys share one child.

    `plan` is None for a remote child. `asks` is the JSON of the client capabilities that the hub
    declares to it. `session` is None unless the operator wants a child per session. `unknown`: the
    clients have roots, but were not asked for them, so `roots` is empty.
    """

    server: ServerName
    plan: LaunchPlan | None
    roots: RootSet
    principal: str
    asks: bytes
    session: SessionKey | None = None
    unknown: bool = False


class ChildSlot(Struct, eq=False):
    """The pool's entry for one key; its child is running, down, or not started.

    `is_kept`: calls with this key still use this slot. `unlisted` is the reason last logged for a
    failed listing. `is_late`: a list has waited for the child in vain, so no other list does.
    """

    key: ChildKey
    spec: ServerSpec
    child: Child | None = None
    users: dict[SessionKey, ChildUser] = field(default_factory=dict["SessionKey", "ChildUser"])
    health: ChildHealth = field(default_factory=ChildHealth)
    unused_since: float | None = None
    started_at: float = 0.0
    used_at: float = 0.0
    uses: int = 0
    is_kept: bool = True
    unlisted: str | None = None
    is_late: bool = False

    @contextmanager
    def in_use(self) -> Generator[None]:
        """Count a call from before its child is ready until its response."""
        self.uses += 1
        try:
            yield
        finally:
            self.uses -= 1

    @property
    def is_running(self) -> bool:
        """Whether the child is ready or starting."""
        return self.child is not None and not isinstance(self.child.state, Down)

    def begin_use(self, now: float) -> None:
        """Count a call; `end_use` must follow."""
        self.uses += 1
        self.used_at = now

    def end_use(self, clock: Callable[[], float]) -> None:
        """Stop counting a call; the idle time of an unused child begins now."""
        self.uses -= 1
        if self.unused_since is not None:
            self.unused_since = max(self.unused_since, clock())

    def is_used_by(self, session: SessionKey) -> bool:
        """Whether a session uses the child, or still has calls in flight at it."""
        child = self.child
        return session in self.users or (child is not None and child.answers.serves(session))

    @property
    def is_idle(self) -> bool:
        """Whether the child is ready, and has no calls in flight or announced by `begin_use`."""
        child = self.child
        if child is None or self.uses:
            return False
        return isinstance(child.state, Ready) and not child.answers.busy

    @property
    def state(self) -> str:
        """The state in one word, for people: `idle`, `starting`, `ready` or `down`."""
        return "idle" if self.child is None else type(self.child.state).__name__.lower()

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


def key_of(  # noqa: PLR0913 - each is one part of the key
    spec: ServerSpec,
    plan: LaunchPlan | None,
    roots: RootSet,
    *,
    principal: str,
    asks: JsonObject,
    session: SessionKey,
    unknown: bool = False,
) -> ChildKey:
    """Return the key of a server's child for one session."""
    if spec.share == "all":
        return ChildKey(spec.name, plan, roots, "", exact_json.encode({}))
    own = session if spec.share == "session" else None
    hidden = unknown and spec.answer_roots and not roots.roots
    return ChildKey(spec.name, plan, roots, principal, exact_json.encode(asks), own, hidden)
