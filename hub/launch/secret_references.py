"""References to secrets that are kept outside of the config, and texts that have such references.

Pure: nothing is read here. The values are read at each launch, by `hub.secrets`.
"""

from __future__ import annotations

import shlex
from difflib import get_close_matches
from typing import Final, TypeAlias

from msgspec import Struct

HIDDEN: Final = "…"
"""Stands for what of a text may be a secret and is no reference."""


class FileSecret(Struct, frozen=True):
    """`${file:PATH}`: the content of a file."""

    path: str

    @property
    def written(self) -> str:
        return f"${{file:{self.path}}}"

    @property
    def identity(self) -> tuple[str, ...]:
        return "file", self.path


class CommandSecret(Struct, frozen=True):
    """`${cmd:WORDS}`: what a program prints. It is run in `directory`, without a shell."""

    words: str
    directory: str = ""

    @property
    def argv(self) -> tuple[str, ...]:
        return tuple(shlex.split(self.words))

    @property
    def written(self) -> str:
        return f"${{cmd:{self.words}}}"

    @property
    def identity(self) -> tuple[str, ...]:
        return "cmd", self.words, self.directory


class KeyringSecret(Struct, frozen=True):
    """`${keyring:SERVICE/USER}`: a password in the user's keyring."""

    service: str
    user: str

    @property
    def written(self) -> str:
        return f"${{keyring:{self.service}/{self.user}}}"

    @property
    def identity(self) -> tuple[str, ...]:
        return "keyring", self.service, self.user


SecretReference: TypeAlias = FileSecret | CommandSecret | KeyringSecret


class SecretReferenceError(ValueError):
    """A reference to a secret cannot be parsed. The text says why, `fix` what to do."""

    def __init__(self, why: str, fix: str) -> None:
        super().__init__(why)
        self.fix = fix


def reference_in(body: str) -> SecretReference | None:
    """Return the reference in the body of a placeholder, `file:PATH`; None if it is no reference.

    Raises: SecretReferenceError.
    """
    kind, colon, rest = body.partition(":")
    if not colon or kind not in {"file", "cmd", "keyring"}:
        return None
    if not rest.strip():
        why = f"${{{kind}:}} names nothing"
        raise SecretReferenceError(why, f"Write {_EXAMPLES[kind]}.")
    if kind == "file":
        return FileSecret(rest)
    return _command(rest) if kind == "cmd" else _keyring(rest)


_EXAMPLES: Final = {
    "file": "${file:~/.config/token}",
    "cmd": "${cmd:pass show github/token}",
    "keyring": "${keyring:SERVICE/USER}",
}


def likely_kind(kind: str) -> str | None:
    """Return an example of the kind of reference that a misspelt one probably is; None if none."""
    near = get_close_matches(kind.lower(), _EXAMPLES, n=1, cutoff=0.7)
    return _EXAMPLES[near[0]] if near else None


def _command(words: str) -> CommandSecret:
    try:
        found = shlex.split(words)
    except ValueError:
        why = "the words of ${cmd:...} cannot be told apart: a quote is not closed"
        raise SecretReferenceError(why, "Close it, as in ${cmd:pass show 'my token'}.") from None
    if not found or not found[0]:
        why = "${cmd:...} names no program"
        raise SecretReferenceError(why, f"Write {_EXAMPLES['cmd']}.")
    return CommandSecret(words)


def _keyring(text: str) -> KeyringSecret:
    # A service may be a URL, so the last slash counts.
    service, _, user = text.rpartition("/")
    if not service or not user:
        why = "${keyring:...} needs a service and a user"
        raise SecretReferenceError(why, f"Write {_EXAMPLES['keyring']}.")
    return KeyringSecret(service, user)


class SecretText(Struct, frozen=True):
    """A text whose variables are filled in and whose references are not; it may hold secrets."""

    parts: tuple[str | SecretReference, ...]

    def __repr__(self) -> str:
        return f"SecretText({self.shown!r})"

    @property
    def plain(self) -> str | None:
        """The text, if it has no references; else None."""
        texts = [part for part in self.parts if isinstance(part, str)]
        return "".join(texts) if len(texts) == len(self.parts) else None

    @property
    def references(self) -> tuple[SecretReference, ...]:
        return tuple(part for part in self.parts if not isinstance(part, str))

    @property
    def shown(self) -> str:
        """The references as written, and `…` for all else: that may be secret, too."""
        return "".join(
            HIDDEN if isinstance(part, str) else part.written for part in self.parts if part
        )

    @property
    def identity(self) -> list[tuple[str, ...]]:
        """What tells this text from others, for a digest: it holds no value of a reference."""
        return [("text", part) if isinstance(part, str) else part.identity for part in self.parts]
