"""What goes wrong in a login, in the words of OAuth."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import Final

from hub.server.http.bounds.failed_logins import FailedLogins

FOR_NOW: Final = "temporarily_unavailable"
_STATUS: Final = {FOR_NOW: 503, "server_error": 500}


class OAuthError(Exception):
    """A request is refused: `code` is an error of RFC 6749 or RFC 7591, the text is for people.

    `status` and `headers` are those of the answer over HTTP.
    """

    headers: Mapping[str, str] = MappingProxyType({})

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.status = _STATUS.get(code, 400)


class RefusedGrantError(OAuthError):
    """The identity provider was asked about a code or token, which lets nobody in."""

    def __init__(self, text: str) -> None:
        super().__init__("invalid_grant", text)


@asynccontextmanager
async def refusals_counted(
    refused: FailedLogins, address: str, counted: type[Exception]
) -> AsyncGenerator[None]:
    """Count errors of this kind for the address of a request, while the context lasts.

    Raises: OAuthError if too much was refused of that address.
    """
    async with refused.attempt(address) as later:
        if later is not None:
            error = OAuthError(FOR_NOW, later.text)
            error.status, error.headers = later.status, later.headers
            raise error
        try:
            yield
        except counted:
            refused.note(address)
            raise
