"""What a secret's value must be, whatever it is read from."""

from __future__ import annotations

from typing import Final

from hub.errors import HubError

MAX_BYTES: Final = 64 * 1024
"""The largest value of a secret."""


class SecretError(HubError):
    """A secret cannot be read: `what` says why, without any value, `fix` what to do."""

    def __init__(self, what: str, fix: str) -> None:
        super().__init__(f"{what}. {fix}")
        self.what = what
        self.fix = fix


def value_in(content: bytes, source: str) -> str:
    """Return the value in what was read from `source`: without the newline at its end.

    Raises: SecretError if it is empty, too large or no text.
    """
    if len(content) > MAX_BYTES:
        raise SecretError(f"{source} has more than 64 KiB", "Name the secret alone.")
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise SecretError(
            f"{source} is not UTF-8 text", "Encode it, for example as base64."
        ) from None
    if "\0" in text:
        raise SecretError(f"{source} has a NUL character", "Encode it, for example as base64.")
    value = text.removesuffix("\n").removesuffix("\r") if text.endswith("\n") else text
    if not value:
        raise SecretError(f"{source} is empty", "Put the secret there.")
    return value
