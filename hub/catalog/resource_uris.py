"""Public resource URIs and URI templates: wrap a child's URI with its server, match, unwrap."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cache, partial
from itertools import pairwise
from typing import Final, TypeVar
from urllib.parse import quote, unquote

from msgspec import Struct

from hub.errors import RouteError

_EXPRESSION: Final = re.compile(r"(\{[^{}]*\})")
_OPERATORS: Final = "+#/?&;."
_FEW: Final = 8
_REACHING: Final = ("{+", "{#", "{/", "{?", "{&", "{;", "{.")
"""Beginnings of expressions whose values may have more than one path segment."""
MAX_WAYS: Final = 2000
"""How many values a URI may have by the templates of its server, which looks for them itself."""
Found = TypeVar("Found")


def wrapped(server: str, uri: str) -> str:
    """Return `hub+server://percent-encoded-uri`: the URI with its server."""
    return f"{_scheme(server)}://{_quoted(uri)}"


def is_wrapped(uri: str) -> bool:
    """Return whether a URI has the form that only the hub makes (`hub+...`)."""
    return uri[:4].lower() == "hub+"


def unwrapped(server: str, uri: str) -> str | None:
    """Return the URI of `server` inside the wrapped `uri`; None if it is not of this server."""
    scheme, found, rest = uri.partition("://")
    if not found or scheme.lower() != _scheme(server):
        return None
    return unquote(rest, errors="surrogatepass")


class UriTemplate(Struct, frozen=True):
    """A URI template (RFC 6570), parsed only as far as routing needs.

    `literals` has one element more than `expressions`. Matching takes time linear in the URI's
    length. It uses the leftmost position of each literal, so it can miss a match, but a match it
    reports is real.
    """

    literals: tuple[str, ...]
    expressions: tuple[str, ...]

    @staticmethod
    def parse(text: str) -> UriTemplate:
        parts = _EXPRESSION.split(text)
        return UriTemplate(tuple(parts[::2]), tuple(parts[1::2]))

    def wrapped(self, server: str) -> UriTemplate:
        """Return the public form of this template of `server`; its expressions stay expressions."""
        first, *rest = map(_quoted, self.literals)
        return UriTemplate((f"{_scheme(server)}://{first}", *rest), self.expressions)

    def text(self) -> str:
        return self.filled(self.expressions)

    def filled(self, values: Sequence[str]) -> str:
        """Return the URI with the `values` from `match` filled in, without encoding them again."""
        pairs = zip(self.literals, (*values, ""), strict=True)
        return "".join(literal + value for literal, value in pairs)

    def match(self, uri: str) -> tuple[str, ...] | None:
        """Return the value of each expression in `uri`, still encoded; None if no match."""
        first, *middle = self.literals
        if not middle:
            return () if uri == first else None
        last = middle.pop()
        stop = len(uri) - len(last)
        if not uri.startswith(first) or not uri.endswith(last):
            return None
        values: list[str] = []
        start = len(first)
        for literal in middle:
            end = uri.find(literal, start, stop)
            if end < 0:
                return None
            values.append(uri[start:end])
            start = end + len(literal)
        values.append(uri[start:stop])
        return tuple(values) if start <= stop and self._may_hold(values) else None

    def variables(self) -> Iterator[str]:
        """Yield the names in the expressions."""
        for expression in self.expressions:
            for variable in expression[1:-1].lstrip(_OPERATORS).split(","):
                yield variable.rstrip("*").partition(":")[0]

    def gaps(self, uri: str) -> Iterator[tuple[str, str]]:
        """Yield the literals before and behind each expression, if `uri` may begin alike."""
        first, *middle = self.literals
        if middle and uri[: len(first)].lower() == first.lower():
            yield from pairwise([first, *filter(None, middle[:-1]), middle[-1]])

    def _may_hold(self, values: Sequence[str]) -> bool:
        return all(
            expression.startswith(_REACHING) or not any(mark in value for mark in "/?#")
            for expression, value in zip(self.expressions, values, strict=True)
        )


def possible_values(templates: Iterable[UriTemplate], uri: str) -> Collection[str]:
    """Return all values that a server may read out of `uri` by its templates, still encoded.

    A value may begin behind each place of the literal before it, and end before each of the one
    behind it. Of places that are very many the first and the last count.

    Raises: RouteError if they are more than `MAX_WAYS`, or are to be looked for in more ways.
    """
    places = cache(partial(_places, _folded(uri)))

    def between(before: str, after: str) -> Iterator[str]:
        starts = [place + len(before) for place in places(before)] if before else [0]
        ends = places(after) if after and starts else [len(uri)]
        for start in starts:
            for end in (one for one in ends if one > start):
                yield uri[start:end]
                if uri[start] in _OPERATORS:
                    yield uri[start + 1 : end]

    gaps = _few(gap for one in templates for gap in one.gaps(uri))
    return _few(value for gap in gaps for value in between(*gap))


def _few(found: Iterable[Found]) -> dict[Found, None]:
    kept: dict[Found, None] = {}
    for one in found:
        kept[one] = None
        if len(kept) > MAX_WAYS:
            raise RouteError("The templates of the resource's server fit it in too many ways")
    return kept


def _places(folded: str, literal: str) -> list[int]:
    """Return where a literal is in a URI; schemes and hosts ignore case."""
    found, literal = list[int](), _folded(literal)
    at = folded.find(literal)
    while at >= 0:
        found.append(at)
        at = folded.find(literal, at + len(literal))
    return found if len(found) <= 2 * _FEW else [*found[:_FEW], *found[-_FEW:]]


def _folded(text: str) -> str:
    """Return `text` in lower case, but for letters whose lower case is longer."""
    lower = text.lower()
    if len(lower) == len(text):
        return lower
    return "".join(one if len(one.lower()) > 1 else one.lower() for one in text)


def _scheme(server: str) -> str:
    # A URI scheme ignores case and has no underscore: other bytes are written as +hex.
    encoded = (
        chr(byte) if chr(byte) in "abcdefghijklmnopqrstuvwxyz0123456789-." else f"+{byte:02x}"
        for byte in server.encode("utf-8", "surrogatepass")
    )
    return "hub+" + "".join(encoded)


def _quoted(text: str) -> str:
    return quote(text, safe="", errors="surrogatepass")
