"""What a server said of itself when it last ran: its lists, instructions, name and version."""

from __future__ import annotations

from msgspec import Struct, field

from hub.catalog.merge import Listing
from hub.values import Json, JsonObject


class KnownCatalog(Struct, frozen=True):
    """The last known catalog of a server. It is shown, and never used to judge a call.

    `info` is the `serverInfo`, with name and version. `listing` None: a list has waited for the
    server in vain, and it has not answered since. `edition` is another one after each start at
    which the server was found changed.
    """

    listing: Listing | None
    era: str = ""
    version: str = ""
    info: JsonObject = field(default_factory=dict[str, "Json"])
    capabilities: JsonObject = field(default_factory=dict[str, "Json"])
    instructions: str = ""
    edition: str = ""
