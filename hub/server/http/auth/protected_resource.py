"""What clients are told about the tokens that the hub takes (RFC 9728, RFC 6750)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

from msgspec import Struct

from hub.protocol.host_names import origin_in
from hub.server.http.auth.admission import TokenRejection
from hub.values import Json, JsonObject

WELL_KNOWN: Final = "/.well-known/oauth-protected-resource"
RETRY_AFTER: Final = 30
"""Seconds after which a client may try again, if the issuer could not be asked."""


class ProtectedResource(Struct, frozen=True):
    """The hub as a resource: its public URL, the issuers whose tokens it takes, and the scopes.

    A token must have all `scopes`. `supported` are those that single operations need, too.
    """

    url: str
    issuers: tuple[str, ...]
    scopes: tuple[str, ...] = ()
    supported: tuple[str, ...] = ()

    @property
    def scopes_supported(self) -> JsonObject:
        """All scopes, as a field of metadata (RFC 9728, 2; RFC 8414, 2); nothing without any."""
        every = dict.fromkeys((*self.scopes, *self.supported))
        return {"scopes_supported": list[Json](every)} if every else {}

    @property
    def origin(self) -> str | None:
        """The origin of the hub's own pages, as browsers see it."""
        parts = urlsplit(self.url)
        return origin_in(f"{parts.scheme}://{parts.netloc}")

    @property
    def metadata_url(self) -> str:
        """Where the metadata is: the well-known name goes between host and path."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}{WELL_KNOWN}{parts.path.rstrip('/')}"

    def has_metadata_at(self, path: str, endpoint: str) -> bool:
        """Return whether a request for this path wants the metadata.

        Clients look below the well-known name for the path of the public URL, for that of the
        endpoint itself (a proxy may have changed it), and for none.
        """
        if not path.startswith(WELL_KNOWN):
            return False
        below = path.removeprefix(WELL_KNOWN).rstrip("/")
        return below in {"", urlsplit(self.url).path.rstrip("/"), endpoint.rstrip("/")}

    @property
    def metadata(self) -> JsonObject:
        """The metadata document (RFC 9728, section 2)."""
        return {
            "resource": self.url,
            "authorization_servers": list[Json](self.issuers),
            "bearer_methods_supported": ["header"],
            "resource_name": "roots-hub",
            **self.scopes_supported,
        }

    def step_up(self, needed: Sequence[str]) -> str:
        """Return the WWW-Authenticate header for a token that lacks one of the scopes `needed`."""
        text = "The operation needs a token with more scopes"
        return self._header(TokenRejection(403, "insufficient_scope", text), needed)

    def challenge(self, rejection: TokenRejection) -> str:
        """Return the WWW-Authenticate header of a request that is refused whatever it asks for."""
        return self._header(rejection, self.scopes)

    def _header(self, rejection: TokenRejection, scopes: Sequence[str]) -> str:
        fields = {"realm": "roots-hub"}
        if rejection.error:
            fields |= {"error": rejection.error, "error_description": rejection.text}
        if scopes:
            fields["scope"] = " ".join(scopes)
        fields["resource_metadata"] = self.metadata_url
        return "Bearer " + ", ".join(f"{name}={_quoted(text)}" for name, text in fields.items())


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{"".join(one if " " <= one <= "~" else "?" for one in escaped)}"'
