"""`check --connect`: start every server once, and tell what each offers."""

from __future__ import annotations

from collections.abc import Sequence

import anyio
from msgspec import Struct

from hub.app.machine import Setting
from hub.catalog.merge import Offer
from hub.children.child import Ready
from hub.cli.check.problems import tool_problems
from hub.cli.output import BAD, GOOD, Finding, Steps, counted, painted
from hub.cli.own_client import OwnClient, own_client, reason_of
from hub.config.models import HubConfig
from hub.errors import HubError
from hub.legible import legible, on_one_line
from hub.specs import ServerSpec
from hub.values import JsonObject, ServerName


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
        hidden = f" ({self.hidden} more left out)" if self.hidden else ""
        return (
            f"{painted(on_one_line(self.name), GOOD)} ({self.protocol}); "
            f"{counted(len(self.tools), 'tool')}{hidden}: "
            f"{', '.join(map(on_one_line, self.tools)) or '-'}; "
            f"{counted(self.resources, 'resource')}, {counted(self.templates, 'template')}, "
            f"{counted(self.prompts, 'prompt')}, {self.seconds:.1f} s"
        )


async def answers_of(config: HubConfig, setting: Setting, steps: Steps) -> list[ServerAnswer]:
    """Start the servers side by side; return what each said, in the order of the config."""
    answers: list[ServerAnswer] = []
    config = config.model_copy(update={"audit": None})  # nothing is called
    async with own_client(config, setting) as client:
        client.services.children.known.renews = True  # whoever checks wants what is there now
        order = list(client.services.servers)
        async with anyio.create_task_group() as starting:
            for spec in client.services.servers.values():
                steps.begin(spec.name, "starting")
                starting.start_soon(_ask, client, config, steps, spec, answers)
    return sorted(answers, key=lambda answer: order.index(answer.server))


async def _ask(
    client: OwnClient,
    config: HubConfig,
    steps: Steps,
    spec: ServerSpec,
    answers: list[ServerAnswer],
) -> None:
    clock = client.services.machine.clock
    began = clock()
    try:
        ready = await client.start(spec.name)
    except HubError as exc:
        answer = ServerAnswer(spec.name, reason_of(exc, spec.name))
    else:
        tools = list(map(_name_of, ready.listing.tools))
        problems = tuple(tool_problems(spec, config, tools))
        took = round(clock() - began, 3)
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
