"""The hub's own tokens, at the verifier that lets their clients in."""

from __future__ import annotations

from hub.server.http.auth.admission import Admission, TokenRejection
from hub.server.http.auth.signed_tokens import SignedTokens
from hub.server.http.auth.token_verifier import TokenVerifier
from tests.server.http.auth.issuer import NAME
from tests.server.http.oauth_proxy.provider import ProxyBench


async def test_a_token_lets_its_person_in_until_it_ends_and_not_a_second_longer() -> None:
    """Other clocks than the hub's have no part in it."""
    bench = ProxyBench()
    signed = SignedTokens([], bench.clock)
    verifier = TokenVerifier(bench.proxy.resource, signed, bench.clock, own=bench.own)
    _, given = await bench.logged_in()
    sent, ends = given["access_token"].encode(), bench.clock.now + given["expires_in"]
    bench.clock.now = ends - 1
    found = await verifier.verify(sent)
    assert isinstance(found, Admission)
    assert (found.principal, found.expires) == (f"{NAME} anna", ends)
    bench.clock.now = ends
    assert verifier.known(sent) is None
    late = await verifier.verify(sent)
    assert isinstance(late, TokenRejection)
    assert late.error == "invalid_token"
