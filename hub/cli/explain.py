"""`roots-hub explain`: show whether the guard admits a call, and why; or judge a batch of calls.

No server is started, but with `--connect`, which asks the server itself for the tool's schema.
"""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import cast

from msgspec import Struct, to_builtins

from hub.calls.permission import READ_ONLY, Change, changes_for
from hub.cli.explained_call import (
    CallInQuestion,
    ExplainedCall,
    allowing,
    case_of,
    question_of,
    unreadable,
)
from hub.cli.options import Subparsers, add_config_option, add_profile_option, add_root_option
from hub.cli.terminal import BAD, GOOD, NAME, WARNING, painted, untold
from hub.errors import ConfigError, StartError
from hub.guard.containment import OUTSIDE, CallContext
from hub.guard.decide import Admitted, Judged, Refused, compile_tool, decide, explain, refusal_of
from hub.guard.policy import Policy, ToolPolicy
from hub.legible import on_one_line
from hub.paths.resolve import CachedDisk, Entry, Flavour, LinkReader, PathError
from hub.roots.roots import EMPTY, UnsafePaths, parse_announcement
from hub.system.machine import OsDisk
from hub.values import Call, Json, JsonObject

_FLAVOURS = {"linux": Flavour.POSIX, "darwin": Flavour.MACOS, "windows": Flavour.WINDOWS}
_HERE = "windows" if sys.platform == "win32" else sys.platform


def register(subparsers: Subparsers) -> None:
    """Add the subcommand `explain`."""
    parser: ArgumentParser = subparsers.add_parser(
        "explain",
        help="show whether a call would pass the guard, and why",
        description="Judge one call, or with --batch a row of JSON per line. Exit code 1: refused. "
        "Without a config: by the folders that `run` and `call` serve then, the current directory "
        "(or the --root folders).",
    )
    parser.add_argument(
        "call", metavar="SERVER.TOOL", nargs="?", help="what would be called; or its public name"
    )
    parser.add_argument("--arguments", metavar="JSON", default="{}", help="the call's arguments")
    add_config_option(parser)
    add_root_option(parser)
    add_profile_option(parser)
    parser.add_argument("--schema", metavar="FILE", help="the tool's input schema")
    parser.add_argument(
        "--connect", action="store_true", help="ask the server itself for the tool's schema"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--batch",
        metavar="FILE",
        help="judge {id, arguments, schema, roots, ...} lines; - for stdin",
    )
    parser.set_defaults(perform=perform, usage_error=parser.error, usual_log_level="warning")


def perform(options: Namespace) -> int:
    """Explain one call or a batch. Return the exit code: 1 if a single call is refused."""
    if options.batch is not None:
        return _batch(options.batch)
    question = question_of(options)
    case = case_of(question)
    verdict, judged = _judged_in(case)
    refused = refusal_of(verdict)
    untold("root skipped")  # the changes are only tried
    allowed_by = None if refused is None else allowing(question, _needed)
    show = as_json if options.json else as_text
    print(show(Explanation(case, verdict, judged, allowed_by)))
    return 0 if refused is None else 1


def _judged_in(case: ExplainedCall) -> tuple[Admitted | Refused, tuple[Judged, ...]]:
    name = case.call.name
    guard = compile_tool(case.schema, read_only=case.read_only, policy=case.policy, name=name)
    verdict = decide(case.call, guard, case.context)
    try:
        return verdict, explain(case.call, guard, case.context)
    except PathError:
        return verdict, ()


def _needed(question: CallInQuestion) -> tuple[Change, ...] | None:
    """Return the changes for the first place that is refused; None if the call is not refused."""
    try:
        case = case_of(question)
    except (ConfigError, StartError):
        return ()  # the folder of a change cannot be a root
    verdict, judged = _judged_in(case)
    refused = refusal_of(verdict)
    if refused is None:
        return None
    readings = [
        one for value in judged if value.pointer == refused.pointer for one in value.readings
    ]
    objected = [one for one in readings if one.objection == refused.reason]
    places = dict.fromkeys(one.leads_to for one in objected if one.leads_to is not None)
    # One place at a time: what lets it in may do for all other readings of the text.
    each = [(place,) for place in places] or [()]
    found = (changes_for(refused, case.call, case.circumstances, one) for one in each)
    return next(filter(None, found), ())


def _batch(source: str) -> int:
    try:
        for line in answers(read_lines(source)):
            print(line)
    except BrokenPipeError:
        raise
    except OSError as exc:
        raise unreadable(
            f"--batch {source}", exc, "Name a file of JSON lines, or - for stdin."
        ) from exc
    return 0


class NoDisk(LinkReader):
    """A `LinkReader` for another platform, without a disk to ask: every path is a directory."""

    def entry(self, path: str) -> Entry | None:
        return Entry("directory", 0, 0)

    def target(self, path: str) -> str:
        raise PathError(f"{path} is not a link")


def read_lines(source: str, stdin: Iterable[bytes] | None = None) -> Iterator[bytes]:
    """Yield the lines of a file, or of `stdin` (this process's own) for `-`."""
    if source == "-":
        yield from sys.stdin.buffer if stdin is None else stdin
        return
    with Path(source).open("rb") as lines:
        yield from lines


def answers(lines: Iterable[bytes]) -> Iterator[str]:
    """Yield a JSON verdict for each line that is not blank: a refusal if it cannot be read."""
    for line in lines:
        if line.strip():
            yield json.dumps(_answer(line))


def _answer(line: bytes) -> JsonObject:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as exc:
        return _verdict(None, None, f"the row is not JSON: {exc}")
    if not isinstance(row, dict):
        return _verdict(None, None, "the row is not an object")
    return _judged(cast("JsonObject", row))


def _judged(row: JsonObject) -> JsonObject:
    number, arguments = row.get("id"), row.get("arguments")
    context = _context(row)
    if context is None or not isinstance(arguments, dict):
        return _verdict(number, None, "the row's arguments, roots, env or platform are not usable")
    policy = ToolPolicy(Policy(unsafe=_unsafe(context)))
    tool = row.get("tool")
    name = tool if isinstance(tool, str) else ""
    guard = compile_tool(row.get("schema"), read_only=False, policy=policy, name=name)
    call = Call("tools/call", name, arguments, {"arguments": arguments})
    verdict = decide(call, guard, context)
    if isinstance(verdict, Refused):
        return _verdict(number, verdict.pointer, verdict.reason)
    return {"id": number, "verdict": "allow", "pointer": None, "reason": None}


def _verdict(number: Json, pointer: str | None, reason: str) -> JsonObject:
    return {"id": number, "verdict": "deny", "pointer": pointer, "reason": reason}


def _context(row: JsonObject) -> CallContext | None:
    platform, cwd = row.get("platform", _HERE), row.get("cwd")
    env, uris = row.get("env", {}), row.get("roots", [])
    flavour = _FLAVOURS.get(platform) if isinstance(platform, str) else None
    if flavour is None or not isinstance(env, dict) or not isinstance(uris, list):
        return None
    links = CachedDisk(OsDisk()) if platform == _HERE else NoDisk()
    roots: list[Json] = [{"uri": uri} for uri in uris]
    announced = parse_announcement({"roots": roots}, links=links, flavour=flavour, unsafe=None)
    return CallContext(
        roots=announced.roots if announced is not None else EMPTY,
        cwd=cwd if isinstance(cwd, str) else None,
        env={key: value for key, value in env.items() if isinstance(value, str)},
        links=links,
        flavour=flavour,
    )


def _unsafe(context: CallContext) -> UnsafePaths:
    home = context.env.get("HOME") or context.env.get("USERPROFILE")
    try:
        return UnsafePaths(home, context.flavour)
    except PathError:
        return UnsafePaths(None, context.flavour)


FINE = "fine"
"""What is shown for a reading that is inside the roots."""


class Explanation(Struct, frozen=True):
    """The verdict on a call, its judged values, and what would let it pass, if that is known."""

    case: ExplainedCall
    verdict: Admitted | Refused
    judged: tuple[Judged, ...]
    allowed_by: tuple[Change, ...] | None


def as_text(told: Explanation) -> str:
    """Return the verdict, each value with its readings, and what would let the call pass."""
    case, verdict, judged = told.case, told.verdict, told.judged
    refused = refusal_of(verdict)
    style = GOOD if refused is None else WARNING if isinstance(verdict, Admitted) else BAD
    outcome = painted(_outcome(verdict), style)
    lines = [f"{painted(on_one_line(case.name), NAME)}: {outcome}"]
    lines += [refused.message()] if refused else []
    for value in judged:
        lines += ["", on_one_line(f"{value.pointer}  ({value.kind.value}: {value.why})")]
        rows = _rows(value)
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for *cells, objection in rows:
            row = "  ".join(map(str.ljust, cells, widths))
            lines.append(f"  {row}  {painted(objection, GOOD if objection == FINE else BAD)}")
    if not judged and refused is None:
        lines.append("No argument is judged as a path.")
    elif not case.context.enforcing:
        lines += [
            "",
            "No roots are set, so paths are not compared with any; set one with --root DIR.",
        ]
    if case.scopes:
        lines += ["", f"A token of an issuer needs the scopes {' '.join(case.scopes)}."]
    if refused is not None:
        lines += ["", *_permission(told, refused)]
    return "\n".join(lines)


def _rows(value: Judged) -> list[tuple[str, str, str, str]]:
    """Return the readings of a value; one that is fine for one rule and not for another is not."""
    rows = dict.fromkeys(
        (
            json.dumps(read.reading),
            on_one_line(read.how),
            on_one_line(read.leads_to or "-"),
            on_one_line(read.objection or FINE),
        )
        for read in value.readings
    )
    refused = {row[:3] for row in rows if row[3] != FINE}
    return [row for row in rows if row[3] != FINE or row[:3] not in refused]


def _permission(told: Explanation, refused: Refused) -> list[str]:
    case, allowed_by = told.case, told.allowed_by
    lines = list[str]()
    if refused.reason == READ_ONLY and case.schema is None:
        lines.append("A tool that only reads passes: --connect asks the server whether it does.")
    if not allowed_by:
        profile = case.circumstances.profile
        where = "" if profile is None else f" The rules of profiles.{profile} count, too."
        return [*lines, f"No change that is known would let this call pass.{where}"]
    lines += ["It passes after:", *(f"  {on_one_line(change.text)}" for change in allowed_by)]
    if refused.reason == OUTSIDE:
        lines.append(
            "For a client that shares roots, its own count instead: it has to share the folder."
        )
    return lines


def _outcome(verdict: Admitted | Refused) -> str:
    if isinstance(verdict, Refused):
        return "refused"
    return (
        "allowed" if verdict.would_refuse is None else "allowed, because refusals are only reported"
    )


def as_json(told: Explanation) -> str:
    """Return the same as one JSON object, in camel case."""
    case, verdict, allowed_by = told.case, told.verdict, told.allowed_by
    refused = refusal_of(verdict)
    arguments = [
        {
            "pointer": value.pointer,
            "kind": value.kind.value,
            "why": value.why,
            "value": value.value,
            "readings": [
                {
                    "reading": read.reading,
                    "how": read.how,
                    "leadsTo": read.leads_to,
                    "objection": read.objection,
                }
                for read in value.readings
            ],
        }
        for value in told.judged
    ]
    shown = {
        "call": case.name,
        "verdict": "deny" if isinstance(verdict, Refused) else "allow",
        "mode": case.policy.policy.mode.value,
        "message": refused.message() if refused is not None else None,
        "pointer": refused.pointer if refused is not None else None,
        "roots": list(case.context.roots.uris),
        "enforcing": case.context.enforcing,
        "scopes": list(case.scopes),
        "allowedBy": [to_builtins(change) for change in allowed_by] if allowed_by else None,
        "arguments": arguments,
    }
    return json.dumps(shown, indent=2, default=str)
