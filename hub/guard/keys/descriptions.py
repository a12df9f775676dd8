"""The kind of an argument that its description and title tell, where its name says another."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TypeAlias

from hub.guard.keys import phrases
from hub.guard.keys.vocabulary import Kind
from hub.values import JsonObject

Verdict: TypeAlias = "tuple[Kind, str]"
"""A kind, and the reason for it."""
_LOCAL = re.compile(
    r"\blocal\b|\bpaths? (?:to|of)\b|\b(?:file|directory|folder)[ -]?paths?\b", re.IGNORECASE
)
"""In the description of a repository's name: one on this machine."""
_READ_OF_A_DESCRIPTION = 240
_A_PATH = re.compile(r"'(?:.* )?paths?'")


def kind_by_description(named: Verdict, text: str) -> Verdict:
    """Return the kind by the description `text`, where the key's name says `named`.

    The last line of `text` is the title: many schemas have the key itself there.
    """
    kind = named[0]
    if other := None if phrases.SAYS_FILE.search(text) else _other(kind, named[1], text):
        return named if kind in _TEXTS else (Kind.PAYLOAD, f"described as '{other[0]}'")
    for kinds, find, pattern, told in _RULES:
        if kind in kinds and (says := find(pattern, text)):
            if pattern in _OF_TEXTS and any(_starts(one, text) for one in phrases.OF_FILE):
                return Kind.WEAK, f"described as '{says[0]}'"
            said = (
                "its description mentions" if pattern is phrases.MENTIONS_PATH else "described as"
            )
            return (told, f"{said} '{says[0].strip()}'") if told else named
    return named


def _other(kind: Kind, why: str, text: str) -> re.Match[str] | None:
    """Return the words of a description that say that a path is no file path (a URL's, an XPath).

    None if the key's name says "file", whatever is looked for in the file; or if the description
    first says that it is a path: "path of the file that the XPath runs on".
    """
    says = phrases.SAYS_OTHER.search(text)
    if says is None or kind not in {Kind.PATH, Kind.WEAK}:
        return says
    if kind is Kind.PATH and not _A_PATH.match(why):
        return None
    first = _starts(phrases.STARTS_AS_PATH, text)
    return None if first is not None and first.end() <= says.start() else says


def _starts(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    """Return the match at the start of the description, or of the title below it."""
    return pattern.match(text) or pattern.match(text, text.rfind("\n") + 1)


_TEXTS = {Kind.PAYLOAD, Kind.COMMAND}
_OPEN = {Kind.NEUTRAL, Kind.WEAK, Kind.VIRTUAL}
"""The kinds of which a description may tell anything else."""
_OF_TEXTS = (phrases.SAYS_REGEX, phrases.SAYS_CODE)
"""What these say may also be in a file, whose name is then given."""
_ANYWHERE = re.Pattern[str].search
_RULES = (
    (_TEXTS, _starts, phrases.STARTS_AS_PATH, Kind.PATH),
    ({Kind.COMMAND}, _ANYWHERE, phrases.SAYS_LINES_OF_CODE, Kind.PAYLOAD),
    ({Kind.PAYLOAD}, _starts, phrases.SAYS_SHELL, Kind.COMMAND),
    ({Kind.PAYLOAD}, _ANYWHERE, phrases.OR_PATH, Kind.WEAK),
    ({Kind.PAYLOAD}, _starts, phrases.SAYS_NAMED_FILE, Kind.WEAK),
    ({*_OPEN, Kind.PATH, Kind.GLOB}, _ANYWHERE, phrases.SAYS_GLOB, Kind.GLOB),
    ({Kind.PATH}, _starts, phrases.SAYS_CONTENT, Kind.WEAK),
    ({*_OPEN, Kind.GLOB}, _ANYWHERE, phrases.SAYS_REGEX, Kind.PAYLOAD),
    (_OPEN, _starts, phrases.SAYS_SHELL, Kind.COMMAND),
    (_OPEN, _starts, phrases.SAYS_COMMAND, Kind.COMMAND),
    ({Kind.NEUTRAL}, re.Pattern[str].match, phrases.SAYS_ID_OR_PATH, None),
    (_OPEN, _ANYWHERE, phrases.SAYS_PATH, Kind.PATH),
    ({Kind.NEUTRAL}, _ANYWHERE, phrases.MENTIONS_PATH, Kind.WEAK),
    (_OPEN, _starts, phrases.SAYS_CODE, Kind.PAYLOAD),
)
"""What words tell, where, of an argument of which kinds: the first that fits counts.

Nothing is told of what has an ID: its name counts.
"""


def is_here(variants: list[JsonObject]) -> bool:
    """Return whether an argument names no place elsewhere: it is a switch, or a path here."""
    says = any(map(_LOCAL.search, texts(variants, "description")))
    return says or types_of(variants) == {"boolean"}


def texts(
    variants: list[JsonObject], *words: str, most: int = _READ_OF_A_DESCRIPTION
) -> Iterator[str]:
    """Yield the texts that the schemas have under the `words`, each up to a length."""
    for schema in variants:
        for word in words:
            text = schema.get(word)
            if isinstance(text, str):
                yield text[:most]


def listed(schema: JsonObject, word: str) -> Iterator[str]:
    """Yield the texts in a list of the schema, such as its choices."""
    given = schema.get(word)
    yield from (one for one in (given if isinstance(given, list) else ()) if isinstance(one, str))


def said_of(variants: Iterable[JsonObject]) -> str:
    """Return the texts in the schemas of one argument, and in their lists, such as its choices."""
    values = (one for schema in variants for one in schema.values())
    each = (text for one in values for text in (one if isinstance(one, list) else (one,)))
    return " ".join(text[:_READ_OF_A_DESCRIPTION] for text in each if isinstance(text, str))


def types_of(variants: list[JsonObject]) -> set[str]:
    """Return the types that the schemas declare, but for `null`."""
    declared = (schema.get("type") for schema in variants)
    names = (name for one in declared for name in (one if isinstance(one, list) else [one]))
    return {name for name in names if isinstance(name, str) and name != "null"}
