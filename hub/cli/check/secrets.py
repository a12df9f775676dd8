"""What is wrong with the secrets of a config's servers, as far as it shows offline."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence

from hub.cli.terminal import Finding
from hub.config.models import HubConfig
from hub.launch.templates import CommandSecret, FileSecret, KeyringSecret, SecretReference
from hub.secrets.reading import (
    SecretError,
    file_value,
    is_installed,
    not_installed,
    open_to_others,
    program_path,
)
from hub.specs import RemoteTarget, ServerSpec


def secret_problems(config: HubConfig, specs: Sequence[ServerSpec]) -> Iterator[Finding]:
    """Yield why secrets of servers cannot be read."""
    for spec in specs:
        for where, reference in _references(config, spec):
            if (error := _why_unreadable(reference)) is not None:
                yield Finding("problem", "secrets", where, error.what, error.fix)
        if _wants_keyring(spec) and not is_installed():
            where, error = f"servers.{spec.name}.auth.keep", not_installed()
            yield Finding("problem", "secrets", where, error.what, error.fix)


def _why_unreadable(reference: SecretReference) -> SecretError | None:
    if isinstance(reference, KeyringSecret) and not is_installed():
        return not_installed()
    if isinstance(reference, FileSecret):
        try:
            file_value(reference.path)
        except SecretError as error:
            return error
    return None


def _wants_keyring(spec: ServerSpec) -> bool:
    login = spec.target.login if isinstance(spec.target, RemoteTarget) else None
    return login is not None and login.in_keyring


def secret_warnings(config: HubConfig, specs: Sequence[ServerSpec]) -> Iterator[Finding]:
    """Yield what the operator should know of secrets: who else can read them, what is missing."""
    told = set[str]()
    for spec in specs:
        for where, reference in _references(config, spec):
            if isinstance(reference, FileSecret):
                sentence = open_to_others(reference.path)
                if sentence is not None and sentence not in told:
                    told.add(sentence)
                    yield Finding("warning", "secrets", where, sentence)
            elif isinstance(reference, CommandSecret):
                program = program_path(reference.argv[0], reference.directory)
                if shutil.which(program, path=spec.for_commands.get("PATH")) is None:
                    what, fix = f"there is no program {program!r}", "Install it, or write its path."
                    yield Finding("warning", "secrets", where, what, fix)


def _references(config: HubConfig, spec: ServerSpec) -> Iterator[tuple[str, SecretReference]]:
    """Yield each reference to a secret with its place in the config."""
    for key, text in config.servers[spec.name].secret_texts.items():
        for reference in text.references:
            yield f"servers.{spec.name}.{key}", reference
