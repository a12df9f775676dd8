"""Where children stand: what makes two uses of a server one child, and who uses it."""

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
    """What makes two uses of a server one child.

    `plan` is None for a remote child; `asks` is what the hub declares to it on its clients' behalf.
    `session` is empty unless the operator wants a child per session. `unknown`: its clients have
    roots that they were not asked for, so that there are none yet.
    """

    server: ServerName
    plan: LaunchPlan | None
    roots: RootSet
    principal: str
    asks: bytes
    session: SessionKey | None = None
    unknown: bool = False


class ChildSlot(Struct, eq=False):
    """Where the child of one key stands: alive, gone, or not started yet.

    `is_kept`: calls of its key still come here. `unlisted` is why it could not be listed, as that
    was logged last.
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

    @contextmanager
    def in_use(self) -> Generator[None]:
        """Count a call, from before its child is there until it is answered."""
        self.uses += 1
        try:
            yield
        finally:
            self.uses -= 1

    @property
    def is_running(self) -> bool:
        """Whether its child is there, or is being started."""
        return self.child is not None and not isinstance(self.child.state, Down)

    def begin_use(self, now: float) -> None:
        """Count a call; `end_use` must follow."""
        self.uses += 1
        self.used_at = now

    def end_use(self, clock: Callable[[], float]) -> None:
        """Count a call no more; who idles, idles from now on."""
        self.uses -= 1
        if self.unused_since is not None:
            self.unused_since = max(self.unused_since, clock())

    def is_used_by(self, session: SessionKey) -> bool:
        """Whether a session uses its child, or has calls under way there still."""
        child = self.child
        return session in self.users or (child is not None and child.answers.serves(session))

    @property
    def is_idle(self) -> bool:
        """Whether its child answers calls, and has none to answer or to come."""
        child = self.child
        if child is None or self.uses:
            return False
        return isinstance(child.state, Ready) and not child.answers.busy

    @property
    def state(self) -> str:
        """One word for people: `idle`, `starting`, `ready` or `down`."""
        return "idle" if self.child is None else type(self.child.state).__name__.lower()

    @property
    def trouble(self) -> str | None:
        """Why the child is not there, if it has fallen."""
        state = self.child.state if self.child is not None else None
        return state.reason if isinstance(state, Down) else None

    @property
    def listing(self) -> Listing | None:
        """What the child offers, if it is there."""
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
