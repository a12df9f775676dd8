"""An authorization server for tests: keys, tokens of any kind, and a web server."""

from __future__ import annotations

import base64
import json
import threading
import warnings
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import get_default_algorithms

NAME: Final = "https://issuer.example"
RESOURCE: Final = "https://hub.example.com/mcp"
NOW: Final = 1_800_000_000
CLAIMS: Final[dict[str, Any]] = {
    "iss": NAME,
    "aud": RESOURCE,
    "sub": "anna",
    "exp": NOW + 60,
    "scope": "mcp:tools other",
}


@cache
def private_key(name: str) -> Any:
    """Return a key by its name, which begins with its kind; the same one each time."""
    match name.partition("-")[0]:
        case "rsa":
            return rsa.generate_private_key(65537, 2048)
        case "short":
            return rsa.generate_private_key(65537, 1024)  # noqa: S505 - it must not be taken
        case "p256":
            return ec.generate_private_key(ec.SECP256R1())
        case "p384":
            return ec.generate_private_key(ec.SECP384R1())
        case _:
            return ed25519.Ed25519PrivateKey.generate()


_ALGORITHMS: Final = {"rsa": "RS256", "short": "RS256", "p256": "ES256", "p384": "ES384"}


def algorithm_of(name: str) -> str:
    return _ALGORITHMS.get(name.partition("-")[0], "EdDSA")


def public(name: str, **more: Any) -> dict[str, Any]:
    """Return the JSON Web Key of a key, with its name as `kid`."""
    algorithm: Any = get_default_algorithms()[algorithm_of(name)]
    return {**json.loads(algorithm.to_jwk(private_key(name).public_key())), "kid": name, **more}


def token(
    key: str = "rsa-1",
    *,
    algorithm: str | None = None,
    header: Mapping[str, Any] | None = None,
    **claims: Any,
) -> str:
    """Return a token; a claim or a field of the header that is None is left out."""
    fields: dict[str, Any] = {"kid": key, "typ": "at+jwt", **(header or {})}
    with warnings.catch_warnings(action="ignore"):  # of a short key
        return jwt.encode(
            {name: value for name, value in {**CLAIMS, **claims}.items() if value is not None},
            private_key(key),
            algorithm or algorithm_of(key),
            {name: value for name, value in fields.items() if value is not None},
        )


def signed(**claims: Any) -> str:
    """Return a token with these claims."""
    return token("rsa-1", **claims)


def part(value: object) -> str:
    """Return a part of a token."""
    text = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(text).rstrip(b"=").decode()


class IssuerSite:
    """A web server: `pages` by their paths, and which were `asked` for."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.pages: dict[str, Any] = {}
        self.asked: list[str] = []


@contextmanager
def site() -> Generator[IssuerSite]:
    """Serve pages on loopback. A number is an HTTP status, a text a redirect."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            served.asked.append(self.path)
            page = served.pages.get(self.path, 404)
            self.send_response(
                page if isinstance(page, int) else 302 if isinstance(page, str) else 200
            )
            if isinstance(page, str):
                self.send_header("location", page)
            content = page if isinstance(page, bytes) else json.dumps(page).encode()
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        served = IssuerSite(f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield served
        finally:
            server.shutdown()
            thread.join()
