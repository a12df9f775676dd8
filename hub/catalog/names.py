"""Public names: a child's tool or prompt as clients see it, and whose it is."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from typing import Final, Literal, TypeAlias

from hub.legible import on_one_line
from hub.values import PublicName, ServerName

NamesMode: TypeAlias = Literal["auto", "always", "never"]
"""`names`: `auto` prefixes only if there are several servers."""

SEPARATOR: Final = "__"
MAX_LENGTH: Final = 64
"""What the strictest model interfaces take as a tool name."""

_MAX_PREFIX: Final = 40
_HASH_DIGITS: Final = 10
_ILLEGAL: Final = re.compile(r"[^A-Za-z0-9_.-]")
_HASHED: Final = re.compile(rf".*_[0-9a-f]{{{_HASH_DIGITS}}}", re.DOTALL)


def join(prefix: str, name: str) -> PublicName:
    """Return `prefix__name`, or a shortened form of it where that is no legal name of its own.

    At most 64 characters of `[A-Za-z0-9_.-]`, if `prefix` is at most 40 of them. Different names
    never share a plain form, and a shortened one ends in a hash as no plain form does.
    """
    plain = f"{prefix}{SEPARATOR}{name}"
    legal = name and len(plain) <= MAX_LENGTH and not _ILLEGAL.search(plain)
    return PublicName(plain) if legal and not _HASHED.fullmatch(plain) else shorten(prefix, name)


def shorten(prefix: str, name: str) -> PublicName:
    """Return `prefix__start-of-name_hash`: legal whatever `name` is, the same each time."""
    room = MAX_LENGTH - len(prefix) - len(SEPARATOR) - _HASH_DIGITS - 1
    # Without `__` in it, the rest cannot seem to belong to a server `prefix__x`.
    start = re.sub("_+", "_", _ILLEGAL.sub("_", name)).lstrip("_")[:room].rstrip("_")
    kept = f"{start}_" if start else ""
    return PublicName(f"{prefix}{SEPARATOR}{kept}{_digest(prefix, name)}")


def spelled(name: str) -> str:
    """Return a name without a prefix: as it is, or shortened if something in it is not seen."""
    if on_one_line(name) == name:
        return name
    return shorten("", name).removeprefix(SEPARATOR)


class Names:
    """The public names of one set of servers; immutable.

    With prefixes, no two (server, name) pairs share a public name, whatever children call their
    tools: a name belongs to the longest prefix that it starts with, and a pair whose plain form
    would seem to be another server's is shortened. Shortening loses the original: only the catalog
    that lists it leads back.
    """

    def __init__(self, servers: Iterable[str], mode: NamesMode = "auto") -> None:
        self.servers: Final = tuple(ServerName(server) for server in servers)
        self.mode: Final = mode
        self.bare: Final = mode == "never" or (mode == "auto" and len(self.servers) <= 1)
        self._prefixes = {server: _prefix(server) for server in self.servers}
        by_length = sorted(self.servers, key=lambda server: -len(self._prefixes[server]))
        self._longest_first = tuple((self._prefixes[server], server) for server in by_length)

    def public(self, server: ServerName, name: str) -> PublicName:
        """Return the name under which clients see `name` of `server`."""
        return PublicName(spelled(name)) if self.bare else self.prefixed(server, name)

    def prefixed(self, server: ServerName, name: str) -> PublicName:
        """Return the name with its prefix, even where names are bare."""
        prefix = self._prefixes[server]
        public = join(prefix, name)
        return public if self.server_of(public) == server else self.shortened(server, name)

    def shortened(self, server: ServerName, name: str) -> PublicName:
        """Return the hashed form of the prefixed name, for where the plain one is taken."""
        return shorten(self._prefixes[server], name)

    def server_of(self, public: str) -> ServerName | None:
        """Return the server that a prefixed name belongs to, whether or not it has such a name."""
        for prefix, server in self._longest_first:
            if public.startswith(prefix + SEPARATOR):
                return server
        return None

    def split(self, public: str) -> tuple[ServerName, str] | None:
        """Return the pair whose plain prefixed name this is; None if shortened or foreign."""
        server = self.server_of(public)
        if server is None:
            return None
        name = public[len(self._prefixes[server]) + len(SEPARATOR) :]
        return (server, name) if self.prefixed(server, name) == public else None


def _prefix(server: str) -> str:
    """Return a server's name as it can stand in public names; different for different servers."""
    legal = len(server) <= _MAX_PREFIX and not _ILLEGAL.search(server)
    if legal and not _HASHED.fullmatch(server):
        return server
    start = _ILLEGAL.sub("_", server)[: _MAX_PREFIX - _HASH_DIGITS - 1]
    return f"{start}_{_digest(server)}"


def _digest(*texts: str) -> str:
    spelled = "\0".join(texts).encode("utf-8", "surrogatepass")
    return hashlib.sha256(spelled).hexdigest()[:_HASH_DIGITS]
