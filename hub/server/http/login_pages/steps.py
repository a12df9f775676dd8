"""The steps of a principal's login at a server: who it is, the way there, the way back."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar
from urllib.parse import quote, urlencode

import anyio
import structlog
from msgspec import Struct

from hub.errors import ChildError
from hub.logins.login_process import LoginRun
from hub.secrets.reading import SecretError
from hub.server.http.auth.admission import Admission
from hub.server.http.auth.credentials import Credentials
from hub.server.http.oauth_proxy.errors import RefusedGrantError
from hub.server.http.oauth_proxy.identity_provider import IdentityProvider, IdTokens
from hub.server.http.oauth_proxy.tickets import Ticket, TicketSealer, hash_of, is_hash_of
from hub.sessions.logins import ServerLogins
from hub.specs import RemoteLogin, RemoteTarget, ServerSpec
from hub.values import LOCAL, ServerName


class IssuerLogin(Struct, frozen=True):
    """Where people of an issuer log in, and what verifies its ID tokens for the hub's client."""

    provider: IdentityProvider
    id_tokens: IdTokens

    @property
    def issuer(self) -> str:
        return self.provider.issuer

    async def principal(self, code: str, verifier: str, nonce: str) -> str:
        """Return the principal that has logged in with this code. Raises: OAuthError."""
        given = await self.provider.redeemed(code, verifier)
        claims = await self.id_tokens.claims(given, nonce=nonce)
        if claims is None:
            raise RefusedGrantError("the identity provider gives no ID token")
        return f"{claims['iss']} {claims['sub']}"


class KnownPeople:
    """The principals that can show who they are: of `credentials`, and of `issuers`."""

    def __init__(self, credentials: Credentials, issuers: Sequence[IssuerLogin]) -> None:
        self._credentials = credentials
        self.follow(issuers)

    def follow(self, issuers: Sequence[IssuerLogin]) -> None:
        """Know the people of these issuers alone from now on."""
        self.issuers = {one.issuer: one for one in issuers}

    @property
    def have_tokens(self) -> bool:
        """Whether some principals have a token of the config."""
        return bool(self._credentials.tokens)

    def with_token(self, token: str) -> str | None:
        """Return the principal with this token of the config; None if it lets nobody in now."""
        if not self.have_tokens:
            return None
        in_header = token.encode("utf-8", "surrogatepass").decode("latin-1")
        found = self._credentials.look_at(f"Bearer {in_header}")
        if not isinstance(found, Admission) or found.claims is not None:
            return None
        return found.principal

    def can_show(self, principal: str) -> bool:
        """Return whether a principal could show now who it is."""
        issuer, _, subject = principal.partition(" ")
        if subject and issuer in self.issuers:
            return True
        return principal != LOCAL and self._credentials.know(principal)


PATIENCE: Final = 600.0
"""Seconds that a person may take for each step."""
END: Final = 45.0
"""Seconds that the end of a login is waited for, once the browser has come back."""
BAD_REQUEST, FORBIDDEN, NOT_FOUND, UNAVAILABLE = 400, 403, 404, 503

log = structlog.stdlib.get_logger(__name__)


class RefusedStepError(Exception):
    """A step is refused: with this HTTP status, and a text for the person."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class WrongTokenError(RefusedStepError):
    """The token that somebody has entered lets nobody in."""

    def __init__(self) -> None:
        super().__init__(FORBIDDEN, "This token lets nobody in. Go back and enter yours.")


class LinkTicket(Ticket, frozen=True):
    """A link for one principal to the login at a server."""

    purpose = "login page link"
    server: str
    principal: str


class VisitTicket(Ticket, frozen=True):
    """A browser that has opened the page of a server, and has not shown yet whose it is.

    `principal` is the one that the link was for; empty: there was no link. `browser` is a hash of
    its cookie.
    """

    purpose = "login page visit"
    server: str
    principal: str
    browser: str


class IssuerTicket(Ticket, frozen=True):
    """The same while it is at an issuer, with the PKCE verifier and the nonce there."""

    purpose = "login page issuer"
    visit: VisitTicket
    issuer: str
    verifier: str
    nonce: str


class ShownTicket(VisitTicket, frozen=True):
    """A browser that has shown whose it is: that of `principal`."""

    purpose = "login page shown"


VisitTicketT = TypeVar("VisitTicketT", bound=VisitTicket)


class WhoQuestion(Struct, frozen=True):
    """What a person is asked first: who are you? `ticket` comes with the answer."""

    ticket: str
    takes_tokens: bool
    issuers: tuple[str, ...]


class ShownPerson(Struct, frozen=True):
    """Who has shown who it is, and is asked to go on; `ticket` comes with the answer."""

    principal: str
    server: str
    ticket: str


class LoginSteps:
    """The steps of logins at servers, on pages below the address `base`.

    `specs` returns the servers that a principal can use. `logins` begins them; `people` says who
    somebody is. Methods raise RefusedStepError, and those that ask an issuer OAuthError; `browser`
    is the value of a cookie.
    """

    def __init__(
        self,
        base: str,
        people: KnownPeople,
        tickets: TicketSealer,
        logins: ServerLogins,
        specs: Callable[[str], Mapping[ServerName, ServerSpec]],
    ) -> None:
        self.base = base.rstrip("/")
        self.people = people
        self._tickets = tickets
        self._logins = logins
        self._specs = specs

    # For calls: where a principal is sent

    def redirect(self, server: ServerName) -> str:
        """Return where browsers come back to from a server's authorization server.

        One for each server: an answer that belongs to the login at another one is not mixed up with
        it (RFC 9700, 4.4.2.2).
        """
        return f"{self._page(server)}/callback"

    def address(self, server: ServerName, principal: str) -> str | None:
        """Return where a principal logs in; None if its user cannot show there who it is."""
        return self._page(server) if self.people.can_show(principal) else None

    def _page(self, server: str) -> str:
        return f"{self.base}/logins/{quote(server, safe='')}"

    def link(self, server: ServerName, principal: str) -> str | None:
        """Return the same with a ticket: nobody but this principal goes on there."""
        address = self.address(server, principal)
        ticket = LinkTicket(server, principal, until=self._until)
        return address and f"{address}?{urlencode({'ticket': self._tickets.seal(ticket)})}"

    # Who it is

    def visited(self, server: str, link: str | None, browser: str) -> WhoQuestion:
        """Return what to ask a person who opens the page of a server."""
        principal = ""
        if link is not None:
            found = self._tickets.open(link, LinkTicket)
            if found is None or found.server != server:
                text = "This link has ended, or is none. Call the tool again, and open the new one."
                raise RefusedStepError(BAD_REQUEST, text)
            principal = found.principal
        ticket = VisitTicket(server, principal, hash_of(browser), until=self._until)
        issuers = tuple(self.people.issuers)
        return WhoQuestion(self._tickets.seal(ticket), self.people.have_tokens, issuers)

    def with_token(self, ticket: str, token: str, browser: str) -> ShownPerson:
        """Return who has entered a token. Raises: WrongTokenError."""
        visit = self._opened(ticket, VisitTicket, browser)
        principal = self.people.with_token(token)
        if principal is None:
            raise WrongTokenError
        return self._shown(visit, principal)

    async def at_issuer(self, ticket: str, issuer: str, browser: str) -> str:
        """Return where the browser goes to show whose it is."""
        visit = self._opened(ticket, VisitTicket, browser)
        found = self.people.issuers.get(issuer)
        if found is None:
            raise RefusedStepError(BAD_REQUEST, "The hub knows no such issuer.")
        verifier, nonce = secrets.token_urlsafe(48), secrets.token_urlsafe(16)
        gone = IssuerTicket(visit, issuer, verifier, nonce, until=self._until)
        state = self._tickets.seal(gone)
        return await found.provider.login_url(state=state, verifier=verifier, nonce=nonce)

    def is_from_issuer(self, query: Mapping[str, str]) -> bool:
        """Return whether a browser comes back from an issuer that it was sent to here."""
        return self._tickets.open(query.get("state", ""), IssuerTicket) is not None

    async def from_issuer(self, query: Mapping[str, str], browser: str) -> ShownPerson:
        """Return who has logged in at an issuer."""
        gone = self._tickets.open(query.get("state", ""), IssuerTicket)
        found = None if gone is None else self.people.issuers.get(gone.issuer)
        if gone is None or found is None or not is_hash_of(browser, gone.visit.browser):
            raise _ended()
        await found.provider.check_answer(query.get("iss"))
        if not query.get("code"):
            raise RefusedStepError(FORBIDDEN, "The issuer has refused the login.")
        principal = await found.principal(query["code"], gone.verifier, gone.nonce)
        return self._shown(gone.visit, principal)

    def _opened(self, ticket: str, kind: type[VisitTicketT], browser: str) -> VisitTicketT:
        found = self._tickets.open(ticket, kind)
        if found is None or not is_hash_of(browser, found.browser):
            raise _ended()
        return found

    def _shown(self, visit: VisitTicket, principal: str) -> ShownPerson:
        if visit.principal and visit.principal != principal:
            log.warning("a login link was opened by another principal", server=visit.server)
            text = (
                "This link is somebody else's: it was made for another user of this hub, and "
                "nothing was done. If somebody has sent it to you, do not go on, and tell whoever "
                "runs this hub."
            )
            raise RefusedStepError(FORBIDDEN, text)
        self._login_at(visit.server, principal)
        ticket = ShownTicket(visit.server, principal, visit.browser, until=self._until)
        return ShownPerson(principal, visit.server, self._tickets.seal(ticket))

    # The server's authorization server

    async def gone_on(self, ticket: str, browser: str) -> str:
        """Return where the browser goes that has shown whose it is."""
        shown = self._opened(ticket, ShownTicket, browser)
        spec, target, login = self._check_wanted(shown.server, shown.principal)
        try:
            run = await self._logins.begun(spec, target, login, shown.principal)
        except SecretError as exc:
            raise RefusedStepError(UNAVAILABLE, f"No login can begin: {exc.what}") from exc
        except ChildError as exc:
            raise RefusedStepError(UNAVAILABLE, f"No login can begin: {exc}") from exc
        run.browser = shown.browser
        return run.page or ""

    async def came_back(self, server: str, query: Mapping[str, str], browser: str) -> str:
        """Return what to tell a person who comes back from a server's authorization server."""
        there = self.redirect(ServerName(server))
        run = self._logins.runs.expecting(query.get("state", ""), there)
        if run is None or not is_hash_of(browser, run.browser):
            raise _ended()
        if not (query.get("code") or query.get("error")):
            raise RefusedStepError(BAD_REQUEST, "This is no answer to a login.")
        try:
            self._check_wanted(server, run.owner)  # the config may have changed meanwhile
        except RefusedStepError:
            run.cancel("it is not wanted any more")
            raise
        if not run.come_back(urlencode(query)):
            raise _ended()
        return await _end_of(run, server)

    def _check_wanted(
        self, server: str, principal: str
    ) -> tuple[ServerSpec, RemoteTarget, RemoteLogin]:
        """Return the same as `_login_at`, if the principal is still let in."""
        if not self.people.can_show(principal):
            raise RefusedStepError(FORBIDDEN, "The hub does not let you in any more.")
        return self._login_at(server, principal)

    def _login_at(
        self, server: str, principal: str
    ) -> tuple[ServerSpec, RemoteTarget, RemoteLogin]:
        """Return a principal's server, and how one logs in there, if each does for itself."""
        spec = self._specs(principal).get(ServerName(server))
        target = None if spec is None else spec.target
        login = target.login if isinstance(target, RemoteTarget) else None
        if spec is None or not isinstance(target, RemoteTarget) or login is None or login.is_shared:
            raise RefusedStepError(NOT_FOUND, "There is no such server where you could log in.")
        return spec, target, login

    @property
    def _until(self) -> float:
        return self._tickets.clock() + PATIENCE


async def _end_of(run: LoginRun, server: str) -> str:
    with anyio.move_on_after(END):
        await run.over.wait()
    if not run.over.is_set():
        return "The login goes on. You can close this page."
    if run.failed is not None:
        raise RefusedStepError(UNAVAILABLE, f"The login has failed: {run.failed}")
    log.info("logged in at a server", server=server, principal=run.owner)
    return "You are logged in. You can close this page."


def _ended() -> RefusedStepError:
    text = "This login has ended, or began in another browser. Begin it again."
    return RefusedStepError(BAD_REQUEST, text)
