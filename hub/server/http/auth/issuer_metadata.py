"""What an issuer publishes: its metadata and its public keys, and how it is asked for them.

The keys are from a file, a URL, or the issuer's own metadata. They are fetched again now and then,
and when a new one is named.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, Final, TypeAlias, cast
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
import httpx2
import structlog

from hub.protocol.http_headers import is_private
from hub.system.connecting import web_client

log = structlog.stdlib.get_logger(__name__)

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


class IssuerConnection:
    """The HTTP client that an issuer is asked with, opened at the first question."""

    def __init__(self, issuer: str, client: OpenClient) -> None:
        self.issuer = issuer
        self._open_client = client
        self._http: httpx2.AsyncClient | None = None

    @property
    def http(self) -> httpx2.AsyncClient:
        """The client, which is opened if it is not."""
        self._http = self._http or self._open_client()
        return self._http

    async def serve(self) -> None:
        """Keep the connections to the issuer until cancelled, then close them."""
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.move_on_after(TIMEOUT, shield=True):
                await self.aclose()

    async def aclose(self) -> None:
        """Close the connections to the issuer."""
        http, self._http = self._http, None
        if http is not None:
            await http.aclose()


class Outage:
    """Tells the log once that an issuer cannot be asked (`why`), and once that it can be again."""

    def __init__(self, issuer: str, trouble: str, meanwhile: str, over: str) -> None:
        self.why: str | None = None
        self._issuer = issuer
        self._trouble, self._meanwhile, self._over = trouble, meanwhile, over

    def note(self, exc: Exception) -> None:
        """Record an error of the issuer's, or any other: none may end the hub."""
        is_its = isinstance(exc, IssuerUnavailableError)
        why = str(exc) if is_its else f"{type(exc).__name__}: {exc}"
        if self.why is None:
            log.warning(self._trouble, issuer=self._issuer, reason=why, next=self._meanwhile)
        self.why = why

    def end(self) -> None:
        """Record an answer."""
        if self.why is not None:
            log.info(self._over, issuer=self._issuer)
        self.why = None


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
    """Return the JSON object at a URL. Raises: IssuerUnavailableError if there is none."""
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
    """Return the JSON object in a document. Raises: IssuerUnavailableError if it is none."""
    try:
        found: object = json.loads(content)
    except (ValueError, RecursionError):
        raise IssuerUnavailableError(f"{where}: is no JSON") from None
    if not isinstance(found, dict):
        raise IssuerUnavailableError(f"{where}: is no JSON object")
    return cast("dict[str, Any]", found)


APART: Final = 5.0
"""Seconds between two fetches at least, however many unknown keys are named."""
AGAIN: Final = 30.0
"""Seconds after which keys that could not be fetched are fetched again, if nobody names one."""
FRESH: Final = 300.0
"""Seconds after which the keys are fetched again, so that one which is gone ends soon."""

_KINDS: Final = frozenset({"RSA", "EC", "OKP"})
"""Kinds of public keys. One that is shared with the issuer (`oct`) is none."""

JsonWebKey: TypeAlias = dict[str, Any]


KeySource: TypeAlias = Callable[[], Awaitable[list[JsonWebKey]]]
"""Returns the public keys of one issuer. Raises: IssuerUnavailableError."""


async def keys_in_file(path: str) -> list[JsonWebKey]:
    """Return the keys in a file: a JSON Web Key Set (RFC 7517). Raises: IssuerUnavailableError."""
    try:
        content = await anyio.to_thread.run_sync(Path(path).read_bytes)
    except OSError as exc:
        raise IssuerUnavailableError(f"{path}: {exc.strerror}") from exc
    return keys_in(json_object(content, path), path)


async def keys_on_web(
    issuer: str, url: str | None, client: OpenClient = open_client, *, is_optional: bool = False
) -> list[JsonWebKey]:
    """Return the keys at `url`; without it those where the issuer's metadata says they are.

    `is_optional`: an issuer whose metadata names no keys has none. Raises: IssuerUnavailableError.
    """
    try:
        with anyio.fail_after(TIMEOUT):
            async with client() as http:
                found = url or await endpoint_of(issuer, "jwks_uri", http)
                return keys_in(await fetched(http, found), found)
    except NoEndpointError:
        if is_optional:
            return []
        raise
    except TimeoutError:
        why = f"{url or issuer}: no answer in {TIMEOUT:g} s"
        raise IssuerUnavailableError(why) from None


def keys_in(found: dict[str, Any], where: str) -> list[JsonWebKey]:
    """Return the public keys of a key set that may sign. Raises: IssuerUnavailableError."""
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


class KeySet:
    """The keys of `issuer` from `source`; `clock` gives seconds, from any start.

    While the source cannot be reached, the keys that are known go on.
    """

    def __init__(self, issuer: str, source: KeySource, clock: Callable[[], float]) -> None:
        self._source = source
        self._clock = clock
        self._keys: list[JsonWebKey] = []
        self._tried: float | None = None
        self._outage = Outage(
            issuer,
            "the keys of an issuer cannot be had",
            "known keys go on; tokens with others get 503 until it answers",
            "the keys of an issuer can be had again",
        )
        self._turn = anyio.Lock()
        self.changes = 0
        """How often other keys were found than before."""

    async def find(self, name: str | None) -> list[JsonWebKey]:
        """Return the keys with this id (`kid`), of which there may be several (RFC 7517, 4.5).

        A token without an id may be of any key (RFC 7515, 4.1.4): all are returned.

        Raises: IssuerUnavailableError if there are none, and the source cannot be reached.
        """
        found = self._known(name)
        if not found:
            await self.refresh()
            found = self._known(name)
        if not found and self._outage.why is not None:
            raise IssuerUnavailableError(self._outage.why)
        return found

    def _known(self, name: str | None) -> list[JsonWebKey]:
        return [key for key in self._keys if name is None or key.get("kid") == name]

    async def refresh(self) -> None:
        """Fetch the keys, unless the last fetch ended in the last `APART` seconds."""
        async with self._turn:
            if self._tried is not None and self._clock() - self._tried < APART:
                return
            try:
                keys = await self._source()
            except Exception as exc:  # noqa: BLE001 - no issuer may end the hub
                self._outage.note(exc)
                return
            finally:
                self._tried = self._clock()  # those who wait for it shall not all fetch again
            self._outage.end()
            if keys != self._keys:
                self._keys = keys
                self.changes += 1

    async def keep_fresh(self) -> None:
        """Fetch the keys now and again, until cancelled."""
        while True:
            await self.refresh()
            await anyio.sleep(AGAIN if self._outage.why is not None else FRESH)
