"""Begins logins at servers, for this machine's user and for principals over HTTP."""

from __future__ import annotations

from typing import Protocol

from hub.errors import ChildError
from hub.logins.login_files import LoginFiles
from hub.logins.login_process import LoginOrder, LoginRun, LoginRuns, TooManyLoginsError
from hub.secrets.reading import SecretReader
from hub.specs import RemoteLogin, RemoteTarget, ServerSpec
from hub.values import ServerName


class LoginPages(Protocol):
    """The hub's own pages where principals log in at servers."""

    def redirect(self, server: ServerName) -> str:
        """Return where browsers come back to from a server's authorization server."""
        ...

    def address(self, server: ServerName, principal: str) -> str | None:
        """Return where a principal logs in; None if its user cannot show there who it is."""
        ...

    def link(self, server: ServerName, principal: str) -> str | None:
        """Return the same with a ticket: nobody but this principal goes on there."""
        ...


class ServerLogins:
    """The logins at servers; `runs` performs them, and `pages` are there over HTTP."""

    def __init__(self, runs: LoginRuns) -> None:
        self.runs = runs
        self.pages: LoginPages | None = None
        self._secrets = SecretReader()

    def files(self, login: RemoteLogin, owner: str) -> LoginFiles:
        """Return where the logins of an owner are."""
        return LoginFiles(self.runs.directory, owner, in_keyring=login.in_keyring)

    def link(self, spec: ServerSpec, owner: str) -> str | None:
        """Return the address where a principal is sent to log in; None if it cannot be."""
        return None if self.pages is None else self.pages.link(spec.name, owner)

    async def begun(
        self, spec: ServerSpec, target: RemoteTarget, login: RemoteLogin, owner: str
    ) -> LoginRun:
        """Return an owner's login under way at a server; begin one if there is none.

        Raises: ChildError if it fails before the person can log in.
        """
        try:
            secret = await self._secret(spec, login)
        except ChildError as exc:
            run = self.runs.under_way(target.url, owner)
            if run is not None and run.order is None:
                run.cancel(str(exc))  # calls would wait for it in vain
            raise
        order = LoginOrder(
            url=target.url,
            directory=str(self.runs.directory),
            owner=owner,
            redirect=self.pages.redirect(spec.name) if owner and self.pages else None,
            in_keyring=login.in_keyring,
            client_id=login.client_id,
            client_secret=secret,
            client_metadata=login.client_metadata,
            issuer=login.issuer,
            scopes=login.scopes,
            redirect_port=login.redirect_port,
        )
        try:
            run = self.runs.begin(order)
        except TooManyLoginsError as exc:
            raise ChildError(str(exc)) from None
        await run.begun.wait()
        if run.page is None:
            raise ChildError(run.failed or "it has ended")
        return run

    async def _secret(self, spec: ServerSpec, login: RemoteLogin) -> str | None:
        text = login.client_secret
        if text is None:
            return None
        at = f"servers.{spec.name}.auth"
        found = await self._secrets.values(at, {"client_secret": text}, spec.for_commands)
        return found["client_secret"]
