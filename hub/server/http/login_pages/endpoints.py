"""The pages over HTTP, as HTML, and whose a request is of those for logins through the hub."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Final
from urllib.parse import quote, urlsplit

from starlette.types import Receive, Scope, Send

from hub.jsonrpc.errors import GoneError
from hub.server.http.access import LoginEndpoints, RequestHeaders
from hub.server.http.auth.token_verifier import Upkeep
from hub.server.http.bounds.failed_logins import FailedLogins
from hub.server.http.login_pages.steps import (
    IssuerLogin,
    LoginSteps,
    RefusedStepError,
    ShownPerson,
    WhoQuestion,
    WrongTokenError,
)
from hub.server.http.oauth_proxy.browsers import (
    HEADERS,
    BrowserCookie,
    form_of,
    query_of,
    send_on,
    text_page,
)
from hub.server.http.oauth_proxy.errors import OAuthError, RefusedGrantError, refusals_counted
from hub.server.http.open_requests import framed
from hub.server.http.responses import not_allowed, respond

_LAST: Final = {**HEADERS, "referrer-policy": "no-referrer"}
"""Of pages without a form."""
_WHO: Final = """<p>A server behind this hub wants you to log in there. First show who you are.</p>
"""
_WITH_FORM: Final = """<form method="post">
<input type="hidden" name="ticket" value="{ticket}">
<p><label>Your token for this hub:
<input type="password" name="token" autocomplete="off" required></label>
<button>Show who I am</button></p>
</form>
<p>Enter no token but your own: whoever it is of would use the server as you.</p>
"""
_ISSUER: Final = """<form method="post">
<input type="hidden" name="ticket" value="{ticket}">
<p><button name="issuer" value="{issuer}">Log in at {issuer}</button></p>
</form>
"""
_SHOWN: Final = """<p>For this hub you are <strong>{principal}</strong>. Go on only if that is so.
</p>
<p>You log in at the server <strong>{server}</strong> now. From then on the hub makes the calls of
{principal} there with the account that you choose.</p>
<form method="post" action="{action}">
<input type="hidden" name="shown" value="{ticket}">
<button>Go on and log in</button>
</form>
"""


class LoginPageEndpoints:
    """Serves the pages of `steps` at the endpoint `path` of the hub, and else `others`.

    A proxy in front of the hub may have changed the path: that of the public URL counts as well.
    Tokens and codes that were refused count for the address that they came from.
    """

    def __init__(self, steps: LoginSteps, path: str, others: LoginEndpoints | None) -> None:
        self._steps = steps
        self._others = others
        self._refused = FailedLogins()
        url = urlsplit(steps.base)
        self._paths = tuple(dict.fromkeys((url.path.rstrip("/"), path.rstrip("/"))))
        self._cookie = BrowserCookie(is_safe=url.scheme == "https")

    def has(self, path: str) -> bool:
        """Return whether a request to this path is a step of a login."""
        return self._step_at(path) is not None or self._is_of_others(path)

    def _is_of_others(self, path: str) -> bool:
        return self._others is not None and self._others.has(path)

    def follow(self, issuers: Sequence[IssuerLogin], others: LoginEndpoints | None) -> None:
        """Serve people of these issuers alone, and these others, from now on."""
        self._steps.people.follow(issuers)
        self._others = others

    @property
    def upkeep(self) -> list[Upkeep]:
        """What keeps the connections to issuers."""
        others = [] if self._others is None else self._others.upkeep
        return [*(one.provider.serve for one in self._steps.people.issuers.values()), *others]

    def _step_at(self, path: str) -> tuple[str, str] | None:
        """Return the step that a path is of, and the server in it."""
        for one in self._paths:
            if path == f"{one}/oauth/callback" and self._steps.people.issuers:
                return "issuer", ""
            rest = path.removeprefix(f"{one}/logins/")
            name = rest.removesuffix("/callback")
            if rest != path and name and "/" not in name:
                return "page" if name == rest else "server", name
        return None

    async def __call__(
        self, scope: Scope, headers: RequestHeaders, address: str, receive: Receive, send: Send
    ) -> None:
        """Serve a request for one of these paths."""
        step, server = self._step_at(scope["path"]) or ("", "")
        others = self._others
        try:
            is_ours = step != "issuer" or self._steps.is_from_issuer(query_of(scope))
            is_for_others = not (step and is_ours)
            if others is not None and is_for_others and self._is_of_others(scope["path"]):
                await others(scope, headers, address, receive, send)
                return
            methods = "GET, POST" if step == "page" else "GET"
            if scope["method"] not in methods.split(", "):
                await not_allowed(send, methods)
                return
            if step != "page":
                await self._came_back(server, scope, headers, address, send)
            elif scope["method"] == "GET":
                await self._ask(server, query_of(scope), headers, send)
            else:
                form = await form_of(receive)
                await self._answered(form, headers, address, send)
        except GoneError:
            return
        except RefusedStepError as exc:
            await _tell(send, exc.status, str(exc))
        except OAuthError as exc:
            await _tell(send, exc.status, str(exc), exc.headers)

    async def _ask(
        self, server: str, query: Mapping[str, str], headers: RequestHeaders, send: Send
    ) -> None:
        """Ask who it is, in a browser that is known again by a cookie."""
        browser, more = self._cookie.of_or_new(headers)
        question = self._steps.visited(server, query.get("ticket"), browser)
        await respond(send, 200, _who_page(question), {**HEADERS, **more})

    async def _answered(
        self, form: Mapping[str, str], headers: RequestHeaders, address: str, send: Send
    ) -> None:
        """Take what a form of the pages says."""
        browser, ticket = self._cookie.of(headers), form.get("ticket", "")
        if "shown" in form:
            await send_on(send, await self._steps.gone_on(form["shown"], browser))
        elif "issuer" in form:
            await send_on(send, await self._steps.at_issuer(ticket, form["issuer"], browser))
        else:
            async with refusals_counted(self._refused, address, WrongTokenError):
                person = self._steps.with_token(ticket, form.get("token", "").strip(), browser)
            await self._show(person, send)

    async def _show(self, person: ShownPerson, send: Send) -> None:
        action = f"{self._paths[0]}/logins/{quote(person.server, safe='')}"  # as browsers see it
        await respond(send, 200, _shown_page(person, action), HEADERS)

    async def _came_back(
        self, server: str, scope: Scope, headers: RequestHeaders, address: str, send: Send
    ) -> None:
        """Take a browser that comes back from a server's authorization server, or an issuer."""
        browser, query = self._cookie.of(headers), query_of(scope)
        if server:
            await _tell(send, 200, await self._steps.came_back(server, query, browser))
        else:
            async with refusals_counted(self._refused, address, RefusedGrantError):
                person = await self._steps.from_issuer(query, browser)
            await self._show(person, send)


async def _tell(send: Send, status: int, text: str, more: Mapping[str, str] | None = None) -> None:
    await respond(send, status, text_page(text), {**_LAST, **(more or {})})


def _who_page(question: WhoQuestion) -> bytes:
    """Return the page that asks a person who it is."""
    ticket = escape(question.ticket)
    token = _WITH_FORM.format(ticket=ticket) if question.takes_tokens else ""
    issuers = (_ISSUER.format(ticket=ticket, issuer=escape(one)) for one in question.issuers)
    return framed(_WHO + token + "".join(issuers))


def _shown_page(person: ShownPerson, action: str) -> bytes:
    """Return the page that asks a person who has shown who it is to go on; `action`: where."""
    filled = _SHOWN.format(
        principal=escape(person.principal),
        server=escape(person.server),
        ticket=escape(person.ticket),
        action=escape(action),
    )
    return framed(filled)
