"""What clients carry for the hub: sealed, and maybe by another version of it."""

from __future__ import annotations

from typing import Any, cast

import msgspec
import pytest

from hub.server.http.oauth_proxy.tickets import (
    AccessTicket,
    LoginCode,
    LoginRequest,
    PendingLogin,
    ProxiedClient,
    RefreshTicket,
    Tickets,
)
from hub.system.sealing import Sealer
from tests.kit.fakes import FakeClock
from tests.server.http.auth.issuer import NAME, NOW, RESOURCE
from tests.server.http.oauth_proxy.provider import SECRETS

REQUEST = LoginRequest(
    "client", "https://app.example/", "c" * 43, "state", "browser", until=NOW + 60
)
LOGIN = PendingLogin(REQUEST, "the verifier", "the nonce", until=NOW + 60)
KINDS: list[tuple[str, Any]] = [
    ("oauth login request", REQUEST),
    ("oauth pending login", LOGIN),
    ("oauth code", LoginCode("the code", LOGIN, until=NOW + 60)),
    ("oauth refresh token", RefreshTicket("the token", "client", {"sub": "anna"}, until=NOW + 60)),
    ("oauth access token", AccessTicket({"sub": "anna"}, until=NOW + 60)),
]


@pytest.mark.parametrize(("purpose", "ticket"), KINDS)
def test_a_ticket_of_another_version_of_the_hub_is_none(purpose: str, ticket: Any) -> None:
    tickets = Tickets(SECRETS, RESOURCE, NAME, FakeClock(NOW))
    sealer, kind = Sealer(SECRETS, purpose), cast("type[AccessTicket]", type(ticket))
    place = f"{RESOURCE}\n{NAME}"
    assert tickets.open(sealer.seal(msgspec.json.encode(ticket), place), kind) == ticket
    for plain in (b"{}", b'{"until": 9e12}', b"[]", b"null", b"", b"{", b"\xff"):
        assert tickets.open(sealer.seal(plain, place), kind) is None


def test_so_is_a_client() -> None:
    tickets, sealer = (
        Tickets(SECRETS, RESOURCE, NAME, FakeClock(NOW)),
        Sealer(SECRETS, "oauth client"),
    )
    client = ProxiedClient(("https://app.example/",), "test", NOW)
    assert tickets.client(tickets.id_of(client)) == client
    for plain in (b"{}", b"[]", b"{"):
        assert tickets.client(sealer.seal(plain, RESOURCE)) is None


@pytest.mark.parametrize("ticket", [ticket for _, ticket in KINDS])
def test_what_is_sealed_is_not_shown(ticket: Any) -> None:
    assert not any(secret in repr(ticket) for secret in ("the ", "anna", "state", "c" * 43))
