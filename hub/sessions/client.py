"""What a client said of itself."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

from hub.values import JsonObject, object_or_empty


class Client(Struct, frozen=True):
    """A client's era and protocol version, its capabilities, its name."""

    era: Literal["legacy", "modern"]
    version: str
    capabilities: JsonObject
    info: JsonObject

    @property
    def is_modern(self) -> bool:
        """Whether each of its requests stands for itself."""
        return self.era == "modern"

    def declares(self, capability: str) -> bool:
        """Return whether the client declared a capability, such as `roots`.

        Anything but null and false declares it: a client that means to have roots, and says so
        wrongly, is not one without.
        """
        value = self.capabilities.get(capability)
        return value is not None and value is not False

    def declared(self, capabilities: Iterable[str]) -> JsonObject:
        """Return what the client says of these capabilities, of those that it declares."""
        return {
            name: object_or_empty(self.capabilities[name])
            for name in capabilities
            if self.declares(name)
        }
