"""Opens the connections to children: launched processes, and servers behind a URL; with logins."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TypeAlias

import structlog
from msgspec.structs import replace

from hub.children.link import ChildConnection, ProcessLink
from hub.children.process.process import launch
from hub.children.process.process_tree import ProcessSupervisor
from hub.children.slot import ChildSlot
from hub.confinement.confined_launch import confined_plan
from hub.confinement.grants import Confined, NotAsked, Unconfined, confinement_status
from hub.errors import ChildError
from hub.jsonrpc.rated_log import ChildLog
from hub.launch.plan import LaunchPlan, LaunchTemplate
from hub.secrets.reading import SecretReader
from hub.specs import RemoteTarget, ServerSpec
from hub.system.machine import Kernel
from hub.system.tasks import in_own_thread
from hub.values import ServerName

log = structlog.stdlib.get_logger(__name__)

LoginAddress: TypeAlias = Callable[[ServerName, str], str | None]
"""Returns the address where a principal logs in at a server; None if it cannot."""


Opener: TypeAlias = Callable[
    [ServerSpec, LaunchPlan | None], AbstractAsyncContextManager[ChildConnection]
]
"""Opens the connection to a child; a test passes an opener that needs no process."""


def opener(kernel: Kernel, supervisor: ProcessSupervisor, state: Path | None = None) -> Opener:
    """Return the opener for real children; `state` is the hub's directory for what it keeps.

    All children of a server share one `ChildLog`, and so its limits.
    """
    logs: dict[ServerName, ChildLog] = {}
    secrets = SecretReader()

    def open_child(
        spec: ServerSpec, plan: LaunchPlan | None
    ) -> AbstractAsyncContextManager[ChildConnection]:
        its = logs.setdefault(spec.name, ChildLog(spec.name))
        if plan is not None:
            return open_launched(spec, plan, kernel, supervisor, its, secrets=secrets)
        if not isinstance(spec.target, RemoteTarget):
            raise TypeError("a launched child needs a plan")
        from hub.children.remote.connect import open_remote  # noqa: PLC0415 - loads the HTTP client, which only remote children need
        from hub.logins.login_files import LoginFiles  # noqa: PLC0415 - as above

        login = spec.target.login
        logins = None
        if login is not None and state is not None:
            logins = LoginFiles(state, login.owner, in_keyring=login.in_keyring)
        return open_remote(
            spec.name,
            spec.target,
            its,
            secrets=secrets,
            for_commands=spec.for_commands,
            logins=logins,
            supervisor=supervisor,
        )

    return open_child


@asynccontextmanager
async def open_launched(  # noqa: PLR0913 - what a launch consists of
    spec: ServerSpec,
    plan: LaunchPlan,
    kernel: Kernel,
    supervisor: ProcessSupervisor,
    child_log: ChildLog,
    *,
    secrets: SecretReader,
) -> AsyncGenerator[ChildConnection]:
    """Launch a child with its secrets as they are now, confined if its operator asked for that.

    Raises: ChildError if the child cannot be started, a secret cannot be read, or the child must be
        confined and cannot be.
    """
    log.debug("starting", server=spec.name, argv=list(plan.shown), cwd=plan.cwd)
    plan = await _with_secrets(spec, plan, secrets)
    found = NotAsked()
    if isinstance(spec.target, LaunchTemplate):
        found = confinement_status(spec.confine, spec.target, kernel)
    match found:
        case Unconfined(reason) if spec.confine.mode == "require":
            raise ChildError(f"it cannot be confined, and `confine: require` is set: {reason}")
        case Unconfined(reason):
            log.warning("NOT confined", server=spec.name, reason=reason)
        case Confined(no_seccomp=reason) if reason:
            log.warning("system calls are NOT filtered", server=spec.name, reason=reason)
        case Confined() | NotAsked():
            pass
    is_confined = isinstance(found, Confined)
    made = _confined(spec, plan, supervisor, found) if is_confined else nullcontext(plan)
    async with (
        made as final,
        launch(spec.name, final, spec.inherits, supervisor, child_log) as process,
    ):
        yield ProcessLink(process)


async def _with_secrets(spec: ServerSpec, plan: LaunchPlan, secrets: SecretReader) -> LaunchPlan:
    """Return the plan with the values of its secrets in `env`. Raises: ChildError."""
    if not plan.secrets:
        return plan
    at = f"servers.{spec.name}.env"
    found = await secrets.values(at, dict(plan.secrets), spec.for_commands)
    return replace(plan, env=tuple(sorted({**dict(plan.env), **found}.items())), secrets=())


@asynccontextmanager
async def _confined(
    spec: ServerSpec, plan: LaunchPlan, supervisor: ProcessSupervisor, found: Confined
) -> AsyncGenerator[LaunchPlan]:
    """Yield the plan that launches a child confined; its files are there while this lasts."""
    async with supervisor.folders.folder() as private:
        made = partial(confined_plan, spec, plan, private, found)
        yield await in_own_thread(made, f"confines {spec.name}")


def login_of(slot: ChildSlot) -> tuple[str, str] | None:
    """Return where a child needs a login, and whose; None if it needs none."""
    target = slot.spec.target
    if not isinstance(target, RemoteTarget) or target.login is None:
        return None
    return target.url, target.login.owner_for(slot.key.principal)


def with_login(slot: ChildSlot, login_page: LoginAddress) -> ServerSpec:
    """Return the server of a slot, with the login of the slot's principal where it needs one.

    Raises: ChildError if nothing says whose login that is.
    """
    target, name, principal = slot.spec.target, slot.spec.name, slot.key.principal
    if not isinstance(target, RemoteTarget) or target.login is None:
        return slot.spec
    if not (target.login.is_shared or principal):
        raise ChildError(f"all clients share it, but no login: set servers.{name}.auth.shared")
    owner = target.login.owner_for(principal)
    page = login_page(name, owner) if owner else None
    login = replace(target.login, owner=owner, page=page)
    return replace(slot.spec, target=replace(target, login=login))
