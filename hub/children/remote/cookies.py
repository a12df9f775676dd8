"""The cookies of one remote child: load balancers keep a session at one node by them."""

from __future__ import annotations

from typing import Final

import httpx2

MAX_COOKIES: Final = 50
"""Cookies that are kept: as many as a client must keep of one host (RFC 6265, section 6.1)."""
MAX_LINE: Final = 4 * 1024
"""Bytes of one cookie with its attributes; no client needs to keep a longer one (the same RFC)."""
MAX_BYTES: Final = 16 * 1024
"""Bytes of all kept cookies: they go into each request, and many servers refuse larger headers."""


class CookieStore:
    """Keeps the cookies that a child sets, within limits; what is beyond them is dropped.

    A new value replaces an old one; a new cookie never displaces an older one of its path.
    """

    def __init__(self) -> None:
        self._cookies = httpx2.Cookies()
        self._has_any = False

    def add_to(self, request: httpx2.Request) -> None:
        """Add the cookies that belong into a request to its headers."""
        if self._has_any:
            self._cookies.set_cookie_header(request)

    def keep(self, response: httpx2.Response, request: httpx2.Request) -> int:
        """Keep the cookies of a response; return how many were dropped."""
        if "set-cookie" not in response.headers:
            return 0
        lines = [one for one in response.headers.raw if one[0].lower() == b"set-cookie"]
        # The jar keeps each line's attributes, and parsing takes long: a flood does not get there.
        taken = [one for one in lines[:MAX_COOKIES] if _can_be_kept(one[1])]
        self._cookies.extract_cookies(httpx2.Response(200, headers=taken, request=request))
        dropped = len(lines) - len(taken) + self._drop()
        self._has_any = bool(self._cookies)
        return dropped

    def _drop(self) -> int:
        """Drop the cookies beyond the limits, and return how many these are."""
        kept = size = dropped = 0
        for cookie in list(self._cookies.jar):
            large = sum(map(len, (cookie.name, cookie.value or "", cookie.path, cookie.domain)))
            if kept < MAX_COOKIES and size + large <= MAX_BYTES:
                kept, size = kept + 1, size + large
            else:
                dropped += 1
                self._cookies.jar.clear(cookie.domain, cookie.path, cookie.name)
        return dropped


def _can_be_kept(line: bytes) -> bool:
    """Return whether a cookie is short enough, and has only what a request header may have."""
    return len(line) <= MAX_LINE and line.isascii()
