"""Client information: era, protocol version, declared capabilities and name."""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct

from hub.values import JsonObject, object_or_empty

_FOR_CHILDREN: Final = ("sampling", "elicitation")
_EXTENSIONS: Final = ("io.modelcontextprotocol/ui",)
"""Extensions that need no method of their own at the hub: MCP Apps."""


class Client(Struct, frozen=True):
    """The data that a client declared in its handshake or, if modern, in its request."""

    era: Literal["legacy", "modern"]
    version: str
    capabilities: JsonObject
    info: JsonObject

    @property
    def is_modern(self) -> bool:
        """Whether the client speaks a version without a handshake (see `MODERN_VERSIONS`)."""
        return self.era == "modern"

    def declares(self, capability: str) -> bool:
        """Return whether the client declared a capability, such as `roots`.

        Any value except null and false counts: a client that declares roots in a wrong form must
        not be treated as a client without roots.
        """
        value = self.capabilities.get(capability)
        return value is not None and value is not False

    def relayed(self) -> JsonObject:
        """Return the declared capabilities that children may use through the hub."""
        found: JsonObject = {
            name: object_or_empty(self.capabilities[name])
            for name in _FOR_CHILDREN
            if self.declares(name)
        }
        given = object_or_empty(self.capabilities.get("extensions"))
        extensions = {name: given[name] for name in _EXTENSIONS if name in given}
        return {**found, "extensions": extensions} if extensions else found
