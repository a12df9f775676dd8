from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from hub.app.issuers import issuers_of
from hub.app.machine import this_machine
from hub.config.listening.auth import Auth
from hub.server.http.oauth_proxy.errors import OAuthError
from hub.server.http.oauth_proxy.identity_provider import ProviderTokens
from tests.server.http.auth.issuer import NAME, RESOURCE, public, token

CLIENT = {"client_id": "hub", "client_secret": "of the hub"}
KEYS = ["k" * 32]


def auth(tmp_path: Path, **issuer: Any) -> Auth:
    keys = tmp_path / "keys.json"
    keys.write_text(json.dumps({"keys": [public("rsa-1")]}))
    wanted = {"issuer": NAME, "jwks": str(keys), "claims": {"groups": "staff"}, **issuer}
    return Auth.model_validate({"resource": RESOURCE, "issuers": [wanted]})


@pytest.mark.parametrize("key", ["proxy", "pages"])
async def test_the_pages_know_those_alone_whom_the_issuers_tokens_let_in(
    tmp_path: Path, key: str
) -> None:
    (login,) = issuers_of(auth(tmp_path, **{key: CLIENT}), this_machine(os.environ), KEYS).logins
    assert login.issuer == NAME

    async def subject(**claims: Any) -> str:
        said: dict[str, Any] = {
            "aud": "hub",
            "exp": time.time() + 60,
            "groups": ["staff"],
            **claims,
        }
        given = ProviderTokens(id_token=token(**said))
        claimed = await login.id_tokens.claims(given, nonce=None)
        assert claimed is not None
        return str(claimed["sub"])

    assert await subject() == "anna"
    for wrong in ({"groups": ["guests"]}, {"groups": None}, {"aud": RESOURCE}, {"sub": ""}):
        with pytest.raises(OAuthError, match="does not let in"):
            await subject(**wrong)


def test_without_a_client_of_the_hubs_nobody_shows_there_who_it_is(tmp_path: Path) -> None:
    assert issuers_of(auth(tmp_path), this_machine(os.environ), KEYS).logins == ()
