"""Which signed tokens let in, and which do not."""

from __future__ import annotations

import gc
import hmac
import json
from collections.abc import Sequence
from typing import Any

import anyio
import pytest
from cryptography.hazmat.primitives import serialization

from hub.server.http.auth.admission import SKEW, Admission, ProtectedResource, TokenRejection
from hub.server.http.auth.issuer_metadata import APART, IssuerUnavailableError, JsonWebKey, KeySet
from hub.server.http.auth.signed_tokens import MOST_TRIED, Issuer, SignedTokens
from hub.server.http.auth.token_verifier import MOST_CHARACTERS, RECHECK, TokenVerifier
from tests.kit.fakes import FakeClock
from tests.kit.loops import virtual_time
from tests.server.http.auth.issuer import (
    CLAIMS,
    NAME,
    NOW,
    RESOURCE,
    part,
    private_key,
    public,
    signed,
    token,
)

KEYS = ("rsa-1", "rsa-2", "short-1", "p256-1", "p384-1", "ed25519-1")
ALGORITHMS = ("RS256", "PS256", "ES256", "EdDSA")


class Keys:
    """A key source: what it gives, and how often it was asked."""

    def __init__(self, *names: str) -> None:
        self.keys: list[JsonWebKey] | None = [public(name) for name in names]
        self.asked = 0

    async def __call__(self) -> list[JsonWebKey]:
        self.asked += 1
        if self.keys is None:
            raise IssuerUnavailableError("it is down")
        return self.keys


class SignedTokenBench:
    """A verifier with one issuer, and the clocks that it goes by."""

    def __init__(
        self,
        *names: str,
        scopes: Sequence[str] = ("mcp:tools",),
        claims: dict[str, tuple[str, ...]] | None = None,
    ) -> None:
        self.source = Keys(*(names or KEYS))
        self.clock = FakeClock(NOW)
        keys = KeySet(NAME, self.source, self.clock)
        issuer = Issuer(NAME, RESOURCE, ALGORITHMS, keys, claims or {})
        resource = ProtectedResource(RESOURCE, (NAME,), tuple(scopes))
        self.verifier = TokenVerifier(resource, SignedTokens([issuer], self.clock), self.clock)

    async def verify(self, sent: str | bytes) -> Admission | TokenRejection:
        return await self.verifier.verify(sent if isinstance(sent, bytes) else sent.encode())

    async def status(self, sent: str | bytes) -> int:
        found = await self.verify(sent)
        return found.status if isinstance(found, TokenRejection) else 200


TAKEN: dict[str, str] = {
    "RS256": token(),
    "PS256": token(algorithm="PS256"),
    "ES256": token("p256-1"),
    "EdDSA": token("ed25519-1"),
    "no typ": token(header={"typ": None}),
    "typ JWT": token(header={"typ": "JWT"}),
    "typ in full": token(header={"typ": "application/at+jwt"}),
    "one audience of two": token(aud=["https://other.example", RESOURCE]),
    "just expired by another clock": token(exp=NOW - SKEW + 1),
    "begins now by another clock": token(nbf=NOW + SKEW, iat=NOW + SKEW),
    "ends within a second": token(exp=NOW + 60.5),
    "two blanks between scopes": token(scope="a  mcp:tools"),
    "scp": token(scope=None, scp=["mcp:tools"]),
    "no key id among many keys": token("rsa-2", header={"kid": None}),
    "no key id and another kind of key": token("ed25519-1", header={"kid": None}),
}


@pytest.mark.parametrize("kind", TAKEN)
async def test_a_token_of_the_issuer_for_this_hub_lets_in(kind: str) -> None:
    found = await SignedTokenBench().verify(TAKEN[kind])
    assert isinstance(found, Admission)
    assert found.principal == f"{NAME} anna"


def shared_secret(header: dict[str, Any], secret: bytes) -> str:
    """Return a token signed with a secret: the issuer's public key, taken for one."""
    signed = f"{part(header)}.{part(CLAIMS)}"
    return f"{signed}.{part(hmac.digest(secret, signed.encode(), 'sha256'))}"


def pem(key: str) -> bytes:
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return private_key(key).public_key().public_bytes(serialization.Encoding.PEM, form)


def unsigned(header: Any, claims: Any = CLAIMS, signature: str = "") -> str:
    return f"{part(header)}.{part(claims)}.{signature}"


def changed(sent: str, at: int, to: str) -> str:
    parts = sent.split(".")
    parts[at] = to
    return ".".join(parts)


HS = {"alg": "HS256", "kid": "rsa-1"}
GOOD = token()
BAD: dict[str, str | bytes] = {
    # No signature, or one that anybody can make
    "alg none": unsigned({"alg": "none"}),
    "alg None": unsigned({"alg": "None", "kid": "rsa-1"}),
    "alg NONE": unsigned({"alg": "NONE", "kid": "rsa-1"}),
    "alg none with a signature": unsigned({"alg": "none", "kid": "rsa-1"}, CLAIMS, "AAAA"),
    "no alg": unsigned({"kid": "rsa-1"}),
    "empty alg": unsigned({"alg": "", "kid": "rsa-1"}),
    "alg is no text": unsigned({"alg": ["RS256"], "kid": "rsa-1"}),
    "RS256 without a signature": unsigned({"alg": "RS256", "kid": "rsa-1"}),
    "signature of zeros": changed(GOOD, 2, part(bytes(256))),
    "HS256 with the public key": shared_secret(HS, pem("rsa-1")),
    "HS256 with the key set's text": shared_secret(HS, json.dumps(public("rsa-1")).encode()),
    "HS256 with an empty secret": shared_secret(HS, b""),
    "HS256 with the modulus": shared_secret(HS, public("rsa-1")["n"].encode()),
    # Another signature
    "signed with another key": token("rsa-9", header={"kid": "rsa-1"}),
    "signed with another key of the issuer": token("rsa-2", header={"kid": "rsa-1"}),
    "claims changed": changed(GOOD, 1, part({**CLAIMS, "sub": "root"})),
    "header changed": changed(GOOD, 0, part({"alg": "RS256", "kid": "rsa-1", "x": 1})),
    "signature cut": GOOD[:-4],
    "signature longer": GOOD + "AA",
    "signature of another token": changed(GOOD, 2, token(sub="ben").split(".")[2]),
    # Another way of signing
    "RS512": token(algorithm="RS512"),
    "ES384, not allowed": token("p384-1"),
    "alg of another kind of key": token("p256-1", header={"kid": "rsa-1"}),
    "key for another algorithm": token("rsa-alg"),
    "a short RSA key": token("short-1"),
    # Keys
    "unknown key": token("rsa-9"),
    "key id is empty": unsigned({"alg": "RS256", "kid": ""}),
    "key id is a number": unsigned({"alg": "RS256", "kid": 1}),
    "key id is a path": token(header={"kid": "../../../dev/null"}),
    "key id is SQL": token(header={"kid": "' or 1=1 --"}),
    "key in the header": token("rsa-9", header={"jwk": public("rsa-9"), "kid": "rsa-9"}),
    "key by URL": token("rsa-9", header={"jku": "https://evil.example/keys"}),
    "certificate in the header": token("rsa-9", header={"x5c": ["AAAA"]}),
    # Header
    "critical header": token(header={"crit": ["exp"], "exp": NOW}),
    "unknown critical header": token(header={"crit": ["x"], "x": 1}),
    "critical header is empty": token(header={"crit": []}),
    "b64 false": unsigned({"alg": "RS256", "kid": "rsa-1", "b64": False, "crit": ["b64"]}),
    "compressed": token(header={"zip": "DEF"}),
    "nested": token(header={"cty": "JWT"}),
    "a token in a token": unsigned({"alg": "RS256", "kid": "rsa-1"}, GOOD, "AA"),
    "for DPoP": token(header={"typ": "dpop+jwt"}),
    "a logout token": token(header={"typ": "logout+jwt"}),
    "typ is a list": unsigned({"alg": "RS256", "kid": "rsa-1", "typ": []}),
    "typ is a mapping": unsigned({"alg": "RS256", "kid": "rsa-1", "typ": {}}),
    "a list without a signature": unsigned({"alg": "RS256", "typ": []}, {}, "AA"),
    "typ is no text": unsigned({"alg": "RS256", "kid": "rsa-1", "typ": 1}),
    "encrypted": "a.b.c.d.e",
    # Issuer
    "no issuer": token(iss=None),
    "another issuer": token(iss="https://evil.example"),
    "issuer with a slash": token(iss=f"{NAME}/"),
    "issuer in other letters": token(iss=NAME.upper()),
    "issuer is a list": unsigned({"alg": "RS256", "kid": "rsa-1"}, {**CLAIMS, "iss": [NAME]}, "AA"),
    # Audience
    "no audience": token(aud=None),
    "another audience": token(aud="https://other.example"),
    "audience is empty": token(aud=""),
    "audience is an empty list": token(aud=[]),
    "audience is a part": token(aud="https://hub.example.com"),
    "audience is longer": token(aud=f"{RESOURCE}/more"),
    "audience with numbers": token(aud=[1, RESOURCE + "x"]),
    "audience is a mapping": token(aud={RESOURCE: 1}),
    # Times
    "no end": token(exp=None),
    "expired": token(exp=NOW - SKEW),
    "expired long ago": token(exp=1),
    "end is a text": token(exp=str(NOW + 60)),
    "end is true": token(exp=True),
    "end is negative": token(exp=-1),
    "end is for ever": token(exp=1e300),
    "not yet": token(nbf=NOW + SKEW + 1),
    "begin is a text": token(nbf="now"),
    "made in the future": token(iat=NOW + SKEW + 1),
    "made at no time": token(iat="now"),
    # Subject
    "no subject": token(sub=None),
    "empty subject": token(sub=""),
    "huge subject": token(sub="a" * 256),
    "subject with a line end": token(sub="a\nb"),
    # Bound to a key
    "for a certificate": token(cnf={"x5t#S256": "AAAA"}),
    "for a key": token(cnf={"jkt": "AAAA"}),
    # Form
    "empty": "",
    "one part": "abc",
    "two parts": "a.b",
    "dots": "..",
    "no base64": "!.!.!",
    "header is no JSON": f"{part(b'{')}.{part(CLAIMS)}.AA",
    "header is a list": unsigned([], CLAIMS, "AA"),
    "claims are a list": unsigned({"alg": "RS256", "kid": "rsa-1"}, [], "AA"),
    "claims are deep": unsigned(
        {"alg": "RS256", "kid": "rsa-1"}, json.loads("[" * 500 + "]" * 500), "AA"
    ),
    "claims are no JSON": f"{part({'alg': 'RS256', 'kid': 'rsa-1'})}.{part(b'{')}.AA",
    "huge": token(more="x" * MOST_CHARACTERS),
    "bytes": b"\xff.\xff.\xff",
    "NUL": "a\0.b.c",
    "blanks within": GOOD.replace(".", ". "),
    "padding": GOOD + "==",
}


@pytest.mark.parametrize("kind", BAD)
async def test_any_other_is_not_valid(kind: str) -> None:
    bench = SignedTokenBench()
    bench.source.keys = [*(bench.source.keys or ()), public("rsa-alg", alg="PS256")]
    found = await bench.verify(BAD[kind])
    assert isinstance(found, TokenRejection)
    assert (found.status, found.error) == (401, "invalid_token")
    assert found.text.startswith("The token is not valid: ")
    assert isinstance(await bench.verify(GOOD), Admission)


async def test_without_a_scope_a_token_is_not_enough() -> None:
    bench = SignedTokenBench(scopes=("mcp:tools", "mcp:more"))
    found = await bench.verify(token())
    assert isinstance(found, TokenRejection)
    assert (found.status, found.error) == (403, "insufficient_scope")
    assert found.text == "The token lacks the scope mcp:more"
    assert await bench.status(token(scope=None)) == 403
    assert await bench.status(token(scope=["mcp:tools", "mcp:more"])) == 200
    assert await bench.status(token(scope="mcp:toolsmcp:more")) == 403


async def test_a_further_claim_may_be_wanted() -> None:
    bench = SignedTokenBench(claims={"tenant": ("a", "b"), "groups": ("staff",)})
    assert await bench.status(token(tenant="b", groups=["x", "staff"])) == 200
    for claims in ({}, {"tenant": "a"}, {"tenant": "c", "groups": "staff"}, {"groups": ["staff"]}):
        assert await bench.status(signed(**claims)) == 401


async def test_the_only_key_needs_no_id() -> None:
    bench = SignedTokenBench("rsa-1")
    assert await bench.status(token(header={"kid": None})) == 200
    assert await bench.status(token("rsa-9", header={"kid": None})) == 401


def without_id(name: str, **more: Any) -> JsonWebKey:
    return {field: value for field, value in public(name, **more).items() if field != "kid"}


async def test_of_several_keys_without_an_id_each_that_fits_is_tried() -> None:
    bench = SignedTokenBench()
    names = ("rsa-1", "rsa-2", "p256-1", "p384-1")
    bench.source.keys = [without_id(name) for name in names]
    for name in names[:3]:
        assert await bench.status(token(name, header={"kid": None})) == 200
    assert await bench.status(token("rsa-9", header={"kid": None})) == 401
    assert await bench.status(token("rsa-1")) == 401, "none has the id that it names"


async def test_of_several_keys_with_one_id_each_that_fits_is_tried() -> None:
    bench = SignedTokenBench()
    names = ("rsa-1", "p256-1", "rsa-2")
    bench.source.keys = [public(name, kid="now") for name in names]
    for name in names:
        assert await bench.status(token(name, header={"kid": "now"})) == 200
    assert await bench.status(token("rsa-9", header={"kid": "now"})) == 401


async def test_a_key_for_another_algorithm_is_no_key_for_a_token() -> None:
    bench = SignedTokenBench()
    bench.source.keys = [without_id("rsa-1", alg="PS256"), without_id("rsa-2", alg="RS256")]
    assert await bench.status(token("rsa-2", header={"kid": None})) == 200
    assert await bench.status(token("rsa-1", header={"kid": None})) == 401


async def test_only_so_many_keys_are_tried_for_one_token() -> None:
    bench = SignedTokenBench()
    bench.source.keys = [*(without_id(f"p256-{one}") for one in range(MOST_TRIED + 1))]
    first, last = (token(f"p256-{one}", header={"kid": None}) for one in (0, MOST_TRIED))
    assert await bench.status(first) == 200
    assert await bench.status(last) == 401


async def test_a_token_without_a_key_id_is_looked_for_in_a_new_set_of_keys() -> None:
    bench = SignedTokenBench("rsa-1")
    assert await bench.status(token(header={"kid": None})) == 200
    bench.source.keys = [public("rsa-2")]
    bench.clock.now += APART
    assert await bench.status(token("rsa-2", header={"kid": None}, exp=NOW + 1000)) == 200


async def test_an_issuer_that_breaks_ends_nothing() -> None:
    bench = SignedTokenBench("rsa-1")
    bench.source.keys = None

    async def broken() -> list[JsonWebKey]:
        raise TypeError("unhashable")

    keys = KeySet(NAME, broken, bench.clock)
    await keys.refresh()
    with pytest.raises(IssuerUnavailableError, match="TypeError: unhashable"):
        await keys.find("rsa-1")


# Verified tokens


async def test_a_verified_token_is_known_until_it_has_to_be_looked_at_again() -> None:
    bench = SignedTokenBench()
    sent = token(exp=NOW + 1000).encode()
    assert bench.verifier.known(sent) is None
    found = await bench.verify(sent)
    assert bench.verifier.known(sent) is found
    bench.clock.now += RECHECK
    assert bench.verifier.known(sent) is None
    assert isinstance(await bench.verify(sent), Admission)


async def test_it_is_not_known_for_longer_than_it_lasts() -> None:
    bench = SignedTokenBench()
    sent = token(exp=NOW + 1).encode()
    await bench.verify(sent)
    bench.clock.now += 1 + SKEW
    assert bench.verifier.known(sent) is None
    assert await bench.status(sent) == 401


async def test_a_key_that_is_gone_ends_its_tokens() -> None:
    bench = SignedTokenBench("rsa-1", "p256-1")
    sent = token(exp=NOW + 1000)
    assert await bench.status(sent) == 200
    bench.source.keys = [public("p256-1")]
    bench.clock.now += APART
    assert await bench.status(token("rsa-new")) == 401
    assert await bench.status(sent) == 401


async def test_a_new_key_lets_in_and_tokens_of_the_old_one_too() -> None:
    bench = SignedTokenBench("rsa-1")
    old, new = token(exp=NOW + 1000), token("p256-1", exp=NOW + 1000)
    assert await bench.status(old) == 200
    bench.source.keys = [public("rsa-1"), public("p256-1")]
    bench.clock.now += APART
    assert await bench.status(new) == 200
    assert await bench.status(old) == 200


# The issuer's answers


async def test_a_thousand_unknown_keys_are_one_fetch() -> None:
    bench = SignedTokenBench()
    assert await bench.status(token()) == 200
    for number in range(1000):
        sent = unsigned({"alg": "RS256", "kid": f"key {number}"}, CLAIMS, "AA")
        assert await bench.status(sent) == 401
        bench.clock.now += APART / 2000
    assert bench.source.asked == 1
    bench.clock.now += APART
    assert await bench.status(token("rsa-9", exp=NOW + 1000)) == 401
    assert bench.source.asked == 2


async def test_a_key_that_is_new_counts_soon_after_a_fetch_that_could_not_know_it() -> None:
    bench = SignedTokenBench("rsa-1")
    assert await bench.status(token(exp=NOW + 1000)) == 200
    bench.source.keys = [public("p256-1")]
    bench.clock.now += 5
    assert await bench.status(token("p256-1", exp=NOW + 1000)) == 200


@virtual_time
async def test_those_who_waited_for_a_slow_issuer_do_not_all_ask_it_again() -> None:
    asked = 0

    async def slow() -> list[JsonWebKey]:
        nonlocal asked
        asked += 1
        await anyio.sleep(APART + 1)
        return [public("rsa-1")]

    keys = KeySet(NAME, slow, anyio.current_time)
    async with anyio.create_task_group() as tasks:
        for number in range(10):
            tasks.start_soon(keys.find, f"key {number}")
    assert asked == 1


async def test_while_the_issuer_is_down_known_keys_go_on_and_others_wait() -> None:
    bench = SignedTokenBench("rsa-1")
    assert await bench.status(token(exp=NOW + 1000)) == 200
    bench.source.keys = None
    bench.clock.now += APART
    assert await bench.status(token("p256-1", exp=NOW + 1000)) == 503
    assert await bench.status(token(exp=NOW + 999)) == 200
    assert await bench.status(token("p256-1", exp=NOW + 1000)) == 503
    assert bench.source.asked == 2
    bench.source.keys = [public("rsa-1"), public("p256-1")]
    bench.clock.now += APART
    assert await bench.status(token("p256-1", exp=NOW + 1000)) == 200


async def test_no_token_is_kept_in_clear() -> None:
    bench = SignedTokenBench()
    await bench.verify(GOOD)
    assert GOOD.split(".")[2] not in str(gc.get_referents(vars(bench.verifier)))
