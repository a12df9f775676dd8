"""`check --connect`: start every server once, and tell what each offers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import anyio
from msgspec import Struct

from hub.app.machine import Setting
from hub.app.running import running_hub
from hub.catalog.merge import Offer
from hub.children.child import Ready
from hub.cli.check.problems import tool_problems
from hub.cli.output import BAD, GOOD, Finding, Steps, painted
from hub.config.models import HubConfig
from hub.errors import ChildError, HubError
from hub.legible import legible, on_one_line
from hub.sessions.services import Services
from hub.sessions.session import Session
from hub.specs import ServerSpec
from hub.values import STDIO, JsonObject, ServerName


class ServerAnswer(Struct, frozen=True, rename="camel"):
    """What a server said that was started: what it offers, or in `error` why it did not answer.

    `hidden` is the number of tools that clients do not see, `seconds` what the start took.
    """

    server: ServerName
    error: str | None = None
    name: str = ""
    protocol: str = ""
    tools: tuple[str, ...] = ()
    hidden: int = 0
    resources: int = 0
    templates: int = 0
    prompts: int = 0
    seconds: float = 0.0
    problems: tuple[Finding, ...] = ()

    def text(self) -> str:
        """Return it as a line for people; an error may have several."""
        if self.error is not None:
            return painted(legible(self.error), BAD)
        count = f"{len(self.tools)} tools" + (
            f" ({self.hidden} more left out)" if self.hidden else ""
        )
        return (
            f"{painted(on_one_line(self.name), GOOD)} ({self.protocol}); {count}: "
            f"{', '.join(map(on_one_line, self.tools)) or '-'}; {self.resources} resources, "
            f"{self.templates} templates, {self.prompts} prompts, {self.seconds:.1f} s"
        )


async def answers_of(config: HubConfig, setting: Setting, steps: Steps) -> list[ServerAnswer]:
    """Start the servers side by side; return what each said, in the order of the config."""
    answers: list[ServerAnswer] = []
    order: list[ServerName] = []
    config = config.model_copy(update={"audit": None})  # nothing is called
    async with running_hub(config, setting) as hub, anyio.create_task_group() as tasks:
        services = hub.services
        services.children.known.renews = True  # whoever checks wants to see what is there now
        order += services.servers
        session = Session(services, tasks, principal=STDIO)
        async with anyio.create_task_group() as starting:
            for spec in services.servers.values():
                steps.begin(spec.name, "starting")
                starting.start_soon(partial(_ask, services, session, config, steps), spec, answers)
        session.close()
        tasks.cancel_scope.cancel()
    return sorted(answers, key=lambda answer: order.index(answer.server))


async def _ask(  # noqa: PLR0913, PLR0917 - the first four are the same for all servers
    services: Services,
    session: Session,
    config: HubConfig,
    steps: Steps,
    spec: ServerSpec,
    answers: list[ServerAnswer],
) -> None:
    began = services.machine.clock()
    try:
        child = await services.children.obtain(session.slot_for(spec, session.known_effective()))
        ready = await child.ready()
    except (ChildError, HubError) as exc:
        answer = ServerAnswer(spec.name, str(exc))
    else:
        tools = list(map(_name_of, ready.listing.tools))
        problems = tuple(tool_problems(spec, config, tools))
        took = round(services.machine.clock() - began, 3)
        answer = _answer(spec.name, ready, spec.offer, problems, took)
    answers.append(answer)
    steps.end(spec.name, answer.text())


def _answer(
    server: ServerName, ready: Ready, offer: Offer, problems: Sequence[Finding], seconds: float
) -> ServerAnswer:
    listing, handshake = ready.listing, ready.handshake
    named = f"{handshake.info.get('name', '?')} {handshake.info.get('version', '')}".strip()
    tools = tuple(tool for tool in map(_name_of, listing.tools) if offer.includes(tool))
    return ServerAnswer(
        server,
        name=named,
        protocol=handshake.version,
        tools=tools,
        hidden=len(listing.tools) - len(tools),
        resources=len(listing.resources),
        templates=len(listing.templates),
        prompts=len(listing.prompts),
        seconds=seconds,
        problems=tuple(problems),
    )


def _name_of(tool: JsonObject) -> str:
    return str(tool.get("name"))
