"""A login through the hub, step by step, and those who want what is another's."""

from __future__ import annotations

import base64
from collections import Counter
from typing import Any
from urllib.parse import urlsplit

import anyio
import pytest
from structlog.testing import capture_logs

from hub.server.http.auth.admission import InvalidTokenError, ProtectedResource, scopes_in
from hub.server.http.auth.issuer_metadata import TIMEOUT
from hub.server.http.oauth_proxy.endpoints import consent_page
from hub.server.http.oauth_proxy.errors import OAuthError
from hub.server.http.oauth_proxy.identity_provider import APART, AT_ONCE, LASTS, challenge_of
from hub.server.http.oauth_proxy.proxy import ACCESS_LASTS, CODE_LASTS, PATIENCE, REFRESH_LASTS
from hub.server.http.oauth_proxy.tickets import HubTokens, ProxiedClient, Tickets
from hub.system.sealing import SealingSecrets
from tests.kit.loops import virtual_time
from tests.server.http.auth.issuer import NAME, NOW, RESOURCE, token
from tests.server.http.oauth_proxy.provider import (
    BROWSER,
    CALLBACK,
    SECRETS,
    VERIFIER,
    ProxyBench,
    fields_of,
)


async def refused(doing: Any, code: str) -> str:
    with pytest.raises(OAuthError) as caught:
        await doing
    assert caught.value.code == code
    return str(caught.value)


def turned_away(bench: ProxyBench, query: dict[str, str]) -> str:
    with pytest.raises(OAuthError) as caught:
        bench.proxy.begin(query, BROWSER)
    return caught.value.code


# All goes well


async def test_a_person_goes_from_the_client_to_the_provider_and_back() -> None:
    bench = ProxyBench()
    client_id = bench.registered()
    question = bench.proxy.begin(bench.asking(client_id), BROWSER)
    assert (question.client.name, question.redirect_uri) == ("test", CALLBACK)
    place = await bench.proxy.answered(question.ticket, BROWSER, is_allowed=True)
    parts, asked = urlsplit(place), fields_of(place)
    assert f"{parts.scheme}://{parts.netloc}{parts.path}" == f"{NAME}/authorize"
    assert asked["client_id"] == "hub"
    assert asked["redirect_uri"] == f"{RESOURCE}/oauth/callback"
    assert asked["scope"] == "openid email"
    assert (asked["tenant"], asked["prompt"]) == ("ours", "consent")
    assert asked["code_challenge_method"] == "S256"
    assert asked["code_challenge"] != challenge_of(VERIFIER)
    back = await bench.proxy.came_back(bench.provider_answer(asked), BROWSER)
    assert back.startswith(f"{CALLBACK}?")
    found = fields_of(back)
    assert (found["state"], found["iss"]) == ("own state", RESOURCE)
    given = await bench.proxy.tokens(bench.redeeming(client_id, found["code"]))
    assert (given["token_type"], given["expires_in"]) == ("Bearer", 600)
    assert given["scope"] == "mcp:tools"
    claims = bench.claims(given["access_token"])
    assert claims == {
        "iss": NAME,
        "sub": "anna",
        "groups": ["staff"],
        "scope": "mcp:tools",
        "exp": NOW + 600,
    }
    (form,) = bench.at.forms
    assert challenge_of(form["code_verifier"]) == asked["code_challenge"]
    assert bench.at.authorization == "Basic " + base64.b64encode(b"hub:of+the+hub").decode()


async def test_a_provider_may_want_the_secret_in_the_form() -> None:
    bench = ProxyBench()
    bench.at.metadata["token_endpoint_auth_methods_supported"] = ["client_secret_post"]
    await bench.logged_in()
    assert bench.at.authorization is None
    assert (bench.at.forms[0]["client_id"], bench.at.forms[0]["client_secret"]) == (
        "hub",
        "of the hub",
    )


async def test_the_providers_own_tokens_stay_with_the_hub() -> None:
    bench = ProxyBench()
    bench.at.given |= {"access_token": "the provider's own"}
    _, given = await bench.logged_in()
    shown = str(given)
    assert "the provider's own" not in shown
    assert "refresh-1" not in shown


async def test_new_tokens_come_while_the_provider_knows_the_person() -> None:
    bench = ProxyBench()
    client_id, given = await bench.logged_in()
    form = {"grant_type": "refresh_token", "client_id": client_id}
    bench.at.given |= {"refresh_token": "refresh-2"}
    bench.at.claims["groups"] = ["ops"]
    again = await bench.proxy.tokens({**form, "refresh_token": given["refresh_token"]})
    assert bench.claims(again["access_token"])["groups"] == ["ops"]
    assert "refresh-1" in bench.at.forms[-1].values()
    await bench.proxy.tokens({**form, "refresh_token": again["refresh_token"]})
    assert "refresh-2" in bench.at.forms[-1].values()
    bench.at.status = 400
    await refused(
        bench.proxy.tokens({**form, "refresh_token": again["refresh_token"]}), "invalid_grant"
    )


async def test_a_refresh_without_an_id_token_keeps_the_claims() -> None:
    bench = ProxyBench()
    client_id, given = await bench.logged_in()
    bench.at.given |= {"id_token": None, "expires_in": None, "refresh_token": None}
    form = {"grant_type": "refresh_token", "client_id": client_id}
    again = await bench.proxy.tokens({**form, "refresh_token": given["refresh_token"]})
    assert bench.claims(again["access_token"])["groups"] == ["staff"]
    assert again["expires_in"] == ACCESS_LASTS
    assert again["refresh_token"] != given["refresh_token"]


async def test_without_a_refresh_token_of_the_provider_there_is_none() -> None:
    bench = ProxyBench()
    del bench.at.given["refresh_token"]
    _, given = await bench.logged_in()
    assert "refresh_token" not in given


# A client's request


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"client_id": None}, "invalid_client"),
        ({"client_id": "test"}, "invalid_client"),
        ({"client_id": "A" * 200}, "invalid_client"),
        ({"redirect_uri": "https://evil.example/"}, "invalid_request"),
        ({"redirect_uri": f"{CALLBACK}/more"}, "invalid_request"),
        ({"response_type": "token"}, "unsupported_response_type"),
        ({"response_type": None}, "unsupported_response_type"),
        ({"code_challenge": None}, "invalid_request"),
        ({"code_challenge": ""}, "invalid_request"),
        ({"code_challenge": VERIFIER[:-1]}, "invalid_request"),
        ({"code_challenge": "ä" * 43}, "invalid_request"),
        ({"code_challenge": "=" * 43}, "invalid_request"),
        ({"code_challenge_method": "plain"}, "invalid_request"),
        ({"code_challenge_method": None}, "invalid_request"),
        ({"resource": "https://other.example/mcp"}, "invalid_target"),
        ({"resource": ""}, "invalid_target"),
    ],
)
def test_what_is_wrong_is_said_here_and_nobody_is_sent_anywhere(
    change: dict[str, str | None], code: str
) -> None:
    bench = ProxyBench()
    said = {"client_id": bench.registered(), **change}
    query = bench.asking(said.pop("client_id") or "", **said)
    assert turned_away(bench, query) == code


def test_the_only_redirect_uri_need_not_be_named() -> None:
    bench = ProxyBench()
    one, two = bench.registered(), bench.registered(CALLBACK, "https://app.example/")
    assert bench.proxy.begin(bench.asking(one, redirect_uri=None), BROWSER).redirect_uri == CALLBACK
    assert turned_away(bench, bench.asking(two, redirect_uri=None)) == "invalid_request"


def test_a_client_of_another_hub_is_none() -> None:
    bench = ProxyBench()
    other = Tickets(SECRETS, f"{RESOURCE}/other", NAME, bench.clock)
    client_id = other.id_of(ProxiedClient((CALLBACK,), "test", NOW))
    assert turned_away(bench, bench.asking(client_id)) == "invalid_client"


# Consent, and the way back


async def test_who_refuses_is_sent_back_and_the_provider_is_not_asked() -> None:
    bench = ProxyBench()
    question = bench.proxy.begin(bench.asking(bench.registered()), BROWSER)
    back = await bench.proxy.answered(question.ticket, BROWSER, is_allowed=False)
    assert fields_of(back) == {"error": "access_denied", "state": "own state", "iss": RESOURCE}
    assert back.startswith(f"{CALLBACK}?")


@pytest.mark.parametrize("browser", ["", "c" * 43])
async def test_consent_counts_in_the_browser_that_was_asked(browser: str) -> None:
    bench = ProxyBench()
    question = bench.proxy.begin(bench.asking(bench.registered()), BROWSER)
    await refused(
        bench.proxy.answered(question.ticket, browser, is_allowed=True), "invalid_request"
    )


@pytest.mark.parametrize("browser", ["", "c" * 43])
async def test_a_login_ends_in_the_browser_that_it_began_in(browser: str) -> None:
    """Else who sends a link to the provider to another person would get that person's tokens."""
    bench = ProxyBench()
    asked = await bench.at_provider(bench.registered())
    await refused(bench.proxy.came_back(bench.provider_answer(asked), browser), "invalid_request")


async def test_a_question_and_a_login_do_not_wait_for_ever() -> None:
    bench = ProxyBench()
    question = bench.proxy.begin(bench.asking(bench.registered()), BROWSER)
    asked = await bench.at_provider(bench.registered())
    bench.clock.now += PATIENCE
    await refused(
        bench.proxy.answered(question.ticket, BROWSER, is_allowed=True), "invalid_request"
    )
    await refused(bench.proxy.came_back(bench.provider_answer(asked), BROWSER), "invalid_request")


@pytest.mark.parametrize("issuer", [None, "https://evil.example", f"{NAME}/"])
async def test_the_answer_of_another_issuer_counts_for_nothing(issuer: str | None) -> None:
    bench = ProxyBench()
    answer = bench.provider_answer(await bench.at_provider(bench.registered()))
    del answer["iss"]
    if issuer is not None:
        answer["iss"] = issuer
    await refused(bench.proxy.came_back(answer, BROWSER), "access_denied")


@pytest.mark.parametrize(
    ("error", "told"),
    [("access_denied", "access_denied"), ("evil", "server_error"), (None, "server_error")],
)
async def test_a_login_that_the_provider_refuses_is_told_to_the_client(
    error: str | None, told: str
) -> None:
    bench = ProxyBench()
    asked = await bench.at_provider(bench.registered())
    answer = {"state": asked["state"], "iss": NAME} | ({} if error is None else {"error": error})
    back = await bench.proxy.came_back(answer, BROWSER)
    assert fields_of(back)["error"] == told
    assert fields_of(back)["state"] == "own state"


# Codes and tokens


@pytest.mark.parametrize(
    "change",
    [
        {"code_verifier": "w" * 43},
        {"code_verifier": ""},
        {"code_verifier": challenge_of(VERIFIER)},
        {"redirect_uri": "http://127.0.0.1:10/callback"},
        {"code": ""},
        {"code": "code-1"},
    ],
)
async def test_a_code_is_of_use_to_its_client_alone(change: dict[str, str]) -> None:
    bench = ProxyBench()
    client_id = bench.registered()
    form = bench.redeeming(client_id, await bench.code(client_id))
    await refused(bench.proxy.tokens({**form, **change}), "invalid_grant")
    assert bench.at.forms == []
    assert "access_token" in await bench.proxy.tokens(form)


async def test_a_code_is_not_for_another_client() -> None:
    bench = ProxyBench()
    client_id = bench.registered()
    form = bench.redeeming(client_id, await bench.code(client_id))
    await refused(bench.proxy.tokens({**form, "client_id": bench.registered()}), "invalid_grant")
    assert bench.at.forms == []


@pytest.mark.parametrize("client_id", ["", "another", "A" * 200])
async def test_an_unknown_client_is_told_to_register_again(client_id: str) -> None:
    """Clients of a hub that has got another key go on with the id that they have, else."""
    bench = ProxyBench()
    own, given = await bench.logged_in()
    grants = (
        {"grant_type": "refresh_token", "refresh_token": given["refresh_token"]},
        bench.redeeming(own, await bench.code(own)),
    )
    for form in grants:
        asked = {**form, "client_id": client_id}
        assert "register again" in await refused(bench.proxy.tokens(asked), "invalid_client")


async def test_a_code_counts_once_and_not_for_long() -> None:
    bench = ProxyBench()
    client_id = bench.registered()
    form = bench.redeeming(client_id, await bench.code(client_id))
    await bench.proxy.tokens(form)
    await refused(bench.proxy.tokens(form), "invalid_grant")
    late = bench.redeeming(client_id, await bench.code(client_id))
    bench.clock.now += CODE_LASTS
    await refused(bench.proxy.tokens(late), "invalid_grant")


@pytest.mark.parametrize(
    "claims",
    [
        {"aud": "another client"},
        {"aud": RESOURCE},
        {"aud": None},
        {"azp": "another client"},
        {"nonce": "of another login"},
        {"nonce": None},
        {"iss": "https://evil.example"},
        {"exp": NOW - 60},
        {"exp": None},
        {"sub": None},
        {"sub": "a\nb"},
        {"groups": ["guests"]},
    ],
)
async def test_the_id_token_is_checked(claims: dict[str, Any]) -> None:
    bench = ProxyBench(wanted={"groups": ("staff",)})
    bench.at.claims |= claims
    await refused(bench.logged_in(), "invalid_grant")


@pytest.mark.parametrize("id_token", [None, "", "a.b.c", token("rsa-9", aud="hub"), 7])
async def test_there_is_an_id_token_that_the_provider_signed(id_token: Any) -> None:
    bench = ProxyBench()
    bench.at.given["id_token"] = id_token
    await refused(bench.logged_in(), "invalid_grant")


async def test_a_refresh_token_is_of_use_to_its_client_and_for_its_person() -> None:
    bench = ProxyBench()
    client_id, given = await bench.logged_in()
    form = {"grant_type": "refresh_token", "refresh_token": given["refresh_token"]}
    other = bench.registered()
    await refused(bench.proxy.tokens({**form, "client_id": other}), "invalid_grant")
    bench.at.claims["sub"] = "ben"
    await refused(bench.proxy.tokens({**form, "client_id": client_id}), "invalid_grant")
    bench.at.claims["sub"] = "anna"
    bench.clock.now += REFRESH_LASTS
    await refused(bench.proxy.tokens({**form, "client_id": client_id}), "invalid_grant")


async def test_what_one_provider_gave_is_not_shown_to_another() -> None:
    bench = ProxyBench()
    client_id, given = await bench.logged_in()
    code, asked = await bench.code(client_id), await bench.at_provider(client_id)
    other = ProxyBench(issuer="https://other.example")
    form = {"grant_type": "refresh_token", "client_id": client_id}
    sent = {**form, "refresh_token": given["refresh_token"]}
    await refused(other.proxy.tokens(sent), "invalid_grant")
    await refused(other.proxy.tokens(other.redeeming(client_id, code)), "invalid_grant")
    answer = {**bench.provider_answer(asked), "iss": "https://other.example"}
    await refused(other.proxy.came_back(answer, BROWSER), "invalid_request")
    assert other.at.forms == []


@pytest.mark.parametrize(
    ("said", "lasts"),
    [
        (600, 600),
        ("600", 600),
        *(
            (one, 3600)
            for one in (None, 0, -1, 10**400, True, "", "-1", "soon", "1" * 5000, "\u00b2")
        ),
    ],
)
async def test_a_token_lasts_no_longer_than_the_providers(said: Any, lasts: int) -> None:
    bench = ProxyBench()
    bench.at.given["expires_in"] = said
    _, given = await bench.logged_in()
    assert given["expires_in"] == lasts
    assert bench.claims(given["access_token"])["exp"] == NOW + lasts


@pytest.mark.parametrize("grant", [None, "", "client_credentials", "password"])
async def test_there_are_no_other_grants(grant: str | None) -> None:
    form = {} if grant is None else {"grant_type": grant}
    await refused(ProxyBench().proxy.tokens(form), "unsupported_grant_type")


async def test_tokens_are_for_this_hub_alone() -> None:
    bench = ProxyBench()
    client_id = bench.registered()
    form = bench.redeeming(client_id, await bench.code(client_id))
    other = {**form, "resource": "https://other.example/mcp"}
    await refused(bench.proxy.tokens(other), "invalid_target")


async def test_nothing_that_is_sealed_for_one_step_counts_in_another() -> None:
    bench = ProxyBench()
    client_id = bench.registered()
    question = bench.proxy.begin(bench.asking(client_id), BROWSER)
    asked = await bench.at_provider(client_id)
    code = await bench.code(client_id)
    given = await bench.proxy.tokens(bench.redeeming(client_id, code))
    sealed = {
        client_id,
        question.ticket,
        asked["state"],
        code,
        given["refresh_token"],
        given["access_token"].removeprefix("rht_"),
    }
    for one in sealed - {question.ticket}:
        await refused(bench.proxy.answered(one, BROWSER, is_allowed=True), "invalid_request")
    for one in sealed - {asked["state"]}:
        answer = {**bench.provider_answer(asked), "state": one}
        await refused(bench.proxy.came_back(answer, BROWSER), "invalid_request")
    for one in sealed - {code}:
        await refused(bench.proxy.tokens(bench.redeeming(client_id, one)), "invalid_grant")
    for one in sealed - {given["refresh_token"]}:
        form = {"grant_type": "refresh_token", "client_id": client_id, "refresh_token": one}
        await refused(bench.proxy.tokens(form), "invalid_grant")
    for one in sealed - {given["access_token"].removeprefix("rht_")}:
        with pytest.raises(InvalidTokenError):
            bench.claims(f"rht_{one}")
    assert turned_away(bench, bench.asking(code)) == "invalid_client"


# Scopes


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        (None, "mcp:tools"),
        ("", "mcp:tools"),
        ("mcp:tools", "mcp:tools"),
        ("files:write", "mcp:tools files:write"),
        ("files:write mcp:tools files:read", "mcp:tools files:write files:read"),
        ("openid offline_access files:read other", "mcp:tools files:read"),
    ],
)
async def test_a_token_has_the_general_scopes_and_those_that_its_client_asked_for(
    asked: str | None, given: str
) -> None:
    bench = ProxyBench()
    _, tokens = await bench.logged_in(scope=asked)
    assert tokens["scope"] == given
    assert bench.claims(tokens["access_token"])["scope"] == given


async def test_a_person_is_asked_about_the_scopes_that_not_every_client_gets() -> None:
    bench = ProxyBench()
    asking = bench.asking(bench.registered(), scope="mcp:tools files:write")
    question = bench.proxy.begin(asking, BROWSER)
    assert question.scopes == ("files:write",)
    assert b"<strong>files:write</strong>" in consent_page(question, RESOURCE)
    plain = bench.proxy.begin(bench.asking(bench.registered()), BROWSER)
    assert b"It asks for" not in consent_page(plain, RESOURCE)


async def test_new_tokens_have_the_scopes_that_the_person_has_agreed_to_or_fewer() -> None:
    bench = ProxyBench()
    client_id, tokens = await bench.logged_in(scope="files:read files:write")

    async def renewed(**more: str) -> dict[str, Any]:
        refresh = {"grant_type": "refresh_token", "refresh_token": tokens["refresh_token"]}
        return await bench.proxy.tokens({**refresh, "client_id": client_id, **more})

    assert (await renewed())["scope"] == "mcp:tools files:read files:write"
    fewer = await renewed(scope="files:read")
    assert fewer["scope"] == "mcp:tools files:read"
    tokens = fewer
    assert (await renewed())["scope"] == "mcp:tools files:read files:write"
    client_id, tokens = await bench.logged_in(scope="files:read")
    assert "agreed" in await refused(renewed(scope="files:write"), "invalid_scope")


async def test_what_a_provider_says_of_scopes_gives_none_at_the_hub() -> None:
    bench = ProxyBench()
    bench.proxy.resource = ProtectedResource(RESOURCE, (RESOURCE,), (), ("files:write",))
    bench.at.claims |= {"scope": "files:write", "scp": ["files:write"]}
    _, tokens = await bench.logged_in()
    assert scopes_in(bench.claims(tokens["access_token"])) == set()


async def test_a_scope_that_the_config_does_not_name_any_more_is_not_given_again() -> None:
    bench = ProxyBench()
    client_id, tokens = await bench.logged_in(scope="files:write")
    bench.proxy.resource = ProtectedResource(RESOURCE, (RESOURCE,), ("mcp:tools",))
    form = {"grant_type": "refresh_token", "client_id": client_id}
    again = await bench.proxy.tokens({**form, "refresh_token": tokens["refresh_token"]})
    assert again["scope"] == "mcp:tools"


def test_all_scopes_are_in_the_metadata() -> None:
    told = ProxyBench().proxy.metadata
    assert told["scopes_supported"] == ["mcp:tools", "files:read", "files:write"]


# The hub's own tokens


async def test_a_token_of_the_hub_ends() -> None:
    bench = ProxyBench()
    _, given = await bench.logged_in()
    assert bench.claims(given["access_token"])["sub"] == "anna"
    bench.clock.now += 600
    with pytest.raises(InvalidTokenError, match="has ended"):
        bench.claims(given["access_token"])


async def test_it_counts_no_more_with_another_key_issuer_or_claim() -> None:
    bench = ProxyBench()
    _, given = await bench.logged_in()
    sent = given["access_token"]
    other = Tickets(SealingSecrets((b"o" * 32,)), RESOURCE, NAME, bench.clock)
    for own, why in (
        (HubTokens(other, NAME, {}), "none of the hub's"),
        (HubTokens(bench.tickets, "https://other.example", {}), "issuer"),
        (HubTokens(bench.tickets, NAME, {"groups": ("ops",)}), "groups"),
    ):
        with pytest.raises(InvalidTokenError, match=why):
            own(sent)


async def test_claims_that_are_no_text_are_an_error() -> None:
    bench = ProxyBench()
    bench.at.claims["name"] = "\ud800"
    assert "cannot be kept" in await refused(bench.logged_in(), "server_error")


async def test_claims_that_no_request_could_carry_are_an_error() -> None:
    bench = ProxyBench()
    bench.at.claims["groups"] = ["x" * 100] * 200
    assert "fewer claims" in await refused(bench.logged_in(), "server_error")


# The provider does not answer


@pytest.mark.parametrize("how", ["down", "status", "metadata", "http"])
async def test_a_provider_that_cannot_be_asked_is_said_and_asked_again(how: str) -> None:
    bench = ProxyBench()
    client_id = bench.registered()
    if how == "http":
        bench.at.metadata |= {"token_endpoint": "http://issuer.example/token"}
    elif how == "metadata":
        bench.at.metadata["issuer"] = "https://evil.example"
    elif how == "down":
        bench.at.is_down = True
    if how != "status":
        await refused(bench.at_provider(client_id), "temporarily_unavailable")
        bench.at.metadata = {**bench.at.metadata, "issuer": NAME, "token_endpoint": f"{NAME}/token"}
        bench.at.is_down = False
        bench.clock.now += APART
    form = bench.redeeming(client_id, await bench.code(client_id))
    bench.at.status = 503
    await refused(bench.proxy.tokens(form), "temporarily_unavailable")


async def test_a_provider_may_move_its_endpoints() -> None:
    bench = ProxyBench()
    client_id = bench.registered()

    async def place() -> str:
        question = bench.proxy.begin(bench.asking(client_id), BROWSER)
        found = await bench.proxy.answered(question.ticket, BROWSER, is_allowed=True)
        return found.partition("?")[0]

    assert await place() == f"{NAME}/authorize"
    bench.at.metadata["authorization_endpoint"] = f"{NAME}/v2/authorize"
    assert await place() == f"{NAME}/authorize"
    bench.clock.now += LASTS
    bench.at.is_down = True
    assert await place() == f"{NAME}/authorize"  # better than nothing
    bench.at.is_down, bench.clock.now = False, bench.clock.now + APART
    assert await place() == f"{NAME}/v2/authorize"
    asked = bench.at.asked
    await place()
    assert bench.at.asked == asked


async def test_endpoints_are_looked_up_again_after_one_has_failed() -> None:
    bench = ProxyBench()
    client_id = bench.registered()
    asked = await bench.at_provider(client_id)
    bench.at.metadata["authorization_endpoint"] = f"{NAME}/v2/authorize"
    bench.at.status = 404
    with pytest.raises(OAuthError, match="cannot be asked now"):
        await bench.proxy.provider.redeemed("code", "verifier")
    place = await bench.proxy.provider.login_url(state="s", verifier="v", nonce=asked["nonce"])
    assert place.startswith(f"{NAME}/v2/authorize?")


async def test_however_many_want_to_log_in_a_provider_that_is_down_is_asked_once() -> None:
    bench = ProxyBench()
    client_id, bench.at.is_down = bench.registered(), True

    async def wanted() -> None:
        await refused(bench.at_provider(client_id), "temporarily_unavailable")

    with capture_logs() as logged:
        async with anyio.create_task_group() as tasks:
            for _ in range(50):
                tasks.start_soon(wanted)
        once, bench.clock.now = bench.at.asked, bench.clock.now + APART - 1
        await wanted()
        assert bench.at.asked == once
        bench.clock.now += 1
        await wanted()
        assert bench.at.asked == 2 * once
    assert [line["event"] for line in logged] == ["the identity provider cannot be asked"]
    bench.at.is_down, bench.clock.now = False, bench.clock.now + APART
    await bench.at_provider(client_id)


async def test_a_provider_gets_no_more_questions_at_once_than_it_may() -> None:
    bench = ProxyBench()
    client_id = bench.registered()
    form = bench.redeeming(client_id, await bench.code(client_id))
    bench.at.codes.clear()
    bench.at.answers = anyio.Event()
    async with anyio.create_task_group() as tasks:
        for _ in range(AT_ONCE * 3):
            tasks.start_soon(refused, bench.proxy.tokens(form), "invalid_grant")
        await anyio.wait_all_tasks_blocked()
        assert bench.at.under_way == AT_ONCE
        bench.at.answers.set()
    assert bench.at.most == AT_ONCE


@virtual_time
async def test_who_waits_for_the_questions_of_others_is_not_told_that_the_provider_is_down() -> (
    None
):
    bench = ProxyBench()
    client_id = bench.registered()
    form = bench.redeeming(client_id, await bench.code(client_id))
    bench.at.codes.clear()
    bench.at.takes = TIMEOUT - 1
    with capture_logs() as logged:
        async with anyio.create_task_group() as tasks:
            for _ in range(AT_ONCE * 3):
                tasks.start_soon(refused, bench.proxy.tokens(form), "invalid_grant")
    assert len(bench.at.forms) == AT_ONCE * 3
    assert logged == []


@virtual_time
async def test_nobody_waits_for_ever_for_the_questions_of_others() -> None:
    bench = ProxyBench()
    client_id = bench.registered()
    form = bench.redeeming(client_id, await bench.code(client_id))
    bench.at.takes = 2 * TIMEOUT
    statuses = Counter[str]()

    async def redeem() -> None:
        with pytest.raises(OAuthError) as caught:
            await bench.proxy.tokens(form)
        statuses[str(caught.value)] += 1

    async with anyio.create_task_group() as tasks:
        for _ in range(AT_ONCE * 8):
            tasks.start_soon(redeem)
    assert statuses == {
        "the identity provider cannot be asked now": AT_ONCE * 6,
        "too many others ask the identity provider now": AT_ONCE * 2,
    }


@pytest.mark.parametrize(
    ("field", "url"),
    [
        ("authorization_endpoint", f"{NAME}/\r\nset-cookie: a=b"),
        ("authorization_endpoint", f"{NAME}/\u2603"),
        ("authorization_endpoint", f"{NAME}/#fragment"),
        ("authorization_endpoint", ["https://issuer.example/"]),
        ("token_endpoint", f"{NAME}/ token"),
        ("token_endpoint", 7),
    ],
)
async def test_endpoints_that_nobody_can_be_sent_to_are_none(field: str, url: Any) -> None:
    bench = ProxyBench()
    bench.at.metadata[field] = url
    await refused(bench.at_provider(bench.registered()), "temporarily_unavailable")


@pytest.mark.parametrize(
    "content", [b"", b"7", b"\xff", b"[" * 100_000, b'{"id_token": "\\ud800"}', b"not JSON"]
)
async def test_an_answer_that_cannot_be_read_is_none(content: bytes) -> None:
    bench = ProxyBench()
    client_id = bench.registered()
    form = bench.redeeming(client_id, await bench.code(client_id))
    bench.at.content = content
    with pytest.raises(OAuthError):
        await bench.proxy.tokens(form)


async def test_a_token_endpoint_that_cannot_be_reached_is_said() -> None:
    bench = ProxyBench()
    bench.at.metadata |= {"token_endpoint": "https://issuer.example:x/token"}
    client_id = bench.registered()
    form = bench.redeeming(client_id, await bench.code(client_id))
    await refused(bench.proxy.tokens(form), "temporarily_unavailable")


async def test_secrets_are_shown_nowhere() -> None:
    bench = ProxyBench()
    assert "of the hub" not in repr(bench.proxy.provider)
