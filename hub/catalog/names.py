"""Public names of what children offer, each of which leads back to one server.

Tools and prompts have server prefixes and shortened names. A resource's URI is wrapped with its
server; URI templates are matched and unwrapped.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cache, partial
from itertools import pairwise
from typing import Final, Literal, TypeAlias, TypeVar
from urllib.parse import quote, unquote

from msgspec import Struct

from hub.errors import RouteError
from hub.legible import on_one_line
from hub.values import PublicName, ServerName

NamesMode: TypeAlias = Literal["auto", "always", "never"]
"""The key `names`. `auto`: prefixes only if there are several servers."""

SEPARATOR: Final = "__"
MAX_LENGTH: Final = 64
"""The longest tool name that the strictest model interfaces accept."""

_MAX_PREFIX: Final = 40
_MAX_SPELLED: Final = 256
_HASH_DIGITS: Final = 10
_ILLEGAL: Final = re.compile(r"[^A-Za-z0-9_.-]")
_HASHED: Final = re.compile(rf".*_[0-9a-f]{{{_HASH_DIGITS}}}", re.DOTALL)


def join(prefix: str, name: str) -> PublicName:
    """Return `prefix__name`, or its shortened form if that is not a legal public name.

    At most 64 characters of `[A-Za-z0-9_.-]` if `prefix` has at most 40 of them. Different names
    never get the same plain form. Only shortened forms end in a hash.
    """
    plain = f"{prefix}{SEPARATOR}{name}"
    legal = name and len(plain) <= MAX_LENGTH and not _ILLEGAL.search(plain)
    return PublicName(plain) if legal and not _HASHED.fullmatch(plain) else shorten(prefix, name)


def shorten(prefix: str, name: str) -> PublicName:
    """Return `prefix__start-of-name_hash`: legal for any `name`, and always the same."""
    room = MAX_LENGTH - len(prefix) - len(SEPARATOR) - _HASH_DIGITS - 1
    # No `__` after the prefix: else the name could look like one of a server `prefix__x`.
    start = re.sub("_+", "_", _ILLEGAL.sub("_", name)).lstrip("_")[:room].rstrip("_")
    kept = f"{start}_" if start else ""
    return PublicName(f"{prefix}{SEPARATOR}{kept}{_digest(prefix, name)}")


def spelled(name: str) -> str:
    """Return a name without prefix; shortened if it is very long, or has hidden characters."""
    if len(name) <= _MAX_SPELLED and on_one_line(name) == name:
        return name
    return shorten("", name).removeprefix(SEPARATOR)


class Names:
    """The public names of one set of servers; immutable.

    With prefixes, no two (server, name) pairs share a public name, whatever names children choose.
    A public name belongs to the server with the longest matching prefix. A pair whose plain form
    would belong to another server is shortened. A shortened name does not contain the original
    name: only the catalog leads back to it.

    `first` is the server whose names clients may know without prefix, from when it was the only
    one. They stay its own (`auto`): another server is not shown without prefix, even as the only
    one, and beside other servers they are its aliases. The aliases of an only server are its names
    with prefix.
    """

    def __init__(
        self, servers: Iterable[str], mode: NamesMode = "auto", first: str | None = None
    ) -> None:
        self.servers: Final = tuple(ServerName(server) for server in servers)
        self.mode: Final = mode
        is_only = len(self.servers) <= 1 and (first is None or self.servers in {(), (first,)})
        self.bare: Final = mode == "never" or (mode == "auto" and is_only)
        has_aliases = mode == "auto" and not self.bare and first in self.servers
        self.alias_server: Final = ServerName(first) if has_aliases and first else None
        self._prefixes = {server: _prefix(server) for server in self.servers}
        by_length = sorted(self.servers, key=lambda server: -len(self._prefixes[server]))
        self._longest_first = tuple((self._prefixes[server], server) for server in by_length)

    def public(self, server: ServerName, name: str) -> PublicName:
        """Return the public name of `name` of `server`."""
        return PublicName(spelled(name)) if self.bare else self.prefixed(server, name)

    def prefixed(self, server: ServerName, name: str) -> PublicName:
        """Return the public name with prefix, also if this set of servers has no prefixes."""
        prefix = self._prefixes[server]
        public = join(prefix, name)
        return public if self.server_of(public) == server else self.shortened(server, name)

    def shortened(self, server: ServerName, name: str) -> PublicName:
        """Return the shortened (hashed) name with prefix, for when the plain name is taken."""
        return shorten(self._prefixes[server], name)

    def server_of(self, public: str) -> ServerName | None:
        """Return the server whose prefix `public` has, or None. It may not have such a tool."""
        for prefix, server in self._longest_first:
            if public.startswith(prefix + SEPARATOR):
                return server
        return None

    def alias(self, server: ServerName, name: str) -> PublicName | None:
        """Return the name that `name` of `server` can be called by, too, or None.

        That is the name without prefix of the first server; of an only server the name with its
        prefix, which clients know from when there were others.
        """
        if self.bare:
            return self.prefixed(server, name) if self.mode == "auto" else None
        if server != self.alias_server:
            return None
        alias = PublicName(spelled(name))
        return alias if self.server_of(alias) is None else None

    def owner_of_alias(self, public: str) -> ServerName | None:
        """Return the only server that may have the alias `public`, or None.

        None for any name with a prefix: it must not depend on which servers are listed already.
        """
        return self.alias_server if self.server_of(public) is None else None

    def split(self, public: str) -> tuple[ServerName, str] | None:
        """Return the server and name of a plain prefixed name; None if shortened or foreign."""
        server = self.server_of(public)
        if server is None:
            return None
        name = public[len(self._prefixes[server]) + len(SEPARATOR) :]
        return (server, name) if self.prefixed(server, name) == public else None


def _prefix(server: str) -> str:
    """Return the prefix for a server: legal in public names and different for each server."""
    legal = len(server) <= _MAX_PREFIX and not _ILLEGAL.search(server)
    if legal and not _HASHED.fullmatch(server):
        return server
    start = _ILLEGAL.sub("_", server)[: _MAX_PREFIX - _HASH_DIGITS - 1]
    return f"{start}_{_digest(server)}"


def _digest(*texts: str) -> str:
    spelled = "\0".join(texts).encode("utf-8", "surrogatepass")
    return hashlib.sha256(spelled).hexdigest()[:_HASH_DIGITS]


# Resources

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
