"""The pages as HTML: who are you, and go on to the login."""

from __future__ import annotations

from html import escape
from typing import Final

from hub.server.http.login_pages.steps import ShownPerson, WhoQuestion
from hub.server.http.welcome_page import framed

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


def who_page(question: WhoQuestion) -> bytes:
    """Return the page that asks a person who it is."""
    ticket = escape(question.ticket)
    token = _WITH_FORM.format(ticket=ticket) if question.takes_tokens else ""
    issuers = (_ISSUER.format(ticket=ticket, issuer=escape(one)) for one in question.issuers)
    return framed(_WHO + token + "".join(issuers))


def shown_page(person: ShownPerson, action: str) -> bytes:
    """Return the page that asks a person who has shown who it is to go on; `action`: where."""
    filled = _SHOWN.format(
        principal=escape(person.principal),
        server=escape(person.server),
        ticket=escape(person.ticket),
        action=escape(action),
    )
    return framed(filled)
