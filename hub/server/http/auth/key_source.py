"""Where an issuer's public keys come from: a file, a URL, or the issuer's own metadata."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, Protocol, cast
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
import httpx2

from hub.protocol.host_names import is_private

TIMEOUT: Final = 5.0
"""Seconds that an issuer may take to answer."""
MOST_BYTES: Final = 1 << 20
_OK: Final = 200
_KINDS: Final = frozenset({"RSA", "EC", "OKP"})
"""Kinds of public keys. One that is shared with the issuer (`oct`) is none."""

JsonWebKey = dict[str, Any]


class KeysUnavailableError(Exception):
    """The keys cannot be had: the text says why."""


class KeySource(Protocol):
    """Gets the public keys of one issuer."""

    async def __call__(self) -> list[JsonWebKey]:
        """Return the keys.

        Raises: KeysUnavailableError.
        """
        ...


class FileSource:
    """Reads the keys from a file: a JSON Web Key Set (RFC 7517, section 5)."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)

    async def __call__(self) -> list[JsonWebKey]:
        try:
            content = await anyio.to_thread.run_sync(self._path.read_bytes)
        except OSError as exc:
            raise KeysUnavailableError(f"{self._path}: {exc.strerror}") from exc
        return keys_in(_object(content, str(self._path)), str(self._path))


class WebSource:
    """Fetches the keys from `url`; without it from where the issuer's metadata says they are.

    RFC 8414 (section 3) and OpenID Connect Discovery. `open_client` makes the HTTP client, which
    follows no redirects.
    """

    def __init__(
        self,
        issuer: str,
        url: str | None,
        open_client: Callable[[], httpx2.AsyncClient] | None = None,
    ) -> None:
        self._issuer = issuer
        self._url = url
        self._open_client = open_client or _client

    async def __call__(self) -> list[JsonWebKey]:
        try:
            with anyio.fail_after(TIMEOUT):
                async with self._open_client() as http:
                    url = self._url or await self._discovered(http)
                    return keys_in(await _fetched(http, url), url)
        except TimeoutError:
            why = f"{self._url or self._issuer}: no answer in {TIMEOUT:g} s"
            raise KeysUnavailableError(why) from None

    async def _discovered(self, http: httpx2.AsyncClient) -> str:
        why: KeysUnavailableError | None = None
        for url in metadata_urls(self._issuer):
            try:
                told = await _fetched(http, url)
            except KeysUnavailableError as exc:
                why = why or exc
                continue
            if told.get("issuer") != self._issuer:
                raise KeysUnavailableError(f"{url}: is the metadata of another issuer")
            found = told.get("jwks_uri")
            if not isinstance(found, str) or not is_private(found):
                raise KeysUnavailableError(f"{url}: names no jwks_uri with https")
            return found
        raise why or KeysUnavailableError(f"{self._issuer}: has no metadata")


def metadata_urls(issuer: str) -> Iterator[str]:
    """Yield where an issuer's metadata may be, in the order in which MCP clients look."""
    parts = urlsplit(issuer)
    host, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    yield f"{host}/.well-known/oauth-authorization-server{path}"
    yield f"{host}/.well-known/openid-configuration{path}"
    if path:
        yield f"{host}{path}/.well-known/openid-configuration"


def keys_in(found: dict[str, Any], where: str) -> list[JsonWebKey]:
    """Return the public keys of a key set that may sign.

    Raises: KeysUnavailableError if it is no key set.
    """
    keys = found.get("keys")
    if not isinstance(keys, list):
        raise KeysUnavailableError(f"{where}: is no JSON Web Key Set")
    return [
        cast("JsonWebKey", key)
        for key in cast("list[object]", keys)
        if isinstance(key, dict) and _signs(cast("JsonWebKey", key))
    ]


def _signs(key: JsonWebKey) -> bool:
    kind, operations = key.get("kty"), key.get("key_ops", ["verify"])
    return (
        isinstance(kind, str)
        and kind in _KINDS
        and "d" not in key  # a private key: whoever can read the set can sign
        and key.get("use", "sig") == "sig"
        and isinstance(operations, list)
        and "verify" in operations
    )


def _client() -> httpx2.AsyncClient:
    return httpx2.AsyncClient(follow_redirects=False, timeout=TIMEOUT)


async def _fetched(http: httpx2.AsyncClient, url: str) -> dict[str, Any]:
    content = bytearray()
    try:
        asked = {"accept": "application/json"}
        async with http.stream("GET", url, headers=asked) as response:
            if response.status_code != _OK:
                raise KeysUnavailableError(f"{url}: HTTP status {response.status_code}")
            async for chunk in response.aiter_bytes():
                content += chunk
                if len(content) > MOST_BYTES:
                    raise KeysUnavailableError(f"{url}: over {MOST_BYTES} bytes")
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as exc:
        raise KeysUnavailableError(f"{url}: {type(exc).__name__}: {exc}") from exc
    return _object(bytes(content), url)


def _object(content: bytes, where: str) -> dict[str, Any]:
    try:
        found: object = json.loads(content)
    except (ValueError, RecursionError):
        raise KeysUnavailableError(f"{where}: is no JSON") from None
    if not isinstance(found, dict):
        raise KeysUnavailableError(f"{where}: is no JSON object")
    return cast("dict[str, Any]", found)
