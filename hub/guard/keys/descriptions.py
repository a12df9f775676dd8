"""The kind of an argument that its description and title tell, where its name says another."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TypeAlias

from hub.guard.keys import vocabulary
from hub.guard.keys.vocabulary import Kind
from hub.values import JsonObject

Verdict: TypeAlias = "tuple[Kind, str]"
"""A kind, and the reason for it."""
_LINES_OF_CODE = re.compile(r"\beach (?:line|string) (?:is|represents) a line of code\b", re.I)
"""Of a Postman script, which `exec` has line by line."""
_RUN_HERE = re.compile(r"shell|(?:\b|[abkz])sh\b|terminal|command", re.IGNORECASE)
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
        is_code = None if _RUN_HERE.search(text) else _LINES_OF_CODE.search(text)
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
