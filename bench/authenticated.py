"""What it costs to tell clients apart over HTTP: `python -m bench.authenticated [ROUNDS]`.

The same sessions before the same server and a hub that wants no token, one of a hundred named
tokens, or a signed token (RS256, keys from a file), or that
has limits which are never reached. The hubs take turns. Last the look at a token
that was verified lately, without HTTP: requests with the headers of an earlier one need none.
"""

from __future__ import annotations

import json
import secrets
import sys
import time
import timeit
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

from bench.cases import SESSIONS, folder_in, p50, reading
from bench.figures import Table, Target, machine
from bench.flood import Flood
from bench.on_http import Servers
from bench.posting import Session
from bench.programs import CHILD, exit_on_sigterm, hub_config, hub_on_http
from hub.protocol.http_headers import token_hash
from hub.server.http.auth.admission import ProtectedResource
from hub.server.http.auth.issuer_metadata import KeySet, keys_in_file
from hub.server.http.auth.signed_tokens import Issuer, SignedTokens
from hub.server.http.auth.token_verifier import TokenVerifier

ROUNDS = 15
SECONDS, TIMES = 0.3, 200
OPEN, NAMED, SIGNED = "no token", "a named token", "a signed token"
LIMITED = "with limits"
LIMITS = {
    "calls_per_second": 1e9,
    "calls_per_minute": 10**9,
    "in_flight": 10**6,
    "bytes_per_minute": 10**15,
}
ISSUER, RESOURCE = "https://issuer.example", "https://hub.example.com/mcp"
OTHERS = 99
LOOKS = 20_000


def main() -> None:
    """Print the tables."""
    exit_on_sigterm()
    with ExitStack() as stack:
        root = folder_in(stack)
        keys, signed = _signed(root.parent)
        named = f"rh_{secrets.token_urlsafe(32)}"
        tokens = [
            {"name": f"n{number}", "sha256": token_hash(str(number))} for number in range(OTHERS)
        ]
        tokens.append({"name": "bench", "sha256": token_hash(named)})
        auth = {"resource": RESOURCE, "issuers": [{"issuer": ISSUER, "jwks": str(keys)}]}
        wanted: dict[str, tuple[str | None, dict[str, Any]]] = {
            OPEN: (None, {}),
            NAMED: (named, {"listen": {"tokens": tokens}}),
            SIGNED: (signed, {"listen": {"auth": auth}}),
            LIMITED: (None, {"listen": {"limits": LIMITS}}),
        }
        clients = {
            name: _sessions(stack, root, name, token, more)
            for name, (token, more) in wanted.items()
        }
        flood = Table(f"HTTP, {SESSIONS} sessions", "calls/s", OPEN)
        single = Table("HTTP, one call", "µs, p50", OPEN, digits=1)
        for name in (NAMED, SIGNED, LIMITED):
            flood.targets[name] = Target(0.95, at_least=True)
        params = reading(root)
        rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
        for number in range(rounds):
            for name in list(clients)[:: 1 if number % 2 else -1]:
                flood.measure(name, partial(Flood(clients[name]).run, params, SECONDS))
                single.measure(name, partial(p50, clients[name][0], params, TIMES, 1e6))
        look = f"a look at a verified token: {anyio.run(_look, keys, signed):.2f} µs"
        print("\n".join([machine(), *flood.lines(), "", *single.lines(), "", look]))


def _signed(folder: Path) -> tuple[Path, str]:
    """Return the file of a key set, and a token signed with its key."""
    key = rsa.generate_private_key(65537, 2048)
    public = json.loads(jwt.get_algorithm_by_name("RS256").to_jwk(key.public_key()))
    file = folder / "keys.json"
    file.write_text(json.dumps({"keys": [{**public, "kid": "one"}]}))
    claims = {"iss": ISSUER, "aud": RESOURCE, "sub": "bench", "exp": time.time() + 3600}
    return file, jwt.encode(claims, key, "RS256", {"kid": "one"})


def _sessions(
    stack: ExitStack, root: Path, name: str, token: str | None, more: dict[str, Any]
) -> list[Session]:
    """Return the sessions of a hub of their own, each of which has made a call."""
    folder = root.parent / name.replace(" ", "-")
    folder.mkdir()
    config = hub_config(folder, {"child": CHILD}, **more)
    servers = Servers(stack, root, SESSIONS)
    server = servers.open(partial(hub_on_http, config))

    def session() -> Session:
        made = Session(server.address, "/mcp", roots=[root])
        if token is not None:
            made.repeat({"Authorization": f"Bearer {token}"})
        return made

    sessions = servers.clients(session)
    for one in sessions:
        one.request("tools/call", reading(root))
    return sessions


async def _look(keys: Path, signed: str) -> float:
    """Return how many microseconds the look at a verified token takes."""
    known = KeySet(ISSUER, partial(keys_in_file, str(keys)), time.monotonic)
    issuer = Issuer(ISSUER, RESOURCE, ("RS256",), known)
    resource = ProtectedResource(RESOURCE, (ISSUER,))
    verifier = TokenVerifier(resource, SignedTokens([issuer], time.time), time.time)
    token = signed.encode()
    await verifier.verify(token)
    assert verifier.known(token) is not None
    return min(timeit.repeat(partial(verifier.known, token), number=LOOKS)) / LOOKS * 1e6


if __name__ == "__main__":
    main()
