"""The kind of an argument that its description and title tell, where its name says another."""

from __future__ import annotations

import re
from typing import TypeAlias

from hub.guard.keys import vocabulary
from hub.guard.keys.vocabulary import Kind

Verdict: TypeAlias = "tuple[Kind, str]"
"""A kind, and the reason for it."""
_LINES_OF_CODE = re.compile(r"\beach (?:line|string) (?:is|represents) a line of code\b", re.I)
"""Of a Postman script, which `exec` has line by line."""
_A_PATH = re.compile(r"'(?:.* )?paths?'")


def kind_by_description(named: Verdict, text: str) -> Verdict:
    """Return the kind by the description `text`, where the key's name says `named`.

    The last line of `text` is the title: many schemas have the key itself there.
    """
    kind = named[0]
    other = None if vocabulary.SAYS_FILE.search(text) else _other(kind, named[1], text)
    if kind is Kind.PAYLOAD or kind is Kind.COMMAND:
        return named if other else _described_payload(named, text)
    if other:
        return Kind.PAYLOAD, f"described as '{other[0]}'"
    if says := vocabulary.SAYS_GLOB.search(text):
        return Kind.GLOB, f"described as '{says[0]}'"
    if kind is Kind.PATH and (says := _starts(vocabulary.SAYS_CONTENT, text)):
        return Kind.WEAK, f"described as '{says[0]}'"
    if kind is not Kind.PATH and (says := vocabulary.SAYS_REGEX.search(text)):
        is_file = any(_starts(one, text) for one in vocabulary.OF_FILE)
        return Kind.WEAK if is_file else Kind.PAYLOAD, f"described as '{says[0]}'"
    return named if kind in {Kind.PATH, Kind.GLOB} else _mentioned(named, text)


def _other(kind: Kind, why: str, text: str) -> re.Match[str] | None:
    """Return the words of a description that say that a path is no file path (a URL's, an XPath).

    None if the key's name says "file", whatever is looked for in the file; or if the description
    first says that it is a path: "path of the file that the XPath runs on".
    """
    says = vocabulary.SAYS_OTHER.search(text)
    if says is None or kind not in {Kind.PATH, Kind.WEAK}:
        return says
    if kind is Kind.PATH and not _A_PATH.match(why):
        return None
    first = _starts(vocabulary.STARTS_AS_PATH, text)
    return None if first is not None and first.end() <= says.start() else says


def _described_payload(named: Verdict, text: str) -> Verdict:
    if says := _starts(vocabulary.STARTS_AS_PATH, text):
        return Kind.PATH, f"described as '{says[0].strip()}'"
    if named[0] is Kind.COMMAND:
        is_code = _LINES_OF_CODE.search(text)
        return (Kind.PAYLOAD, f"described as '{is_code[0]}'") if is_code else named
    told = (
        (Kind.COMMAND, _starts(vocabulary.SAYS_SHELL, text)),
        (Kind.WEAK, vocabulary.OR_PATH.search(text) or _starts(vocabulary.SAYS_NAMED_FILE, text)),
    )
    for kind, says in told:
        if says is not None:
            return kind, f"described as '{says[0].strip()}'"
    return named


def _starts(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    """Return the match at the start of the description, or of the title below it."""
    return pattern.match(text) or pattern.match(text, text.rfind("\n") + 1)


def _mentioned(named: Verdict, text: str) -> Verdict:
    if says := _starts(vocabulary.SAYS_SHELL, text) or _starts(vocabulary.SAYS_COMMAND, text):
        return Kind.COMMAND, f"described as '{says[0].strip()}'"
    if named[0] is Kind.NEUTRAL and vocabulary.SAYS_ID_OR_PATH.match(text):
        return named
    if says := vocabulary.SAYS_PATH.search(text):
        return Kind.PATH, f"described as '{says[0]}'"
    if named[0] is Kind.NEUTRAL and (says := vocabulary.MENTIONS_PATH.search(text)):
        return Kind.WEAK, f"its description mentions '{says[0]}'"
    if says := _starts(vocabulary.SAYS_CODE, text):
        return Kind.PAYLOAD, f"described as '{says[0]}'"
    return named
