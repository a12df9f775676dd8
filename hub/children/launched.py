"""Launches a child process, confined if the operator asked for that and the kernel supports it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial

import structlog
from msgspec.structs import replace

from hub.children.link import ChildConnection, open_process
from hub.children.process.process_tree import ProcessSupervisor
from hub.confinement.confined_launch import confined_plan
from hub.confinement.grants import Confined, NotAsked, Unconfined, confinement_status
from hub.errors import ChildError
from hub.jsonrpc.rated_log import ChildLog
from hub.launch.plan import LaunchPlan, LaunchTemplate
from hub.secrets.reading import SecretReader
from hub.specs import ServerSpec
from hub.system.machine import Kernel
from hub.system.threads import in_own_thread

log = structlog.stdlib.get_logger(__name__)


@asynccontextmanager
async def open_launched(  # noqa: PLR0913 - what a launch consists of
    spec: ServerSpec,
    plan: LaunchPlan,
    kernel: Kernel,
    supervisor: ProcessSupervisor,
    child_log: ChildLog | None = None,
    *,
    secrets: SecretReader | None = None,
) -> AsyncGenerator[ChildConnection]:
    """Launch a child with its secrets as they are now, confined if its operator asked for that.

    Raises: ChildError if the child cannot be started, a secret cannot be read, or the child must be
        confined and cannot be.
    """
    log.debug("starting", server=spec.name, argv=list(plan.shown), cwd=plan.cwd)
    plan = await _with_secrets(spec, plan, secrets or SecretReader())
    found = NotAsked()
    if isinstance(spec.target, LaunchTemplate):
        found = confinement_status(spec.confine, spec.target, kernel)
    match found:
        case Confined(no_seccomp=reason):
            if reason:
                log.warning("system calls are NOT filtered", server=spec.name, reason=reason)
            opened = _open_confined(spec, plan, supervisor, child_log, found)
        case Unconfined(reason) if spec.confine.mode == "require":
            raise ChildError(f"it cannot be confined, and `confine: require` is set: {reason}")
        case Unconfined(reason):
            log.warning("NOT confined", server=spec.name, reason=reason)
            opened = open_process(spec.name, plan, spec.inherits, supervisor, child_log)
        case NotAsked():
            opened = open_process(spec.name, plan, spec.inherits, supervisor, child_log)
    async with opened as link:
        yield link


async def _with_secrets(spec: ServerSpec, plan: LaunchPlan, secrets: SecretReader) -> LaunchPlan:
    """Return the plan with the values of its secrets in `env`.

    Raises: ChildError.
    """
    if not plan.secrets:
        return plan
    at = f"servers.{spec.name}.env"
    found = await secrets.values(at, dict(plan.secrets), spec.for_commands)
    return replace(plan, env=tuple(sorted({**dict(plan.env), **found}.items())), secrets=())


@asynccontextmanager
async def _open_confined(
    spec: ServerSpec,
    plan: LaunchPlan,
    supervisor: ProcessSupervisor,
    child_log: ChildLog | None,
    found: Confined,
) -> AsyncGenerator[ChildConnection]:
    async with supervisor.folders.folder() as private:
        made = partial(confined_plan, spec, plan, private, found)
        confined = await in_own_thread(made, f"confines {spec.name}")
        async with open_process(spec.name, confined, spec.inherits, supervisor, child_log) as link:
            yield link
