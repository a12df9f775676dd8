"""What goes wrong in a login, in the words of OAuth."""

from __future__ import annotations


class OAuthError(Exception):
    """A request is refused: `code` is an error of RFC 6749 or RFC 7591, the text is for people."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code
