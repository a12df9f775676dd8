"""What an issuer says of itself, and how it is asked: the documents that it publishes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias, cast
from urllib.parse import urlsplit

import httpx2

from hub.protocol.host_names import is_private
from hub.system.connecting import web_client

TIMEOUT: Final = 5.0
"""Seconds that an issuer may take to answer."""
MOST_BYTES: Final = 1 << 20
_OK: Final = 200
OpenClient: TypeAlias = Callable[[], httpx2.AsyncClient]
"""Makes an HTTP client, which follows no redirects."""


class IssuerUnavailableError(Exception):
    """An issuer cannot be asked now: the text says why."""


class NoEndpointError(IssuerUnavailableError):
    """An issuer's metadata does not name what is looked for."""


def open_client() -> httpx2.AsyncClient:
    """Return the HTTP client that issuers are asked with."""
    return web_client(TIMEOUT)


def metadata_urls(issuer: str) -> Iterator[str]:
    """Yield where an issuer's metadata may be, in the order in which MCP clients look."""
    parts = urlsplit(issuer)
    host, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    yield f"{host}/.well-known/oauth-authorization-server{path}"
    yield f"{host}/.well-known/openid-configuration{path}"
    if path:
        yield f"{host}{path}/.well-known/openid-configuration"


async def metadata_of(issuer: str, http: httpx2.AsyncClient) -> dict[str, Any]:
    """Return an issuer's metadata (RFC 8414, section 3; OpenID Connect Discovery).

    Raises: IssuerUnavailableError if there is none of this issuer.
    """
    why: IssuerUnavailableError | None = None
    for url in metadata_urls(issuer):
        try:
            told = await fetched(http, url)
        except IssuerUnavailableError as exc:
            why = why or exc
            continue
        if told.get("issuer") == issuer:
            return told
        why = IssuerUnavailableError(f"{url}: is the metadata of another issuer")
    raise why or IssuerUnavailableError(f"{issuer}: has no metadata")


async def endpoint_of(issuer: str, field: str, http: httpx2.AsyncClient) -> str:
    """Return a URL of an issuer's metadata.

    Raises: IssuerUnavailableError if there is no metadata of this issuer; NoEndpointError if it has
        no such URL.
    """
    found = (await metadata_of(issuer, http)).get(field)
    if not isinstance(found, str) or not is_private(found):
        raise NoEndpointError(f"{issuer}: its metadata names no {field} with https")
    return found


async def fetched(http: httpx2.AsyncClient, url: str) -> dict[str, Any]:
    """Return the JSON object at a URL.

    Raises: IssuerUnavailableError if there is none.
    """
    content = bytearray()
    asked = {"accept": "application/json"}
    try:
        async with http.stream("GET", url, headers=asked) as response:
            if response.status_code != _OK:
                raise IssuerUnavailableError(f"{url}: HTTP status {response.status_code}")
            async for chunk in response.aiter_bytes():
                content += chunk
                if len(content) > MOST_BYTES:
                    raise IssuerUnavailableError(f"{url}: over {MOST_BYTES} bytes")
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as exc:
        why = f"{url}: cannot be reached ({str(exc) or type(exc).__name__})"
        raise IssuerUnavailableError(why) from exc
    return json_object(bytes(content), url)


def json_object(content: bytes, where: str) -> dict[str, Any]:
    """Return the JSON object in a document.

    Raises: IssuerUnavailableError if it is something else.
    """
    try:
        found: object = json.loads(content)
    except (ValueError, RecursionError):
        raise IssuerUnavailableError(f"{where}: is no JSON") from None
    if not isinstance(found, dict):
        raise IssuerUnavailableError(f"{where}: is no JSON object")
    return cast("dict[str, Any]", found)
