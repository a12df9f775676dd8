"""Public names of tools and prompts: server prefixes, shortened names, and back to the server."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from typing import Final, Literal, TypeAlias

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
        alias = PublicName(spelled(name))
        return alias if server == self.owner_of_alias(alias) else None

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
