from __future__ import annotations

import base64
from collections.abc import AsyncGenerator
from pathlib import Path

import anyio
import pytest

from hub.launch.templates import FileSecret, SecretText
from hub.logins.login_process import MOST_OF_ONE, LoginOrder, LoginPage, LoginRun
from hub.protocol.http_headers import token_hash
from hub.server.http.auth.credentials import BearerTokens
from hub.server.http.login_pages.steps import PATIENCE, RefusedStepError, WrongTokenError
from hub.server.http.oauth_proxy.errors import OAuthError
from hub.server.http.oauth_proxy.tickets import hash_of
from hub.specs import RemoteLogin, RemoteTarget
from tests.kit.trees import instead_of
from tests.server.http.auth.issuer import NAME, RESOURCE
from tests.server.http.login_pages.bench import FAR, HERE, THERE, TOKENS, PageBench, spec


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncGenerator[PageBench]:
    async with anyio.create_task_group() as tasks:
        yield PageBench(tasks, tmp_path)
        tasks.cancel_scope.cancel()


async def test_a_principal_is_sent_to_its_page_if_it_can_show_who_it_is(bench: PageBench) -> None:
    page = f"{RESOURCE}/logins/far"
    for principal in ("anna", f"{NAME} anna"):
        assert bench.steps.address(FAR, principal) == page
        link = bench.steps.link(FAR, principal)
        assert link is not None
        assert link.startswith(f"{page}?ticket=")
        assert "anna" not in link
    for principal in ("carla", "local", "", NAME, f"{NAME} ", "https://other.example anna"):
        assert bench.steps.address(FAR, principal) is None
        assert bench.steps.link(FAR, principal) is None


async def test_who_enters_a_token_is_its_principal(bench: PageBench) -> None:
    for link in (None, bench.link_for("anna")):
        person = bench.steps.with_token(bench.visit(link), TOKENS["anna"], HERE)
        assert (person.principal, person.server) == ("anna", "far")


@pytest.mark.parametrize(
    "token", ["", "rh_of-ann", "rh_of-anna x", "Bearer rh_of-anna", "€", "\udc00"]
)
async def test_a_wrong_token_lets_nobody_go_on(bench: PageBench, token: str) -> None:
    with pytest.raises(WrongTokenError):
        bench.steps.with_token(bench.visit(), token, HERE)


async def test_a_token_that_has_ended_is_a_wrong_one(bench: PageBench) -> None:
    person = bench.steps.with_token(bench.visit(), TOKENS["anna"], HERE)
    bench.credentials.follow(BearerTokens(TOKENS["bob"]))
    with pytest.raises(WrongTokenError):
        bench.steps.with_token(bench.visit(), TOKENS["anna"], HERE)
    with pytest.raises(RefusedStepError, match="does not let you in any more"):
        await bench.steps.gone_on(person.ticket, HERE)


@pytest.mark.parametrize("whose", ["anna", f"{NAME} anna", f"{NAME} bob"])
async def test_nobody_goes_on_with_the_link_of_somebody_else(bench: PageBench, whose: str) -> None:
    ticket = bench.visit(bench.link_for(whose))
    with pytest.raises(RefusedStepError, match="somebody else's"):
        bench.steps.with_token(ticket, TOKENS["bob"], HERE)
    back = await bench.at_issuer("eve", ticket)
    with pytest.raises(RefusedStepError, match="somebody else's"):
        await bench.steps.from_issuer(back, HERE)


async def test_who_logs_in_at_the_issuer_is_its_principal(bench: PageBench) -> None:
    for link in (None, bench.link_for(f"{NAME} anna")):
        back = await bench.at_issuer("anna", bench.visit(link))
        assert bench.steps.is_from_issuer(back)
        person = await bench.steps.from_issuer(back, HERE)
        assert person.principal == f"{NAME} anna"
        with pytest.raises(OAuthError, match="does not take it any more"):
            await bench.steps.from_issuer(back, HERE)


async def test_an_answer_of_the_issuer_counts_in_its_browser_alone(bench: PageBench) -> None:
    back = await bench.at_issuer("anna", bench.visit())
    for browser in (THERE, ""):
        with pytest.raises(RefusedStepError, match="another browser"):
            await bench.steps.from_issuer(back, browser)
    with pytest.raises(OAuthError, match="not from the identity provider"):
        await bench.steps.from_issuer({**back, "iss": "https://other.example"}, HERE)
    with pytest.raises(RefusedStepError, match="has refused"):
        await bench.steps.from_issuer({"state": back["state"], "iss": NAME}, HERE)
    bench.at.claims["nonce"] = "of another login"
    with pytest.raises(OAuthError, match="of another login"):
        await bench.steps.from_issuer(back, HERE)


@pytest.mark.parametrize("own", [{"aud": "other"}, {"azp": "other"}, {"iss": "https://x.example"}])
async def test_an_id_token_for_somebody_else_shows_nothing(
    bench: PageBench, own: dict[str, str]
) -> None:
    back = await bench.at_issuer("anna", bench.visit())
    bench.at.claims |= own
    with pytest.raises(OAuthError):
        await bench.steps.from_issuer(back, HERE)


async def test_each_ticket_counts_for_its_step_its_browser_and_its_time(bench: PageBench) -> None:
    link, visit = bench.link_for("anna"), bench.visit()
    shown = bench.steps.with_token(visit, TOKENS["anna"], HERE).ticket
    for wrong in (link, shown, "", "x", visit[:-4] + "AAAA"):
        with pytest.raises(RefusedStepError):
            bench.steps.with_token(wrong, TOKENS["anna"], HERE)
    for wrong in (link, visit, ""):
        with pytest.raises(RefusedStepError):
            await bench.steps.gone_on(wrong, HERE)
    for ticket in (visit, shown):
        assert bench.steps.visited("far", link, HERE).ticket != ticket
        with pytest.raises(RefusedStepError):
            bench.steps.visited("far", ticket, HERE)
    for browser in (THERE, ""):
        with pytest.raises(RefusedStepError, match="another browser"):
            bench.steps.with_token(visit, TOKENS["anna"], browser)
        with pytest.raises(RefusedStepError, match="another browser"):
            await bench.steps.gone_on(shown, browser)
    with pytest.raises(RefusedStepError, match="This link has ended"):
        bench.steps.visited("other", link, HERE)
    bench.clock.now += PATIENCE
    with pytest.raises(RefusedStepError, match="This link has ended"):
        bench.steps.visited("far", link, HERE)
    with pytest.raises(RefusedStepError, match="has ended"):
        bench.steps.with_token(visit, TOKENS["anna"], HERE)
    with pytest.raises(RefusedStepError, match="has ended"):
        await bench.steps.gone_on(shown, HERE)


@pytest.mark.parametrize("server", ["shared", "open", "none", "<b>"])
async def test_which_servers_there_are_is_told_to_those_alone_who_have_shown_who_they_are(
    bench: PageBench, server: str
) -> None:
    ticket = bench.visit(server=server)
    with pytest.raises(WrongTokenError):
        bench.steps.with_token(ticket, "guessed", HERE)
    with pytest.raises(RefusedStepError, match="no such server"):
        bench.steps.with_token(ticket, TOKENS["anna"], HERE)


async def test_a_principal_without_the_server_gets_no_login_there(bench: PageBench) -> None:
    shown = bench.steps.with_token(bench.visit(), TOKENS["anna"], HERE)
    bench.without = "anna"
    with pytest.raises(RefusedStepError, match="no such server"):
        await bench.steps.gone_on(shown.ticket, HERE)
    with pytest.raises(RefusedStepError, match="no such server"):
        bench.steps.with_token(bench.visit(), TOKENS["anna"], HERE)
    assert bench.steps.with_token(bench.visit(), TOKENS["bob"], HERE).principal == "bob"


ANNA_WAITS = """import sys
if '"anna"' not in sys.stdin.readline():
    print('{"type":"refused","why":"there is no such server"}', flush=True)
sys.stdin.read()
"""


@pytest.mark.live
async def test_logins_of_a_principal_are_bounded_and_keep_nobody_else_waiting(
    tmp_path: Path,
) -> None:
    environment = instead_of("hub.cli.logins.for_hub", ANNA_WAITS, tmp_path)
    async with anyio.create_task_group() as tasks:
        bench = PageBench(tasks, tmp_path, environment)
        for at in range(MOST_OF_ONE):
            order = LoginOrder(
                f"http://127.0.0.1:9/{at}", "https://x", directory=str(tmp_path), owner="anna"
            )
            bench.logins.runs.begin(order)
        for name, why in (("anna", "logins of yours are under way"), ("bob", "no such server")):
            person = bench.steps.with_token(bench.visit(), TOKENS[name], HERE)
            with pytest.raises(RefusedStepError, match=why):
                await bench.steps.gone_on(person.ticket, HERE)
        tasks.cancel_scope.cancel()


async def test_nobody_waits_for_a_login_whose_secret_cannot_be_read(
    bench: PageBench, tmp_path: Path
) -> None:
    secret = SecretText((FileSecret(str(tmp_path / "missing")),))
    bench.specs[FAR] = far = spec("far", RemoteLogin(client_id="hub", client_secret=secret))
    assert isinstance(far.target, RemoteTarget)
    run = bench.logins.runs.wanted(far.target.url, "anna")
    person = bench.steps.with_token(bench.visit(), TOKENS["anna"], HERE)
    with pytest.raises(RefusedStepError, match="No login can begin"):
        await bench.steps.gone_on(person.ticket, HERE)
    with anyio.fail_after(20):
        await run.over.wait()
    assert run.failed is not None
    assert "client_secret" in run.failed


async def test_a_browser_that_comes_back_for_no_login_is_refused(bench: PageBench) -> None:
    for query in ({}, {"state": ""}, {"state": "x", "code": "y"}):
        with pytest.raises(RefusedStepError, match="has ended"):
            await bench.steps.came_back("far", query, HERE)


async def test_who_is_let_in_no_more_or_where_there_is_no_server_any_more_keeps_no_login(
    bench: PageBench, tmp_path: Path
) -> None:
    def on_the_way(name: str) -> LoginRun:
        order = LoginOrder(
            f"http://127.0.0.1:9/{name}",
            bench.steps.redirect(FAR),
            directory=str(tmp_path),
            owner=name,
        )
        run = bench.logins.runs.begin(order)
        run.take(LoginPage(f"https://login.example.com/?state={name}"))
        run.browser = hash_of(HERE)
        return run

    anna, bob = on_the_way("anna"), on_the_way("bob")
    bench.credentials.follow(BearerTokens(None, {"bob": token_hash(TOKENS["bob"])}))
    with pytest.raises(RefusedStepError, match="does not let you in any more"):
        await bench.steps.came_back("far", {"state": "anna", "code": "x"}, HERE)
    del bench.specs[FAR]
    with pytest.raises(RefusedStepError, match="no such server"):
        await bench.steps.came_back("far", {"state": "bob", "code": "x"}, HERE)
    with anyio.fail_after(10):
        for run in (anna, bob):
            await run.over.wait()
            assert run.failed == "it is not wanted any more"


async def test_tickets_show_nothing(bench: PageBench) -> None:
    person = bench.steps.with_token(bench.visit(), TOKENS["anna"], HERE)
    for text in (bench.visit(), person.ticket, bench.link_for("anna")):
        sealed = base64.urlsafe_b64decode(f"{text}==")
        assert b'"anna"' not in sealed
        assert b'"far"' not in sealed
