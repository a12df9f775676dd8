"""`roots-hub check`: say what is wrong with a config, and who shares its servers."""

from __future__ import annotations

import json
import os
from argparse import Namespace
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from textwrap import indent
from typing import Final
from urllib.parse import urlsplit

from msgspec import Struct, to_builtins

from hub.app.machine import Setting, place_of, this_machine
from hub.children.known.cache import CatalogCache
from hub.children.known.lists import KnownLists
from hub.cli.check.plans import servers_of
from hub.cli.check.problems import (
    address_warnings,
    audit_problem,
    folder_problems,
    missing_program,
    nearly_full,
    token_problems,
)
from hub.cli.check.secrets import secret_problems, secret_warnings
from hub.cli.check.trials import (
    IssuerCheck,
    ServerAnswer,
    answers_of,
    confinement_report,
    issuer_answers,
)
from hub.cli.options import (
    Subparsers,
    add_config_option,
    add_root_option,
    config_path,
    configured,
    required_config,
)
from hub.cli.terminal import (
    BAD,
    GOOD,
    HINT,
    NAME,
    WARNING,
    Finding,
    ask_for_inputs,
    counted,
    painted,
    steps,
    untold,
)
from hub.config.clients.entries import is_hub
from hub.config.inheritance import missed_by
from hub.config.listening.listen import Listen
from hub.config.load import config_source
from hub.config.models import HubConfig, RemoteServer, StdioServer, is_for_principals
from hub.config.own_files import catalog_directory
from hub.config.records import following, moved, names_record, recorded
from hub.confinement.confined_launch import settle_confinement, this_kernel
from hub.legible import legible, on_one_line
from hub.protocol.http_headers import is_loopback
from hub.roots.effective import EffectiveRoots, Source
from hub.specs import LeftOut, ServerSpec
from hub.system.private_file import CacheFiles
from hub.system.this_process import run_loop
from hub.values import STDIO, JsonObject, ServerName

_NAMED: Final[Mapping[Source, str]] = {
    "--root": "--root",
    "HUB_ROOTS": "HUB_ROOTS",
    "config": "roots.fallback",
    "detected": "roots.detect",
}
"""What names the folders of clients that share none."""


class Sharing(Struct, frozen=True, rename="camel"):
    """Who shares the processes of some servers, and why."""

    servers: tuple[str, ...]
    who: str
    why: str


class Found(Struct, frozen=True, rename="camel"):
    """What an offline check has found. `known`: servers that are listed before they are started."""

    left_out: tuple[LeftOut, ...]
    warnings: tuple[str, ...]
    hints: tuple[str, ...]
    problems: tuple[Finding, ...]
    servers: tuple[str, ...]
    sharing: tuple[Sharing, ...]
    known: tuple[str, ...]

    def lines(self) -> Iterator[str]:
        """Yield it as lines for people."""
        for one in self.left_out:
            yield f"{painted(on_one_line(one.name), NAME)}: {painted('down', BAD)}, left out:"
            yield from (indent(legible(str(fault)), "  ") for fault in one.faults)
        for label, style, texts in (
            ("warning:", WARNING, self.warnings),
            ("hint:", HINT, self.hints),
        ):
            yield from (f"{painted(label, style)} {on_one_line(text)}" for text in texts)
        yield from problem_lines(self.problems)
        count = counted(len(self.servers), "server")
        style = BAD if self.left_out or self.problems else GOOD
        names = on_one_line(", ".join(self.servers))
        yield f"{count}: {names}. {painted(on_one_line(self._verdict()), style)}"
        for shared in self.sharing:
            yield on_one_line(f"{', '.join(shared.servers)}: {shared.who} ({shared.why})")
        if self.known:
            yield on_one_line(
                f"{', '.join(self.known)}: known from an earlier start: listed before being started"
                " again (`check --connect` renews what is known)"
            )

    def _verdict(self) -> str:
        count = counted(len(self.problems), "problem")
        if self.left_out:
            others = f"The others run, with {count}." if self.problems else "The others run."
            return f"Left out: {', '.join(one.name for one in self.left_out)}. {others}"
        return f"The config loads, but has {count}." if self.problems else "The config is fine."


def problem_lines(problems: Iterable[Finding]) -> Iterator[str]:
    """Yield problems as lines for people."""
    yield from (f"{painted('problem:', BAD)} {on_one_line(one.sentence)}" for one in problems)


def register(subparsers: Subparsers) -> None:
    """Add the subcommand `check`."""
    check = subparsers.add_parser(
        "check",
        help="load a config; with --connect, also start its servers",
        description="Load a config, and say what is wrong with it. Exit code 3: it does not load, "
        "or a server is left out, as where a variable is not set. 1: there is another problem, or "
        "a server does not answer.",
    )
    add_config_option(check)
    add_root_option(check)
    check.add_argument(
        "--connect",
        action="store_true",
        help="start every server and show what it offers; ask the issuers of tokens",
    )
    check.add_argument(
        "--confine", action="store_true", help="tell how this machine can confine servers, and try"
    )
    check.add_argument("--json", action="store_true", help="print JSON")
    check.set_defaults(perform=_check, usual_log_level="warning")


def _check(options: Namespace) -> int:
    untold("root skipped", "down")
    shown: JsonObject = {}
    if options.confine:
        lines, fine = confinement_report(this_kernel())
        shown["confinement"] = {"fine": fine, "report": [*lines]}
        _print(options, lines)
        if configured(options) is None:
            _print_json(options, shown)
            return 0 if fine else 1
    ask_for_inputs(config_source(options.config, os.environ))
    config, warnings = required_config(options)
    found = _found(config, warnings, options)
    _print(options, found.lines())
    shown |= to_builtins(found, enc_hook=str)
    code = 3 if found.left_out else 1 if found.problems else 0
    if options.connect:
        answers, issuers = _answers(config, options), _issuers(config, options)
        shown["answers"] = [to_builtins(answer) for answer in answers]
        shown["issuers"] = [to_builtins(answer) for answer in issuers]
        is_fine = not any(answer.error is not None or answer.problems for answer in answers)
        is_fine = is_fine and not any(answer.problems for answer in issuers)
        code = code or (0 if is_fine else 1)
    _print_json(options, shown)
    return code


def _print(options: Namespace, lines: Iterator[str] | Sequence[str]) -> None:
    if not options.json:
        print(*lines, sep="\n", flush=True)


def _print_json(options: Namespace, shown: JsonObject) -> None:
    if options.json:
        print(json.dumps(shown, indent=2))


def _answers(config: HubConfig, options: Namespace) -> list[ServerAnswer]:
    """Start the servers; print what they say unless JSON is asked for."""
    setting = Setting(given=options.root, is_told=True)
    with steps(is_silent=options.json) as shown:
        answers = run_loop(answers_of, config, setting, shown)
    if options.json:
        return answers
    fine = sum(answer.error is None for answer in answers)
    print(
        painted(f"{fine} of {len(answers)} servers answer.", GOOD if fine == len(answers) else BAD)
    )
    for line in problem_lines(one for answer in answers for one in answer.problems):
        print(line)
    return answers


def _issuers(config: HubConfig, options: Namespace) -> list[IssuerCheck]:
    """Ask the issuers of tokens; print what they say unless JSON is asked for."""
    auth = config.listen.auth
    if auth is None:
        return []
    with steps(is_silent=options.json) as shown:
        return run_loop(issuer_answers, auth, shown)


def _found(config: HubConfig, warnings: Sequence[str], options: Namespace) -> Found:
    servers, left_out = servers_of(config, options)
    specs = [spec for spec, _ in servers]
    named = [*(spec.name for spec in specs), *(one.name for one in left_out)]
    path = config_path(options)
    settle_confinement(specs, this_kernel())
    return Found(
        left_out=left_out,
        warnings=(
            *warnings,
            *missed_by(specs, os.environ),
            *_hubs(config),
            *(one.sentence for one in secret_warnings(config, specs)),
            *_moved_names(config, named, path),
            *(
                f"{one.where}: {one.what}. `{one.fix}` prints another one."
                for one in token_problems(config)
            ),
            *address_warnings(config, os.environ),
            *(one.sentence for one in _full_disks(config)),
            *_reaching_nothing(config, servers),
        ),
        hints=tuple(_hints(config)),
        problems=(*_problems(config, path, servers), *secret_problems(config, specs)),
        servers=tuple(spec.name for spec in specs),
        sharing=tuple(_sharing(config, specs)),
        known=tuple(_known(specs)),
    )


def _problems(
    config: HubConfig, path: Path | None, servers: list[tuple[ServerSpec, EffectiveRoots]]
) -> Iterator[Finding]:
    """Yield what will go wrong with a config that loads, as far as it shows offline."""
    for spec, effective in servers:
        if (missing := missing_program(spec, effective)) is not None:
            yield missing.finding
    place = place_of(this_machine(os.environ), config, path)
    yield from (one.finding for one in folder_problems(config, servers, place))
    yield from filter(None, [audit_problem(config)])


def _reaching_nothing(
    config: HubConfig, servers: Sequence[tuple[ServerSpec, EffectiveRoots]]
) -> Iterator[str]:
    """Yield the servers at which clients without roots reach nothing, though folders are named.

    A folder that cannot be used is a problem of its own.
    """
    for spec, effective in servers:
        is_named = effective.source != "config" or bool(config.roots.fallback)
        if (
            effective.source in _NAMED
            and is_named
            and not (effective.roots.roots or effective.rejected)
        ):
            bounds = ["roots.ceiling"] if config.roots.ceiling else []
            bounds += [] if spec.ceiling is None else ["the folders in its arguments"]
            yield (
                f"servers.{spec.name}: clients that share no folders reach nothing there: no "
                f"folder of {_NAMED[effective.source]} is inside {' and '.join(bounds)}"
            )


def _full_disks(config: HubConfig) -> Iterator[Finding]:
    """Yield that the audit file has hardly any room. Other disks are the matter of `doctor`."""
    if config.audit is not None:
        yield from filter(None, [nearly_full(Path(config.audit.file).parent)])


def _hubs(config: HubConfig) -> Iterator[str]:
    """Yield a warning for each server that is a hub itself."""
    for name, server in config.servers.items():
        if isinstance(server, StdioServer) and is_hub(
            {"command": server.command, "args": [*server.args]}
        ):
            yield (
                f"servers.{name}: starts another hub, so each call is judged and passed on twice. "
                "Write that hub's servers here in its place."
            )


def _moved_names(config: HubConfig, servers: Sequence[ServerName], path: Path | None) -> list[str]:
    """Return a warning if clients know names of tools that are not the listed ones."""
    if path is None:
        return []
    before = recorded(names_record(this_machine(os.environ)), path)
    return moved(following(before, servers, config.names), servers, config.names)


def _sharing(config: HubConfig, specs: Sequence[ServerSpec]) -> Iterator[Sharing]:
    """Yield who shares the processes of which servers, and why."""
    named: dict[tuple[str, str], list[str]] = {}
    for spec in specs:
        why = f"`share: {spec.share}`"
        if config.servers[spec.name].share == "auto" and spec.share == "roots":
            why = "known to keep nothing between calls"
        elif spec.share == "auto":
            why = "may keep something between calls"
            if not config.is_clients:
                why += "; if not, `share: roots`"
        named.setdefault((spec.sharing, why), []).append(spec.name)
    for (who, why), names in named.items():
        yield Sharing(tuple(names), who, why)


def _known(specs: Sequence[ServerSpec]) -> Iterator[str]:
    """Yield the servers whose lists are shown to a client over stdio before they run."""
    known = KnownLists(CatalogCache(CacheFiles(catalog_directory(this_machine(os.environ)))), 0)
    for spec in specs:
        if known.has_run_before(spec, STDIO):
            yield spec.name


def _without_pages(config: HubConfig) -> Iterator[str]:
    """Yield the issuers whose people cannot log in at the servers that want each to do so."""
    servers = [name for name, one in config.servers.items() if is_for_principals(one)]
    for at, issuer in enumerate(() if config.listen.auth is None else config.listen.auth.issuers):
        if servers and issuer.client_of_pages is None:
            yield (
                f"listen.auth.issuers[{at}].pages: clients of {issuer.issuer} cannot log in at "
                f"{', '.join(servers)}. Register a client of the hub's own there, with which "
                "people show who they are (documentation: A login of each client's own)."
            )


def _without_name(listen: Listen) -> Iterator[str]:
    """Yield that the hub does not answer to the name in its own public URL."""
    host = None if listen.auth is None else urlsplit(listen.auth.resource).hostname
    if host is None or is_loopback(host) or host in {listen.host, *listen.names}:
        return
    if is_loopback(listen.host) or listen.names:
        yield (
            f"listen.names: add {host}, the name in listen.auth.resource. Else requests for that "
            "name, as a proxy passes them on, get 421."
        )


def _more_than_run(config: HubConfig) -> Iterator[str]:
    """Yield that a client's first lists lack servers, as not all may run at a time."""
    many, own = len(config.servers), config.max_children_per_session
    most = min(config.max_children, own or config.max_children)
    key = "max_children" if most == config.max_children else "max_children_per_session"
    if many > most:
        yield (
            f"{key}: of {many} servers at most {most} run for a client at a time, so its first "
            f"lists lack the others. Raise it to {many}, if this machine has room for so many."
        )


def _hints(config: HubConfig) -> Iterator[str]:
    """Yield hints about keys that the operator should set; other programs' files have no such."""
    if config.is_clients:
        return
    for at, issuer in enumerate(() if config.listen.auth is None else config.listen.auth.issuers):
        if issuer.proxy is not None and not (issuer.claims or config.profiles):
            yield (
                f"listen.auth.issuers[{at}].claims: everybody with an account at {issuer.issuer} "
                "may use the hub. If these are not your people alone, say which claims they have."
            )
    yield from _without_name(config.listen)
    yield from _without_pages(config)
    yield from _more_than_run(config)
    for name, server in config.servers.items():
        if not isinstance(server, RemoteServer) or "paths" in server.model_fields_set:
            continue
        host = urlsplit(server.url).hostname
        if host is not None and not is_loopback(host):
            yield (
                f"servers.{name}.paths: absolute paths are judged as those of this machine. If they"
                " are those of the server's own, say `paths: remote`, else `paths: local`."
            )
