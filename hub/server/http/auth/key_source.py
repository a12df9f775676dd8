"""Where an issuer's public keys come from: a file, a URL, or the issuer's own metadata."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias, cast

import anyio
import anyio.to_thread

from hub.server.http.auth.issuer_metadata import (
    TIMEOUT,
    IssuerUnavailableError,
    NoEndpointError,
    OpenClient,
    endpoint_of,
    fetched,
    json_object,
    open_client,
)

_KINDS: Final = frozenset({"RSA", "EC", "OKP"})
"""Kinds of public keys. One that is shared with the issuer (`oct`) is none."""

JsonWebKey: TypeAlias = dict[str, Any]


class KeySource(Protocol):
    """Gets the public keys of one issuer."""

    async def __call__(self) -> list[JsonWebKey]:
        """Return the keys.

        Raises: IssuerUnavailableError.
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
            raise IssuerUnavailableError(f"{self._path}: {exc.strerror}") from exc
        return keys_in(json_object(content, str(self._path)), str(self._path))


class WebSource:
    """Fetches the keys from `url`; without it from where the issuer's metadata says they are.

    `is_optional`: an issuer whose metadata names no keys has none.
    """

    def __init__(
        self,
        issuer: str,
        url: str | None,
        client: OpenClient = open_client,
        *,
        is_optional: bool = False,
    ) -> None:
        self._issuer = issuer
        self._url = url
        self._open_client = client
        self._is_optional = is_optional

    async def __call__(self) -> list[JsonWebKey]:
        try:
            with anyio.fail_after(TIMEOUT):
                async with self._open_client() as http:
                    url = self._url or await endpoint_of(self._issuer, "jwks_uri", http)
                    return keys_in(await fetched(http, url), url)
        except NoEndpointError:
            if self._is_optional:
                return []
            raise
        except TimeoutError:
            why = f"{self._url or self._issuer}: no answer in {TIMEOUT:g} s"
            raise IssuerUnavailableError(why) from None


def keys_in(found: dict[str, Any], where: str) -> list[JsonWebKey]:
    """Return the public keys of a key set that may sign.

    Raises: IssuerUnavailableError if it is no key set.
    """
    keys = found.get("keys")
    if not isinstance(keys, list):
        raise IssuerUnavailableError(f"{where}: is no JSON Web Key Set")
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
