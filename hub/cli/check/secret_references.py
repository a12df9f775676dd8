"""What `check` finds wrong with the secrets that servers refer to. Nothing is run."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence

from msgspec import Struct

from hub.launch.plan import LaunchTemplate
from hub.launch.secret_references import CommandSecret, FileSecret, KeyringSecret, SecretReference
from hub.secrets.commands import program_path
from hub.secrets.files import file_value, open_to_others
from hub.secrets.keyrings import is_installed, not_installed
from hub.secrets.values import SecretError
from hub.specs import RemoteTarget, ServerSpec


class SecretFindings(Struct, frozen=True):
    """What stops servers from starting, and what the operator should know."""

    problems: tuple[str, ...]
    warnings: tuple[str, ...]


def secret_findings(specs: Sequence[ServerSpec]) -> SecretFindings:
    """Return what is wrong with the secrets of servers, as far as it shows offline."""
    named = [found for spec in specs for found in _references(spec)]
    problems = [
        f"{where}: {error.what}. {error.fix}"
        for where, reference in named
        if (error := _problem(reference)) is not None
    ]
    problems += [_unkept(spec) for spec in specs if _wants_keyring(spec) and not is_installed()]
    open_files = {
        sentence: where
        for where, reference in reversed(named)
        if isinstance(reference, FileSecret)
        and (sentence := open_to_others(reference.path)) is not None
    }
    warnings = [f"{where}: {sentence}" for sentence, where in reversed(open_files.items())]
    for spec in specs:
        warnings += _missing_programs(spec)
    return SecretFindings(tuple(problems), tuple(warnings))


def _references(spec: ServerSpec) -> Iterator[tuple[str, SecretReference]]:
    """Yield each reference to a secret with its place in the config."""
    if isinstance(spec.target, LaunchTemplate):
        found = [(f"env.{name}", text.references) for name, text in spec.target.env]
    else:
        found = [(f"headers.{key}", text.references) for key, text in spec.target.secrets.items()]
    for key, references in found:
        for reference in references:
            yield f"servers.{spec.name}.{key}", reference


def _problem(reference: SecretReference) -> SecretError | None:
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


def _unkept(spec: ServerSpec) -> str:
    error = not_installed()
    return f"servers.{spec.name}.auth.keep: {error.what}. {error.fix}"


def _missing_programs(spec: ServerSpec) -> Iterator[str]:
    for where, reference in _references(spec):
        if isinstance(reference, CommandSecret):
            program = program_path(reference.argv[0], reference.directory)
            if shutil.which(program, path=spec.for_commands.get("PATH")) is None:
                yield f"{where}: there is no program {program!r}: install it, or write its path"
