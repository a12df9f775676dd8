"""What `check` tries out: every server (`--connect`), the issuers of tokens, and confinement."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from secrets import token_urlsafe
from typing import Final, TypeAlias

import anyio
from msgspec import Struct

from hub.app.machine import Setting
from hub.children.child import Ready
from hub.cli.check.problems import tool_problems
from hub.cli.own_client import own_client
from hub.cli.terminal import BAD, GOOD, Finding, Steps, counted, painted
from hub.config.listening.auth import Auth, TrustedIssuer
from hub.config.models import HubConfig
from hub.confinement import landlock, launcher
from hub.confinement.grants import missing
from hub.confinement.program_files import SYSTEM
from hub.confinement.seccomp_rules import PARENT, PARENTS_GROUP, compiled
from hub.legible import legible, on_one_line
from hub.specs import ServerSpec
from hub.system.machine import Kernel
from hub.values import ServerName


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
    answers: dict[ServerName, ServerAnswer] = {}
    config = config.model_copy(update={"audit": None})  # nothing is called
    async with own_client(config, setting) as client:
        client.services.children.known.renews = True  # whoever checks wants what is there now
        servers, clock = client.services.servers, client.services.machine.clock
        began = clock()

        def told(name: ServerName, found: Ready | str) -> None:
            answers[name] = _answer(servers[name], config, found, round(clock() - began, 3))
            steps.end(name, answers[name].text())

        for name in servers:
            steps.begin(name, "starting")
        await client.start_each(servers, told)
    return [answers[name] for name in servers]


def _answer(
    spec: ServerSpec, config: HubConfig, found: Ready | str, seconds: float
) -> ServerAnswer:
    if isinstance(found, str):
        return ServerAnswer(spec.name, found)
    listing, handshake = found.listing, found.handshake
    names = [str(tool.get("name")) for tool in listing.tools]
    tools = tuple(filter(spec.offer.includes, names))
    info = handshake.info
    return ServerAnswer(
        spec.name,
        name=f"{info.get('name', '?')} {info.get('version', '')}".strip(),
        protocol=handshake.version,
        tools=tools,
        hidden=len(names) - len(tools),
        resources=len(listing.resources),
        templates=len(listing.templates),
        prompts=len(listing.prompts),
        seconds=seconds,
        problems=tuple(tool_problems(spec, config, names)),
    )


class IssuerCheck(Struct, frozen=True):
    """What an issuer has said: how many `keys` it has, and what went wrong, key by key."""

    issuer: str
    keys: int = 0
    problems: tuple[str, ...] = ()

    def text(self) -> str:
        """Return it as lines for people."""
        if self.problems:
            return painted(legible("\n".join(self.problems)), BAD)
        return painted(counted(self.keys, "key"), GOOD)


async def issuer_answers(auth: Auth, steps: Steps) -> list[IssuerCheck]:
    """Ask the issuers side by side; return what each said, in the order of the config."""
    found: dict[str, IssuerCheck] = {}
    async with anyio.create_task_group() as tasks:
        for at, one in enumerate(auth.issuers):
            steps.begin(one.issuer, "asking")
            tasks.start_soon(
                partial(_ask_issuer, auth, one, f"listen.auth.issuers[{at}]", steps), found
            )
    return [found[one.issuer] for one in auth.issuers]


async def _ask_issuer(
    auth: Auth, one: TrustedIssuer, at: str, steps: Steps, found: dict[str, IssuerCheck]
) -> None:
    from hub.app import issuers  # noqa: PLC0415 - loads PyJWT

    keys, problems = 0, list[str]()
    async with _noting(problems, f"{at}.jwks" if one.jwks else f"{at}.issuer"):
        keys = len(await issuers.key_source(one)())
        if not keys and one.introspection is None:
            problems.append(f"{at}.issuer: {one.issuer} has no keys that sign")
    if one.introspection is not None:
        endpoint = issuers.introspection_endpoint(one, one.introspection)
        async with _noting(problems, f"{at}.introspection"):
            try:
                said = await endpoint(token_urlsafe(16))
            finally:
                await endpoint.aclose()
            if said.get("active") is not False:
                problems.append(f"{at}.introspection: an unknown token is not refused")
    client = one.client_of_pages
    if client is not None:
        provider = issuers.login_provider(auth.resource, one, client)
        async with _noting(problems, f"{at}.{'pages' if one.proxy is None else 'proxy'}"):
            await provider.try_out()
    found[one.issuer] = answer = IssuerCheck(one.issuer, keys, tuple(problems))
    steps.end(one.issuer, answer.text())


@asynccontextmanager
async def _noting(problems: list[str], where: str) -> AsyncGenerator[None]:
    from hub.server.http.auth.issuer_metadata import IssuerUnavailableError  # noqa: PLC0415 - as above

    try:
        yield
    except IssuerUnavailableError as exc:
        advice = ": is client_secret right?" if "HTTP status 401" in str(exc) else ""
        problems.append(f"{where}: {exc}{advice}")


_TRIAL: Final = """
import os, resource, sys
try:
    resource.prlimit(os.getppid(), resource.RLIMIT_CPU)
except PermissionError:
    print("filtered")
for name in sys.argv[1:]:
    print(open(name).read(), flush=True)
"""
_PATIENCE: Final = 20.0
"""Seconds that the trial may take."""

_Run: TypeAlias = "Callable[..., subprocess.CompletedProcess[str]]"


def confinement_report(kernel: Kernel, run: _Run = subprocess.run) -> tuple[list[str], bool]:
    """Return a report as lines, and whether this machine with this kernel can confine servers.

    Runs a small confined program with one of two files granted: it must read that file, and fail
    to read the other.
    """
    if kernel.abi == 0:
        return [f"This machine cannot confine servers: {kernel.why_not}."], False
    lines = [f"Landlock ABI {kernel.abi}: servers can be confined."]
    lines += [f"  with this kernel: {text}" for text in missing(kernel.abi)]
    if kernel.no_seccomp:
        lines.append(f"System calls are NOT filtered: {kernel.no_seccomp}.")
    else:
        lines.append(
            "seccomp: system calls that affect other processes or the machine are refused."
        )
    trouble = _tried(run, filters=not kernel.no_seccomp)
    if trouble is not None:
        return [*lines, f"A trial FAILED: {trouble}"], False
    lines.append("Tried: a confined program could read the file it was granted, and no other file.")
    return lines, not kernel.no_seccomp


def _tried(run: _Run, *, filters: bool) -> str | None:
    with tempfile.TemporaryDirectory(prefix="roots-hub-") as folder:
        inside, outside = Path(folder, "inside"), Path(folder, "outside")
        inside.write_text("granted")
        outside.write_text("secret")
        code = (sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix)
        places = [*SYSTEM, "/etc/ld.so.cache", *code, str(inside)]
        grants = landlock.encode([("r", place, None) for place in places])
        machine = launcher.architecture() if filters else None
        refused = b"" if machine is None else compiled(machine)
        held = launcher.encode(grants, refused, (PARENT, PARENTS_GROUP))
        python = [sys.executable, "-I", "-S", "-B"]
        before = [*python, launcher.__file__, held, sys.executable]
        try:
            tried = run(
                [*before, *python, "-c", _TRIAL, str(inside), str(outside)],
                capture_output=True,
                text=True,
                timeout=_PATIENCE,
                check=False,
            )
        except (OSError, subprocess.SubprocessError) as exc:
            return str(exc)
    if "secret" in tried.stdout:
        return "a file that was not granted could be read"
    if "granted" not in tried.stdout or "PermissionError" not in tried.stderr:
        return (tried.stderr.strip().splitlines() or ["it printed nothing"])[-1]
    if filters and "filtered" not in tried.stdout:
        return "the limits of another process could be read"
    return None
