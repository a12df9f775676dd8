"""From references to secrets to their values. All here may block: call it in a thread."""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from hub.launch.secret_references import (
    CommandSecret,
    FileSecret,
    KeyringSecret,
    SecretReference,
    SecretText,
)
from hub.secrets.files import file_value
from hub.secrets.waiting import ReadingScope


def text_value(
    text: SecretText, environment: Mapping[str, str], scope: ReadingScope | None = None
) -> str:
    """Return a text with its secrets. Commands in it get `environment`.

    Raises: SecretError.
    """
    until = scope or ReadingScope()
    return "".join(
        part if isinstance(part, str) else _value(part, environment, until) for part in text.parts
    )


def _value(reference: SecretReference, environment: Mapping[str, str], scope: ReadingScope) -> str:
    match reference:
        case FileSecret(path):
            return file_value(path)
        case CommandSecret(_, directory):
            from hub.secrets.commands import command_value  # noqa: PLC0415 - seldom needed

            return command_value(
                reference.argv, directory=directory, environment=environment, scope=scope
            )
        case KeyringSecret(service, user):
            from hub.secrets.keyrings import keyring_value  # noqa: PLC0415 - seldom needed

            return keyring_value(service, user, scope)
        case _:
            assert_never(reference)
