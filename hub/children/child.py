"""A connection to one child: its states (`Starting`, `Ready`, `Down`) and the task that owns it.

A `Child` lives once: it starts, is ready, and ends. To use the server again, make a new one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Final, TypeAlias

import anyio
import structlog
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint
from msgspec import Struct

from hub.catalog.merge import Listing
from hub.children.callbacks import ChildCallbacks, ChildRequest
from hub.children.circuit_breaker import ChildHealth
from hub.children.clients import Caller
from hub.children.failures import unanswered
from hub.children.handshake import HubDeclaration, ServerHandshake, shake_hands, with_envelope
from hub.children.link import ChildConnection
from hub.children.listen_streams import SUBSCRIBING, ChildListenStreams
from hub.children.listing import ChildLists
from hub.errors import ChildError, leaves
from hub.jsonrpc import messages as wire
from hub.jsonrpc.deadlines import Deadlines
from hub.jsonrpc.errors import GoneError, LostError, RpcError, SilentError
from hub.jsonrpc.exact_json import WireError
from hub.jsonrpc.messages import Message, Notification, Payload
from hub.jsonrpc.peer import Asked, Peer
from hub.jsonrpc.peer_conduct import PASSED_ON, PeerConduct
from hub.legible import shortened
from hub.protocol.constants import LIST_CHANGED
from hub.protocol.input_requests import FOR_CLIENTS
from hub.roots.roots import RootSet
from hub.specs import RemoteTarget, ServerSpec
from hub.system.tasks import TaskStarter
from hub.values import JsonObject, SessionKey


class Starting(Struct, frozen=True):
    """The child is being launched; its handshake and its lists are not complete."""


class Ready(Struct, frozen=True):
    """The child answers calls."""

    handshake: ServerHandshake
    listing: Listing


class Down(Struct, frozen=True):
    """The child is gone; `reason` says why."""

    reason: str


ChildState: TypeAlias = Starting | Ready | Down

LONGEST_REASON: Final = 2000
"""Characters of the reason why a child is down: each call to it repeats them, in the logs too."""
LAST_WORDS = 0.5
"""Seconds to wait for the reason (such as an exit code) when the connection breaks at the start."""
STALL: Final = 30.0
"""Seconds that a child may go on sending messages without reading the responses to them."""

log = structlog.stdlib.get_logger(__name__)


Connect: TypeAlias = Callable[[], AbstractAsyncContextManager[ChildConnection]]
Learned: TypeAlias = Callable[[Ready], Collection[str]]
"""Takes what a child lists; returns the notifications that its clients are owed when it starts."""


class Child:
    """A connection to a child: one task runs `own`, others use `ready`, `request`, `ChildCall`.

    `is_stopping`: the owner was asked to end the child, or the child has ended. `closed` is set
    when nothing of it is left. `learned` is called with each new state of the lists.
    """

    def __init__(
        self,
        answers: ChildCallbacks,
        hub: HubDeclaration,
        connect: Connect,
        health: ChildHealth | None = None,
        *,
        learned: Learned = lambda _ready: (),
    ) -> None:
        self._learned = learned
        self.spec, self.answers = answers.spec, answers
        self.state: ChildState = Starting()
        self._health = health or ChildHealth(answers.spec.name)
        self.hub, self._connect = hub, connect
        self.peer: Peer | None = None
        self.pid: int | None = None
        self._started, self._stop, self.closed = anyio.Event(), anyio.Event(), anyio.Event()
        self._opening: anyio.CancelScope | None = None
        self.is_stopping = False
        self.lists = ChildLists(hub, self.spec.start_timeout)
        self._listen_streams: ChildListenStreams | None = None
        self.limiter = answers.limiter
        self.deadlines = Deadlines(self.spec.timeout)
        self._roots_changes = 0
        self._is_telling = False

    def follow(self, spec: ServerSpec) -> None:
        """Apply the limits of `spec`, a changed config's, from the next call on."""
        self.spec = spec
        self.answers.follow(spec)
        self.deadlines.allow(spec.timeout)
        self.lists.timeout = spec.start_timeout

    async def own(self) -> None:
        """Open the connection, keep it, and close it after `stop` or when the child is gone."""
        try:
            with anyio.fail_after(self.spec.start_timeout) as self._opening:
                if self.is_stopping:  # since before this task has begun
                    return
                async with self._connect() as link:
                    self._opening.deadline = math.inf
                    try:
                        await self._keep(link)
                    except* Exception as group:  # noqa: BLE001 - only this child is affected
                        self._fail(group)  # at once: closing the connection may take seconds
                    finally:
                        if self.peer is not None:
                            self.peer.close("its connection has failed")
        except* TimeoutError:
            self._fall(f"no connection within {self.spec.start_timeout:g} s")
        except* Exception as group:  # noqa: BLE001 - only this child is affected, whatever it is
            self._fail(group)
        finally:
            self.stop()
            self._fall("the hub stopped it")
            self.closed.set()

    def _fail(self, group: BaseException) -> None:
        """Fall for the first of these errors."""
        first = next(leaves(group))
        if isinstance(first, ChildError | GoneError | RpcError | SilentError | WireError):
            self._fall(str(first))
            return
        log.debug("child failed", server=self.spec.name, exc_info=group)
        self._fall(self.spec.without_secrets(f"{type(first).__name__}: {first}"))

    async def _keep(self, link: ChildConnection) -> None:
        async with anyio.create_task_group() as tasks:
            self.answers.private_directory = link.private_directory
            self.pid = link.pid
            peer = self.peer = Peer(
                link.outlet,
                serve=partial(self._serve, tasks),
                notified=partial(self._notified, link.conduct),
                tasks=tasks,
                watch=link.conduct,
            )
            link.hand_answers_to(peer.pending.settle)
            tasks.start_soon(self._pump, link, peer)
            try:
                with anyio.fail_after(self.spec.start_timeout):
                    await self._shake_hands(peer, link, tasks)
            except TimeoutError:
                stray = f" ({link.conduct.last_stray})" if link.conduct.last_stray else ""
                raise ChildError(
                    f"it did not answer within {self.spec.start_timeout:g} s of its start{stray}"
                ) from None
            except GoneError:
                # The closed pipe is seen first; the exit code that follows says more.
                with anyio.move_on_after(LAST_WORDS):
                    await self._started.wait()
                raise
            try:
                await self._stop.wait()
            finally:
                peer.hurry()
            peer.close("the hub stopped it")
            tasks.cancel_scope.cancel()

    async def _pump(self, link: ChildConnection, peer: Peer) -> None:
        try:
            while True:
                message = await link.next()
                try:
                    with anyio.fail_after(STALL):
                        await self._take(message, peer, link)
                except TimeoutError:
                    raise GoneError(f"it read no answer for {STALL:g} s, and asked on") from None
                del message  # it may be large, and the next one may not come for hours
        except GoneError as exc:
            # At once: closing the connection may take seconds.
            self._fall(str(exc))
            raise

    async def _take(self, message: Message, peer: Peer, link: ChildConnection) -> None:
        try:
            await peer.receive(message)
            if self._listen_streams is not None:
                self._listen_streams.note_end(message)
            if isinstance(message, wire.Request):
                await checkpoint()  # so the request finds its call before a response ends that call
        except WireError as exc:
            link.conduct.log.warning("message dropped", error=str(exc))
            if isinstance(message, wire.Request):
                await link.outlet.send(wire.failure_of(exc))
            link.conduct.count("messages that cannot be taken", 0)

    async def _shake_hands(self, peer: Peer, link: ChildConnection, tasks: TaskGroup) -> None:
        handshake = await shake_hands(peer, self.hub, self.spec.era)
        if handshake.era == "modern":
            self._listen_streams = ChildListenStreams(
                tasks,
                peer,
                link.outlet,
                params=lambda params: with_envelope(params, handshake, self.hub),
                missed=self.lists.note_change,
            )
            self._listen_streams.begin(handshake.capabilities)
        listing = await self.lists.read(peer, handshake, link.conduct.log)
        self.answers.line.is_active = _asks_without_naming(self.spec, handshake)
        self.state = Ready(handshake, listing)
        self._health.came()
        self._started.set()
        log.info("ready", server=self.spec.name, era=handshake.era, tools=len(listing.tools))
        for name in self._learned(self.state):
            await self.answers.spread(Notification(name, {}))
        await self.answers.came()
        self._tell_soon(tasks)
        told_by = peer, handshake, link.conduct.log
        tasks.start_soon(self.lists.follow, *told_by, listing, self._relisted)

    async def _relisted(self, listing: Listing, changed: Collection[str]) -> None:
        """Take lists that were read again, and tell the child's users which have changed."""
        if not isinstance(self.state, Ready):
            return
        self.state = Ready(self.state.handshake, listing)
        self._learned(self.state)
        for name in sorted(changed):
            await self.answers.spread(Notification(name, {}))

    def _fall(self, reason: str) -> None:
        if isinstance(self.state, Down):
            return
        reason = shortened(reason, LONGEST_REASON)
        if not self._stop.is_set():
            self._health.fell()
            log.warning("down", server=self.spec.name, reason=reason, next=self._health.outlook)
        self.state = Down(reason)
        self._started.set()
        if self.peer is not None:
            self.peer.close(reason)

    def stop(self) -> None:
        """Ask the owner task to end the child; a start is given up at once."""
        self.is_stopping = True
        self._stop.set()
        if isinstance(self.state, Starting):
            self._fall("the hub stopped it")
            if self._opening is not None:
                self._opening.cancel()

    async def settled(self) -> None:
        """Return once the child is ready or down."""
        await self._started.wait()

    async def ready(self) -> Ready:
        """Wait for the start, and return that state. Raises: ChildError if the child is down."""
        if not isinstance(self.state, Ready):
            await self.settled()
        if isinstance(self.state, Ready):
            return self.state
        reason = self.state.reason if isinstance(self.state, Down) else "it is starting"
        raise ChildError(
            f"server {self.spec.name!r} is not running: {reason}; {self._health.outlook}"
        )

    async def request(self, method: str, params: JsonObject, caller: Caller | None) -> Payload:
        """Send a request to the child, on behalf of `caller` or, if that is None, of the hub.

        `params` must have the fields of the child's era. At a modern child `resources/subscribe`
        opens a stream instead, and `resources/unsubscribe` closes it.

        Raises: ChildError; RpcError that the child returned.
        """
        name, peer, limit = self.spec.name, self.peer, self.spec.timeout
        if peer is None:
            raise ChildError(f"server {name!r} is not running; {self._health.outlook}")
        if self._listen_streams is not None and method in SUBSCRIBING:
            return await self._listen_streams.answer(method, params, self.spec.start_timeout)
        try:
            return await peer.request(method, params, timeout=limit, request_owner=caller)
        except (SilentError, LostError, GoneError) as exc:
            raise self.without_answer(exc) from exc

    def without_answer(self, why: SilentError | LostError | GoneError) -> ChildError:
        """Return the error for a call that this child did not answer."""
        return unanswered(self.spec, why, self._health.outlook)

    async def forward(self, method: str, params: JsonObject) -> Payload:
        """Send a request that has no path in it. Raises: ChildError; RpcError of the child."""
        ready = await self.ready()
        return await self.request(method, with_envelope(params, ready.handshake, self.hub), None)

    async def unsubscribe(self, uri: str) -> None:
        """End the subscription of a resource, unless a client wants it by now; log a failure."""
        if self.answers.has_subscribers(uri):
            return
        try:
            await self.forward("resources/unsubscribe", {"uri": uri})
        except (ChildError, RpcError) as exc:
            log.debug("not unsubscribed", server=self.spec.name, error=str(exc))

    def share(self, roots: RootSet, tasks: TaskStarter) -> None:
        """Give the child other roots; a task of `tasks` notifies it that they changed.

        A child that does not read its input keeps nobody waiting, and gets one notification for
        all changes meanwhile.
        """
        self.answers.roots = roots
        self._roots_changes += 1
        self._tell_soon(tasks)

    def _tell_soon(self, tasks: TaskStarter) -> None:
        """Tell the child of changed roots, if there are any and it is ready: else once it is."""
        if isinstance(self.state, Ready) and self._roots_changes and not self._is_telling:
            self._is_telling = True
            tasks.start_soon(self._tell_of_roots)

    async def _tell_of_roots(self) -> None:
        told = 0
        try:
            while self.peer is not None and told != self._roots_changes:
                told = self._roots_changes
                await self.peer.notify("notifications/roots/list_changed", {})
        finally:
            self._is_telling = False

    async def _serve(self, tasks: TaskGroup, asked: Asked) -> Payload:
        method, params = asked.request.method, asked.request.params
        async with ChildRequest(asked, tasks) as question:
            return await self.answers.answer(method, params, question)

    async def _notified(self, conduct: PeerConduct, notification: Notification) -> None:
        conduct.pace.spend(PASSED_ON)
        streams = self._listen_streams
        heard = notification if streams is None else streams.heard(notification)
        if heard is not None and heard.method in LIST_CHANGED:
            self.lists.note_change({heard.method})
        elif heard is not None:
            await self.answers.spread(heard)


def _asks_without_naming(spec: ServerSpec, handshake: ServerHandshake) -> bool:
    """Return whether a child may ask its clients, and does not say for which call it asks.

    Over streamable HTTP a child asks on the stream of the call; if it does not, `ChildCallbacks`
    learns it by its first question.
    """
    if handshake.era == "modern" or {*FOR_CLIENTS.values()}.isdisjoint(handshake.declared):
        return False
    return not isinstance(spec.target, RemoteTarget) or spec.target.transport == "sse"


PATIENCE: Final = 2.0
"""Seconds that a call waits for the child to accept the call's log level."""


async def log_from(child: Child, level: str, session: SessionKey | None = None) -> None:
    """Set the child's log level for all calls of `session`; without one, for the next call.

    A modern child gets the level with each call, and a child without `logging` gets none.
    """
    state, levels = child.state, child.answers.levels
    if not isinstance(state, Ready) or state.handshake.era == "modern":
        return
    if not state.handshake.offers("logging"):
        return
    wanted = levels.of_call(level) if session is None else levels.of_session(session, level)
    if wanted is None:
        return
    try:
        with anyio.move_on_after(None if session is not None else PATIENCE) as waiting:
            await child.forward("logging/setLevel", {"level": wanted})
    except (ChildError, RpcError) as exc:
        levels.forget(wanted)
        log.warning("log level not set", server=child.spec.name, error=str(exc))
    except BaseException:  # cancelled: the child may not have got it
        levels.forget(wanted)
        raise
    else:
        if waiting.cancelled_caught:
            levels.forget(wanted)
        else:
            levels.confirm(wanted)
