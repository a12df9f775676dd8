"""`doctor --connect`: start each server once, for a limited time, and say which do not start."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

import anyio
import structlog
from msgspec.structs import replace
from structlog.typing import EventDict, WrappedLogger

from hub.app.machine import Setting
from hub.cli.doctor.scene import without_secrets
from hub.cli.output import Finding, Steps, counted
from hub.cli.own_client import OwnClient, own_client, reason_of
from hub.config.models import HubConfig, StdioServer
from hub.errors import HubError
from hub.launch.secret_references import FileSecret
from hub.launch.templates import Template
from hub.secrets.reading import file_value
from hub.secrets.values import SecretError
from hub.specs import RemoteTarget, ServerSpec
from hub.values import ServerName

_PATIENCE: Final = 30.0
"""Seconds that all servers together get, which start side by side."""
_SECRET_NAME: Final = re.compile(r"(?i)token|secret|passw|key|auth|credential")
_IN_LOG: Final = re.compile(r" \(the hub's log has [^)]*\)")
"""What does not hold here: `LastWords` takes the place of the log."""
_LEAST_SECRET: Final = 6
"""Shorter values are not hidden: they are in many words."""


class LastWords:
    """Takes the place of the log: keeps the last lines of servers' stderr, drops all other events.

    What the checks find is told in one place.
    """

    def __init__(self) -> None:
        self.of: dict[str, str] = {}

    def take_the_logs_place(self) -> None:
        """Have all that is logged from now on brought here."""
        structlog.configure(
            processors=[self],
            logger_factory=structlog.stdlib.LoggerFactory(),
            wrapper_class=structlog.stdlib.BoundLogger,
        )
        logging.getLogger("hub").setLevel(logging.INFO)

    def __call__(self, _logger: WrappedLogger, _method: str, event: EventDict) -> str:
        """Keep an event's lines if it has such."""
        if event.get("event") == "last stderr lines":
            self.of[str(event.get("server"))] = str(event.get("said", ""))
        raise structlog.DropEvent


async def started(
    config: HubConfig, last_words: LastWords, plan: str, steps: Steps
) -> list[Finding]:
    """Return a finding for each server: it answers, or why not, with the end of its stderr.

    `plan` is the command that shows how servers are started. `steps` shows what is under way.
    """
    found: dict[str, Finding] = {}
    async with own_client(config, Setting()) as client:
        with anyio.move_on_after(_PATIENCE):
            async with anyio.create_task_group() as starting:
                for spec in client.services.servers.values():
                    steps.begin(spec.name, "starting")
                    starting.start_soon(_start, client, spec, found, plan, steps)
        for name, spec in client.services.servers.items():
            if name not in found:
                what = f"has not answered within {_PATIENCE:.0f} s"
                found[name] = Finding("problem", "start", name, what, _by_hand(spec, plan))
                steps.end(name, what)
    return [_with_last_words(one, last_words, config) for one in found.values()]


def _with_last_words(found: Finding, last_words: LastWords, config: HubConfig) -> Finding:
    if found.level == "ok":
        return found
    said = last_words.of.get(found.where, "").strip()
    what = f"{found.what}. Its stderr ends: {said}" if said else found.what
    return replace(found, what=_without_secrets(what, found.where, config))


def _values(template: Template) -> Iterator[str]:
    """Yield the texts in the value of a variable, and the contents of files that it refers to."""
    for part in template.filled(lambda name: os.environ.get(name, ""), ()).parts:
        if isinstance(part, str):
            yield part
        elif isinstance(part, FileSecret):
            with suppress(SecretError):
                yield file_value(part.path)


def _without_secrets(text: str, server: str, config: HubConfig) -> str:
    """Return the text without values of the server's variables and of those named as secrets."""
    entry = config.servers[ServerName(server)]
    values, words = list[str](), list[str]()
    if isinstance(entry, StdioServer):
        for template in entry.env.values():
            values += _values(template)
        words += [*entry.command.split(), *entry.args]
    values += [value for name, value in os.environ.items() if _SECRET_NAME.search(name)]
    for value in sorted(values, key=len, reverse=True):
        if len(value) >= _LEAST_SECRET:
            text = text.replace(value, "(hidden)")
    return without_secrets(text, words)


async def _start(
    client: OwnClient, spec: ServerSpec, found: dict[str, Finding], plan: str, steps: Steps
) -> None:
    try:
        ready = await client.start(spec.name)
    except HubError as exc:
        what = _IN_LOG.sub("", spec.without_secrets(reason_of(exc, spec.name)))
        found[spec.name] = Finding("problem", "start", spec.name, what, _by_hand(spec, plan))
        steps.end(spec.name, "does not start")
        return
    what = f"answers, with {counted(len(ready.listing.tools), 'tool')}"
    found[spec.name] = Finding("ok", "start", spec.name, what)
    steps.end(spec.name, "answers")


def _by_hand(spec: ServerSpec, plan: str) -> str:
    if isinstance(spec.target, RemoteTarget):
        return f"{plan} shows its url and headers: see whether they are right, and it runs there"
    return f"{plan} shows its command: run it by hand"
