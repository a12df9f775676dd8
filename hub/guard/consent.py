"""User consent: the question to a client's user before a path outside the roots is refused.

The user is only asked about a path outside the roots: not about a path that is refused for another
reason, and not about a path beyond a ceiling.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from hub.guard.budget import FULL_BUDGET, INLINE_BUDGET, Budget
from hub.guard.containment import OUTSIDE, CallContext
from hub.guard.decide import Admitted, Refused, ToolGuard, decide_within
from hub.paths.file_uris import uri_from_path
from hub.paths.resolve import CachedDisk, PathError, parts_of
from hub.roots.roots import Root, RootSet
from hub.values import Call, Json, JsonObject

Consent: TypeAlias = Literal["once", "session", "refused"]
"""The user's answer; no answer counts as "refused"."""

MAX_QUESTIONS: Final = 3
"""The most places that the user is asked about for one call."""
QUESTION_BUDGET: Final = Budget(
    search=INLINE_BUDGET.search // MAX_QUESTIONS,
    readings=INLINE_BUDGET.readings // MAX_QUESTIONS,
    effort=INLINE_BUDGET.effort // MAX_QUESTIONS,
)
"""The limit for each judgement of `enough` while other calls wait for the event loop."""
MAX_SEEN: Final = 64
"""The most entries of the disk that are kept while the user is asked."""
ONCE: Final = "allow once"
SESSION: Final = "allow for this session"
REFUSE: Final = "refuse"
_CONSENTS: Final[dict[Json, Consent]] = {ONCE: "once", SESSION: "session"}
_SHOWN: Final = 200
_NOUN: Final = {"tools/call": "tool", "prompts/get": "prompt", "resources/read": "resource"}
_UNSURE: Final = re.compile(r"[^ !#-\[\]-~]")
"""Any character but those of ASCII that stand for themselves."""
_QUOTES: Final = frozenset({"Pi", "Pf"})


class Wanted(Struct, frozen=True):
    """A place outside the roots that a call would reach, and the JSON pointer of the argument.

    `exists` False: nothing is there yet, and a grant is for that one path only.
    """

    pointer: str
    root: Root
    exists: bool


class Judgement(Struct, frozen=True):
    """The verdict on a call, and what it was found by.

    The disk of `context` has what was seen of it. `is_final` False: `budget` was used up, and a
    larger one may change the verdict.
    """

    verdict: Admitted | Refused
    is_final: bool
    call: Call
    guard: ToolGuard
    context: CallContext
    budget: Budget

    def allowing(self, place: Root, budget: Budget) -> Judgement:
        """Return the judgement as if the user had allowed `place`, too, at the same moment."""
        granted = (*self.context.granted, place)
        return judgement_of(self.call, self.guard, replace(self.context, granted=granted), budget)


def judgement_of(
    call: Call, guard: ToolGuard, context: CallContext, budget: Budget = FULL_BUDGET
) -> Judgement:
    """Return the verdict of `decide`, with what it was found by."""
    verdict, is_final = decide_within(call, guard, context, budget)
    return Judgement(verdict, is_final, call, guard, context, budget)


class Enough(Struct, frozen=True):
    """The places that must be granted for a refused call to pass, in order, and the verdict then.

    No places: to ask the user would be in vain. `seen` is what the verdict has seen of the disk;
    None if that is too much to be kept, and looked at again, once the user has answered.
    """

    places: tuple[Wanted, ...]
    verdict: Admitted | Refused
    seen: CachedDisk | None = None

    def is_true_now(self) -> bool:
        """Return whether the disk is known to be as the verdict has seen it."""
        return self.seen is not None and self.seen.is_unchanged()


def enough(
    refused: Judgement, ceilings: Sequence[RootSet], budget: Budget = FULL_BUDGET
) -> Enough | None:
    """Return what would be enough for a refused call; None if `budget` does not do to find it.

    To ask is in vain if the call would be refused even then, if a place lies beyond a ceiling, or
    if there are more than `MAX_QUESTIONS`.
    """
    found: list[Wanted] = []
    judgement = refused
    while isinstance(judgement.verdict, Refused):
        one = _wanted(judgement)
        if one is None or len(found) == MAX_QUESTIONS or not within(one.root, ceilings):
            return Enough((), refused.verdict)
        found.append(one)
        judgement = judgement.allowing(one.root, budget)
        if not judgement.is_final:
            return None
    links = judgement.context.links
    seen = links if isinstance(links, CachedDisk) and links.size <= MAX_SEEN else None
    return Enough(tuple(found), judgement.verdict, seen)


def within(root: Root, ceilings: Sequence[RootSet]) -> bool:
    """Return whether a place is covered by each of the ceilings."""
    return all(ceiling.covers(root.parts) is not None for ceiling in ceilings)


def _wanted(refused: Judgement) -> Wanted | None:
    """Return the place that a call was refused for; None if no consent could admit it."""
    verdict, context = refused.verdict, refused.context
    if not isinstance(verdict, Refused) or verdict.reason != OUTSIDE or verdict.leads_to is None:
        return None
    pointer, path = verdict.pointer, verdict.leads_to
    try:
        entry = context.links.entry(path)
    except PathError:
        return None  # no place: the path leads through a file, for example
    parts = parts_of(path, context.flavour)
    uri = uri_from_path(path, context.flavour)
    if entry is None:
        name = Root(uri, path, "", is_file=True, parts=parts, device=0, inode=0)
        return Wanted(pointer, name, exists=False)
    if entry.kind not in {"file", "directory"}:
        return None
    is_file = entry.kind == "file"
    root = Root(uri, path, "", is_file, parts, entry.device, entry.inode)
    return Wanted(pointer, root, exists=True)


def question(  # noqa: PLR0913 - the message names each of them
    asked: Wanted, call: Call, server: str, *, writes: bool, pointer: str, lasting: bool
) -> JsonObject:
    """Return the params of `elicitation/create`: a message of one line and a choice of answers.

    `pointer` names the argument as in the client's request. `lasting`: there is a session, so a
    grant can last for it.
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
    """Return the user's answer; anything but a clear yes is "refused"."""
    if not isinstance(result, dict) or result.get("action") != "accept":
        return "refused"
    content = result.get("content")
    decision = content.get("decision") if isinstance(content, dict) else None
    return _CONSENTS.get(decision, "refused") if isinstance(decision, str) else "refused"


def _described(asked: Wanted) -> str:
    # At the end of the message and never cut: the user must be able to read all of it.
    path = _quoted(asked.root.path)
    if not asked.exists:
        return f"{path}, which does not exist yet"
    return f"the file {path}" if asked.root.is_file else f"all of the directory {path}"


def _quoted(text: str, most: int | None = None) -> str:
    """Return `text` in quotes on one line, cut after `most` characters.

    Quotes, backslashes and unprintable characters in it are escaped.
    """
    shown = text if most is None or len(text) <= most else text[:most] + "..."
    return f'"{_UNSURE.sub(_escaped, shown)}"'


def _escaped(found: re.Match[str]) -> str:
    char = found[0]
    if char in '"\\':
        return "\\" + char
    if char.isprintable() and unicodedata.category(char) not in _QUOTES:
        return char
    return f"\\u{{{ord(char):x}}}"
