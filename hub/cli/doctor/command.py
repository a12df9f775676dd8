"""The subcommand `doctor`: runs all checks, and prints what they found: a table, or JSON.

`--connect` starts each server once, each for a limited time, and says which do not start.
"""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import sys
import textwrap
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Final, TypeAlias

import msgspec
import structlog
from msgspec.structs import replace
from structlog.typing import EventDict, WrappedLogger

from hub.app.machine import Setting
from hub.children.child import Ready
from hub.cli.check.problems import tool_problems
from hub.cli.doctor import configs, machine, programs, settings
from hub.cli.doctor.scene import (
    LookedAtConfig,
    Scene,
    is_plain_file,
    looked_at,
    surroundings_now,
    without_secrets,
)
from hub.cli.options import Subparsers, add_config_option
from hub.cli.own_client import own_client
from hub.cli.terminal import (
    BAD,
    GOOD,
    HINT,
    LEVELS,
    WARNING,
    Finding,
    Steps,
    counted,
    painted,
    steps,
)
from hub.config.load import config_source
from hub.config.models import HubConfig, StdioServer
from hub.config.own_files import FOUND
from hub.errors import HubError, UsageError
from hub.launch.templates import FileSecret, Template
from hub.legible import on_one_line
from hub.secrets.reading import SecretError, file_value
from hub.specs import RemoteTarget, ServerSpec
from hub.system.this_process import run_loop
from hub.values import ServerName

_Check: TypeAlias = Callable[[Scene], Iterable[Finding]]
_CHECKS: Final[tuple[_Check, ...]] = (
    machine.versions,
    machine.locale,
    machine.open_files,
    machine.clock,
    machine.proxies,
    machine.confinement,
    machine.home,
    machine.barred,
    machine.directories,
    machine.records,
    machine.room,
    machine.catalogs,
    machine.caches_of_runners,
    configs.configs,
    configs.modes,
    programs.programs,
    programs.node_version,
    programs.gui_path,
    settings.variables,
    settings.folders,
    settings.secrets,
    settings.audit_file,
    settings.port,
    settings.tokens,
    settings.expired_tokens,
    configs.clients,
)
_STYLES: Final = {"ok": GOOD, "note": HINT, "warning": WARNING, "problem": BAD}
_INDENT: Final = 9


def register(subparsers: Subparsers) -> None:
    """Add the subcommand `doctor`."""
    doctor = subparsers.add_parser(
        "doctor",
        help="find what is wrong here, and say what mends it",
        description="Look for what keeps the hub, its servers and its clients from working. "
        "Nothing is changed, and no server is started without --connect. Exit code 1: there is "
        "a problem.",
    )
    add_config_option(doctor)
    doctor.add_argument(
        "--connect", action="store_true", help="start each server, too, for at most 30 s"
    )
    doctor.add_argument("--json", action="store_true", help="print JSON")
    doctor.set_defaults(perform=_doctor, usual_log_level="error", any_home=True)


def _doctor(options: Namespace) -> int:
    named = config_source(options.config, os.environ)
    if options.connect and named is None:
        # A hub.yaml that only lies here may be anybody's: its commands are not run.
        raise UsageError("--connect: no config is named", "Name one that you trust by --config.")
    last_words = LastWords()
    last_words.take_the_logs_place()
    scene = _scene(named)
    findings = [*scene.found]
    for check in _checks():
        findings += _of(check, scene)
    if options.connect:
        with steps(is_silent=options.json) as under_way:
            findings += _connected(scene, last_words, under_way)
    if options.json:
        print(as_json(findings))
    else:
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        print("\n".join(as_table(findings, width=width)))
    return 1 if any(one.level == "problem" for one in findings) else 0


def _checks() -> Iterator[_Check]:
    yield from _CHECKS
    if sys.platform != "win32":
        from hub.cli.doctor.running_hubs import running_hubs  # noqa: PLC0415 - not on Windows

        yield running_hubs


def _scene(named: str | None) -> Scene:
    """Return what is looked at: the named config, else the one here and those of clients' hubs."""
    scene = surroundings_now()
    entries, found = configs.hub_entries(scene.place)
    sources = [named] if named else []
    if not sources and is_plain_file(scene.directory / FOUND):
        sources = [FOUND]
    found_configs = [looked_at(one, scene) for one in sources]
    if named is None:
        known = {one.path for one in found_configs}
        more = dict.fromkeys(one.config for one in entries if one.config is not None)
        found_configs += [
            looked_at(str(path), scene)
            for path in more
            if path not in known and is_plain_file(path)
        ]
    return replace(scene, configs=found_configs, entries=entries, found=found)


def _connected(scene: Scene, last_words: LastWords, under_way: Steps) -> list[Finding]:
    found: list[Finding] = []
    for one in scene.configs:
        if one.config is None:
            continue
        plan = f"{scene.hub} plan{one.option}"
        try:
            found += run_loop(started, one, one.config, last_words, plan, under_way)
        except HubError as exc:
            fix = f"{scene.hub} check --connect{one.option}"
            found.append(Finding("problem", "start", "the hub", str(exc), fix))
    return found


def _of(check: _Check, scene: Scene) -> Iterator[Finding]:
    """Yield what a check finds. One that fails is a finding too, and the others go on."""
    try:
        yield from check(scene)
    except HubError as exc:
        where, _, what = str(exc).partition("\n")
        yield Finding("problem", check.__name__, where, what or where, f"{scene.hub} check")
    except Exception as exc:  # noqa: BLE001 - no check may end the others
        what = f"could not be looked at: {getattr(exc, 'strerror', None) or type(exc).__name__}"
        yield Finding("warning", "doctor", check.__name__, what)


def as_json(findings: Sequence[Finding]) -> str:
    """Return the findings and how many there are of each level, as JSON."""
    levels = [one.level for one in findings]
    counts = {level: levels.count(level) for level in LEVELS}
    return json.dumps({"findings": msgspec.to_builtins(findings), "counts": counts}, indent=2)


def as_table(findings: Sequence[Finding], *, width: int | None) -> Iterator[str]:
    """Yield lines for people, the worst last, where the eye is; None as `width` wraps nothing."""
    for one in sorted(findings, key=lambda one: LEVELS.index(one.level)):
        mark = painted(f"{one.level:<{_INDENT}}", _STYLES[one.level])
        said = f"{one.about}: {on_one_line(one.where)}: {on_one_line(one.what)}"
        first, *rest = _wrapped(said, width)
        yield mark + first
        yield from (" " * _INDENT + line for line in rest)
        if one.fix:
            # Not wrapped: a command is copied as one line.
            yield f"{'':{_INDENT}}-> {on_one_line(one.fix)}"
    yield _verdict(findings)


def _wrapped(text: str, width: int | None) -> list[str]:
    if width is None:
        return [text]
    return textwrap.wrap(text, max(width - _INDENT, 30), break_on_hyphens=False) or [""]


def _verdict(findings: Sequence[Finding]) -> str:
    bad = {level: sum(one.level == level for one in findings) for level in ("problem", "warning")}
    said = [counted(count, level) for level, count in bad.items() if count]
    return f"{' and '.join(said)}." if said else "Nothing is wrong here."


_PATIENCE: Final = 30.0
"""Seconds that each server gets."""
_SECRET_NAME: Final = re.compile(r"(?i)token|secret|passw|key|auth|credential")
_IN_LOG: Final = re.compile(r" \(the hub's log has [^)]*\)")
"""What does not hold here: `LastWords` takes the place of the log."""
_LEAST_SECRET: Final = 6
"""Shorter values are not hidden: they are in many words."""


class LastWords:
    """Takes the place of the log: keeps the last lines of servers' stderr, and drops the rest."""

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
    looked_at: LookedAtConfig, config: HubConfig, last_words: LastWords, plan: str, steps: Steps
) -> list[Finding]:
    """Return a finding for each server: it answers, or why not, with the end of its stderr.

    Names in `tools` that no tool of a server has are findings, too.
    `plan` is the command that shows how servers are started. `steps` shows what is under way.
    """
    outcomes: dict[ServerName, Ready | str] = {}
    async with own_client(config, Setting()) as client:
        servers = client.services.servers

        def told(name: ServerName, outcome: Ready | str) -> None:
            outcomes[name] = outcome
            steps.end(name, "does not start" if isinstance(outcome, str) else "answers")

        for name in servers:
            steps.begin(name, "starting")
        await client.start_each(servers, told, _PATIENCE)
    # A server's last words may come after the news that it has ended.
    found = [
        _outcome(servers[name], outcome, last_words.of.get(name, "").strip(), plan, config)
        for name, outcome in outcomes.items()
    ]
    for name, outcome in outcomes.items():
        if not isinstance(outcome, str):
            tools = [str(tool.get("name")) for tool in outcome.listing.tools]
            wrong = tool_problems(servers[name], config, tools)
            found += (replace(one, fix=looked_at.edit_fix(one)) for one in wrong)
    return found


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


def _outcome(
    spec: ServerSpec, outcome: Ready | str, last_words: str, plan: str, config: HubConfig
) -> Finding:
    if not isinstance(outcome, str):
        what = f"answers, with {counted(len(outcome.listing.tools), 'tool')}"
        return Finding("ok", "start", spec.name, what)
    what = _IN_LOG.sub("", spec.without_secrets(outcome))
    what += f". Its stderr ends: {last_words}" if last_words else ""
    fix = f"{plan} shows its command: run it by hand"
    if isinstance(spec.target, RemoteTarget):
        fix = f"{plan} shows its url and headers: see whether they are right, and it runs there"
    return Finding("problem", "start", spec.name, _without_secrets(what, spec.name, config), fix)
