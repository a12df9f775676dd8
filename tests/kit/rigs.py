"""Parts of a hub put together for one test: children and clients are played."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio
from anyio.abc import TaskGroup

from hub.calls.resolve import Relay
from hub.catalog.names import Names, NamesMode
from hub.catalog.search import Expose
from hub.children.known.cache import CatalogCache
from hub.children.link import ChildConnection
from hub.children.pool import ChildPool
from hub.guard.containment import CallContext
from hub.guard.decide import Admitted, compile_tool, decide
from hub.guard.policy import Mode, Policy, ToolPolicy
from hub.jsonrpc.errors import RpcError
from hub.jsonrpc.messages import (
    Failure,
    Message,
    Notification,
    Payload,
    Request,
    Response,
    as_object,
)
from hub.jsonrpc.peer import Asked, Peer
from hub.launch.plan import LaunchPlan, LaunchTemplate
from hub.launch.templates import parse_template
from hub.paths.resolve import Flavour
from hub.protocol.constants import METHOD_NOT_FOUND
from hub.roots.effective import OperatorRoots
from hub.roots.roots import EMPTY, RootSet, root_from_path
from hub.sessions.client import Client
from hub.sessions.operator import Operator
from hub.sessions.services import LaunchPlanCache, RootsSettings, Services
from hub.sessions.session import Session
from hub.specs import RemoteTarget, ServerSpec
from hub.system.machine import Machine, OsDisk
from hub.system.private_file import CacheFiles
from hub.system.tasks import FairWorker
from hub.values import Call, CallMethod, Json, JsonObject, ServerName
from tests.kit.fakes import FakeChild, FakeLinks, RecordingAudit, RecordingOutlet, Silence
from tests.kit.loops import in_time

INFO: JsonObject = {"name": "roots-hub", "version": "1"}
ROOTS: JsonObject = {"roots": {"listChanged": True}}
"""What a client declares that has roots."""


def remote(name: str = "files", **changes: object) -> ServerSpec:
    """Return a server that needs no launch plan; clients with the same roots share it."""
    own = {"share": "roots", **changes}
    return ServerSpec(ServerName(name), RemoteTarget("https://example.com/mcp"), **own)  # pyright: ignore[reportArgumentType] - fields of the spec


def launched(name: str = "files", *args: str, **changes: object) -> ServerSpec:
    """Return a server that would be a process; clients with the same roots share it."""
    template = LaunchTemplate(
        name,
        parse_template("server"),
        tuple(parse_template(arg, spread=True) for arg in args),
        args_mode="none",
    )
    own = {"share": "roots", **changes}
    return ServerSpec(ServerName(name), template, **own)  # pyright: ignore[reportArgumentType] - fields of the spec


def roots_at(*paths: object) -> RootSet:
    links, flavour = OsDisk(), Flavour.POSIX
    return RootSet(
        tuple(
            root_from_path(str(path), name=None, links=links, flavour=flavour, unsafe=None)
            for path in paths
        )
    )


def admitted(
    name: str = "echo", arguments: JsonObject | None = None, method: CallMethod = "tools/call"
) -> Admitted:
    """Return a call that the guard lets through because it is off."""
    given = arguments or {}
    guard = compile_tool({}, read_only=True, policy=ToolPolicy(Policy(mode=Mode.OFF)))
    context = CallContext(roots=EMPTY, cwd=None, env={}, links=FakeLinks(), flavour=Flavour.POSIX)
    call = Call(method, name, given, {"name": name, "arguments": given})
    verdict = decide(call, guard, context)
    assert isinstance(verdict, Admitted)
    return verdict


@dataclass
class Rig:
    """A hub's shared parts, and what they remember."""

    services: Services
    relay: Relay
    audit: RecordingAudit
    tasks: TaskGroup
    clients: list[RigClient] = field(default_factory=list["RigClient"])

    def client(self, *shared: object, capabilities: JsonObject | None = None) -> RigClient:
        """Return a client that shares these folders; without any, one that has no roots."""
        declared = capabilities if capabilities is not None else (ROOTS if shared else {})
        client = RigClient(self, declared)
        client.shares(*shared)
        self.clients.append(client)
        return client


@asynccontextmanager
async def rig(  # noqa: PLR0913 - each is one thing that a test may choose
    specs: Mapping[str, ServerSpec],
    children: Mapping[str, FakeChild],
    *,
    operator: OperatorRoots | None = None,
    names: NamesMode = "auto",
    expose: Expose = "tools",
    max_children: int = 64,
    settings: RootsSettings | None = None,
    clock: Callable[[], float] = time.monotonic,
    environment: Mapping[str, str] | None = None,
    worker: FairWorker | None = None,
    cache: Path | None = None,
) -> AsyncGenerator[Rig]:
    """Keep a hub with these servers, each played by the child of its name.

    `cache` is the directory in which it finds, and leaves, what the servers list.
    """

    def open_child(
        spec: ServerSpec, plan: LaunchPlan | None
    ) -> AbstractAsyncContextManager[ChildConnection]:
        return children[spec.name].opened(spec, plan)

    servers = {ServerName(name): spec for name, spec in specs.items()}
    machine = Machine(
        links=OsDisk(),
        flavour=Flavour.POSIX,
        environment=environment or {},
        directory="/",
        clock=clock,
        wall_clock=lambda: 1_700_000_000.0,
    )
    made = ChildPool(
        open_child=open_child,
        info=INFO,
        flavour=Flavour.POSIX,
        max_children=max_children,
        chance=lambda: 0.0,
        clock=clock,
        cache=None if cache is None else CatalogCache(CacheFiles(cache)),
    )
    audit = RecordingAudit()
    with in_time():
        async with made.running(), anyio.create_task_group() as tasks:
            services = Services(
                info=INFO,
                servers=servers,
                names=Names(servers, names),
                children=made,
                operator=Operator(operator or OperatorRoots(), servers, machine),
                machine=machine,
                settings=settings or RootsSettings(timeout=5.0, debounce=0.001),
                audit=audit,
                tasks=tasks,
                plans=LaunchPlanCache(machine.environment, machine.directory),
                expose=expose,
                worker=worker or FairWorker(),
            )
            yield Rig(services, Relay(services), audit, tasks)
            tasks.cancel_scope.cancel()


class ClientOutlet(RecordingOutlet):
    """The way to a client that answers questions at once."""

    def __init__(self, client: RigClient) -> None:
        super().__init__()
        self._client = client

    async def send(self, message: Message) -> None:
        await super().send(message)
        if isinstance(message, Request):
            await self._client.answer(message)


class RigClient:
    """The client of one session, after its handshake, without a connection in between.

    `answers` are scripted by method; `tests.kit.hubs.FakeClient` has a whole connection.
    """

    def __init__(self, rig: Rig, capabilities: JsonObject) -> None:
        self.rig = rig
        self.answers: dict[str, JsonObject | Silence | Failure] = {}
        self.outlet = ClientOutlet(self)
        self.peer = Peer(self.outlet, serve=self._serve, notified=self._notified, tasks=rig.tasks)
        self.session = Session(rig.services, rig.tasks, principal="alice", peer=self.peer)
        self.session.greeted(Client("legacy", "2025-11-25", capabilities, {"name": "test"}))
        self.session.opened()
        self._ids = 0

    def shares(self, *paths: object) -> None:
        """Answer `roots/list` with these folders from now on."""
        roots: list[Json] = [{"uri": f"file://{path}"} for path in paths]
        self.answers["roots/list"] = {"roots": roots}

    async def answer(self, request: Request) -> None:
        answer = self.answers.get(request.method, Silence())
        match answer:
            case Failure(_, error):
                await self.peer.receive(Failure(request.id, error))
            case dict():
                await self.peer.receive(Response(request.id, answer))
            case Silence():
                pass

    def asked(self, name: str, arguments: Json = None, **params: Json) -> Asked:
        """Return a `tools/call` as the session's peer would hand it over."""
        given = {} if arguments is None else arguments
        return self.asked_for("tools/call", {"name": name, "arguments": given, **params})

    def asked_for(self, method: str, params: JsonObject) -> Asked:
        self._ids += 1
        return Asked(Request(self._ids, method, params), self.outlet)

    async def call(self, name: str, arguments: Json = None, **params: Json) -> JsonObject:
        """Call a tool; returns its result as it can be read."""
        return await self.request(self.asked(name, arguments, **params))

    async def request(self, asked: Asked) -> JsonObject:
        """Take a request through the relay."""
        return as_object(await self.rig.relay.call(self.session, asked))

    @staticmethod
    async def _serve(asked: Asked) -> Payload:
        raise RpcError(METHOD_NOT_FOUND, asked.request.method)

    @staticmethod
    async def _notified(notification: Notification) -> None:
        """Hear nothing."""
