"""Resource URIs and URI templates of children as clients see them, and back again."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final
from urllib.parse import quote, unquote

from msgspec import Struct

_EXPRESSION: Final = re.compile(r"(\{[^{}]*\})")
_REACHING: Final = ("{+", "{#", "{/", "{?", "{&", "{;", "{.")
"""Expressions whose values may hold more than one segment."""


def wrapped(server: str, uri: str) -> str:
    """Return `hub+server://percent-encoded-uri`: the same URI, told apart by its server."""
    return f"{_scheme(server)}://{_quoted(uri)}"


def is_wrapped(uri: str) -> bool:
    """Tell whether a URI is of the form that is the hub's to give."""
    return uri[:4].lower() == "hub+"


def unwrapped(server: str, uri: str) -> str | None:
    """Return the URI of `server` that was wrapped into `uri`; None if it was not this server's."""
    scheme, found, rest = uri.partition("://")
    if not found or scheme.lower() != _scheme(server):
        return None
    return unquote(rest, errors="surrogatepass")


class UriTemplate(Struct, frozen=True):
    """A URI template (RFC 6570), read as far as routing needs it.

    `literals` has one element more than `expressions`. Matching is linear in the URI's length and
    takes the leftmost place for each literal: it can miss a match, and never invents one.
    """

    literals: tuple[str, ...]
    expressions: tuple[str, ...]

    @staticmethod
    def parse(text: str) -> UriTemplate:
        parts = _EXPRESSION.split(text)
        return UriTemplate(tuple(parts[::2]), tuple(parts[1::2]))

    def wrapped(self, server: str) -> UriTemplate:
        """Return this template of `server` in the hub's form, its expressions left to expand."""
        first, *rest = map(_quoted, self.literals)
        return UriTemplate((f"{_scheme(server)}://{first}", *rest), self.expressions)

    def text(self) -> str:
        return self.filled(self.expressions)

    def filled(self, values: Sequence[str]) -> str:
        """Return the URI with the values that `match` gave, byte for byte."""
        pairs = zip(self.literals, (*values, ""), strict=True)
        return "".join(literal + value for literal, value in pairs)

    def match(self, uri: str) -> tuple[str, ...] | None:
        """Return what stands in `uri` for each expression, still encoded; None if it is another."""
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

    def _may_hold(self, values: Sequence[str]) -> bool:
        return all(
            expression.startswith(_REACHING) or not any(mark in value for mark in "/?#")
            for expression, value in zip(self.expressions, values, strict=True)
        )


def _scheme(server: str) -> str:
    # A scheme has no case and no underscore: what it cannot hold is written as +hex.
    encoded = (
        chr(byte) if chr(byte) in "abcdefghijklmnopqrstuvwxyz0123456789-." else f"+{byte:02x}"
        for byte in server.encode("utf-8", "surrogatepass")
    )
    return "hub+" + "".join(encoded)


def _quoted(text: str) -> str:
    return quote(text, safe="", errors="surrogatepass")
