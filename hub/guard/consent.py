"""What a client's user can be asked before a path outside the roots is refused, and in what words.

Only about a plain path that is outside: not about what the operator or the guard denies on other
grounds, and not about what lies beyond a ceiling.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from hub.guard.containment import OUTSIDE, CallContext
from hub.guard.decide import Refused, ToolGuard, decide, explain
from hub.paths.file_uris import uri_from_path
from hub.paths.resolve import parts_of
from hub.roots.roots import Root, RootSet
from hub.values import Call, Json, JsonObject

Consent: TypeAlias = Literal["once", "session", "refused"]
"""What a user said, or is taken to have said by not saying anything."""

MAX_QUESTIONS: Final = 3
"""How many places one call may ask about."""
ONCE: Final = "allow once"
SESSION: Final = "allow for this session"
REFUSE: Final = "refuse"
_CONSENTS: Final[dict[Json, Consent]] = {ONCE: "once", SESSION: "session"}
_SHOWN: Final = 200
_NOUN: Final = {"tools/call": "tool", "prompts/get": "prompt", "resources/read": "resource"}
_QUOTES: Final = frozenset({"Pi", "Pf"})


class Wanted(Struct, frozen=True):
    """A place outside the roots that a call would reach, and the argument that leads there.

    `exists` False: nothing is there yet, and a grant is for that very name alone.
    """

    pointer: str
    root: Root
    exists: bool


def wanted(
    call: Call, guard: ToolGuard, context: CallContext, ceilings: Sequence[RootSet]
) -> tuple[Wanted, ...]:
    """Return the places that would have to be granted for this call to pass, in order.

    None at all if it would not pass then either, if one of them lies beyond a ceiling, or if there
    are more than `MAX_QUESTIONS`: nobody is to be asked in vain.
    """
    found: list[Wanted] = []
    verdict = decide(call, guard, context)
    while isinstance(verdict, Refused):
        if verdict.reason != OUTSIDE or len(found) == MAX_QUESTIONS:
            return ()
        path = _leads_to(call, guard, context, verdict.pointer)
        one = None if path is None else _wanted(verdict.pointer, path, context)
        if one is None or not within(one.root, ceilings):
            return ()
        found.append(one)
        context = replace(context, granted=(*context.granted, one.root))
        verdict = decide(call, guard, context)
    return tuple(found)


def within(root: Root, ceilings: Sequence[RootSet]) -> bool:
    """Return whether a place is below each of the ceilings."""
    return all(ceiling.covers(root.parts) is not None for ceiling in ceilings)


def _leads_to(call: Call, guard: ToolGuard, context: CallContext, pointer: str) -> str | None:
    """Return where the reading leads that a call was refused for; None if nobody can say."""
    objected = (
        (judged.pointer, evaluated)
        for judged in explain(call, guard, context)
        for evaluated in judged.readings
        if evaluated.objection is not None
    )
    at, evaluated = next(objected, ("", None))
    return (
        evaluated.leads_to
        if evaluated and (at, evaluated.objection) == (pointer, OUTSIDE)
        else None
    )


def _wanted(pointer: str, path: str, context: CallContext) -> Wanted | None:
    entry, parts = context.links.entry(path), parts_of(path, context.flavour)
    uri = uri_from_path(path, context.flavour)
    if entry is None:
        name = Root(uri, path, "", is_file=True, parts=parts, device=0, inode=0)
        return Wanted(pointer, name, exists=False)
    if entry.kind not in {"file", "directory"}:
        return None
    is_file = entry.kind == "file"
    root = Root(uri, path, "", is_file, parts, entry.device, entry.inode)
    return Wanted(pointer, root, exists=True)


# The question


def question(  # noqa: PLR0913 - each is one thing that it names
    asked: Wanted, call: Call, server: str, *, writes: bool, pointer: str, lasting: bool
) -> JsonObject:
    """Return the params of `elicitation/create`: one line, then a choice.

    `pointer` is the argument as the client wrote it. `lasting`: there is a session that a grant
    could last for.
    """
    noun = _NOUN.get(call.method, "request")
    what = "read and write" if writes else "read"
    message = (
        f"Allow access outside of the shared folders? Server {_quoted(server, _SHOWN)}, "
        f"{noun} {_quoted(call.name, _SHOWN)}, argument {_quoted(pointer, _SHOWN)} "
        f"wants to {what} {_described(asked)}"
    )
    answers: list[Json] = [ONCE, SESSION, REFUSE] if lasting else [ONCE, REFUSE]
    decision: JsonObject = {"type": "string", "title": "Decision", "enum": answers}
    return {
        "message": message,
        "requestedSchema": {
            "type": "object",
            "properties": {"decision": decision},
            "required": ["decision"],
        },
    }


def consent_in(result: Json) -> Consent:
    """Return what a user answered; whatever is not a clear yes is a no."""
    if not isinstance(result, dict) or result.get("action") != "accept":
        return "refused"
    content = result.get("content")
    decision = content.get("decision") if isinstance(content, dict) else None
    return _CONSENTS.get(decision, "refused") if isinstance(decision, str) else "refused"


def _described(asked: Wanted) -> str:
    # At the end and never cut: what the user grants must be there to be read.
    path = _quoted(asked.root.path)
    if not asked.exists:
        return f"what is not there yet: {path}"
    return f"the file {path}" if asked.root.is_file else f"all of the directory {path}"


def _quoted(text: str, most: int | None = None) -> str:
    """Return text in quotes that it cannot end, on one line that it cannot leave."""
    shown = text if most is None or len(text) <= most else text[:most] + "..."
    return '"' + "".join(map(_escaped, shown)) + '"'


def _escaped(char: str) -> str:
    if char in '"\\':
        return "\\" + char
    if char.isprintable() and unicodedata.category(char) not in _QUOTES:
        return char
    return f"\\u{{{ord(char):x}}}"
