"""Texts with placeholders, parsed once. Values are not searched for further placeholders.

${roots}          as a whole argument: one argv element per root, none if there are no roots
${root}           the first root; `.` if there are no roots
${roots:,}        all roots, joined by the text after the colon
${NAME}           an environment variable
${NAME:-default}  the same, or `default` if it is unset or empty
${env:NAME}       the same as ${NAME}, also with a default
${input:NAME}     the variable HUB_INPUT_NAME: what an editor would ask its user for
${file:PATH}      a secret in a file; likewise ${cmd:COMMAND} and ${keyring:SERVICE/USER}
$${               a literal ${

A secret is not read here, and only a text that may have references (`filled`) can be filled then.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias, assert_never

from msgspec import Struct

from hub.launch.secret_references import (
    SecretReference,
    SecretReferenceError,
    SecretText,
    likely_kind,
    reference_in,
)

INPUT: Final = "HUB_INPUT_"
"""How the names of variables begin that hold what an editor would ask for: `${input:NAME}`."""

_PLACEHOLDER: Final = re.compile(r"(?P<escaped>\$\$\{)|\$\{(?P<body>[^{}]*)\}|(?P<open>\$\{)")
_INPUT: Final = re.compile(r"input:(?P<id>[^:{}]+)(?::-(?P<default>.*))?", re.DOTALL)
_THEIRS: Final = re.compile(r"env[:.](\w+)")
_ENV: Final = "env:"
_MEANT: Final = ("roots", "root")
_ALL_KINDS: Final = (
    "Write a variable as ${NAME}, or a secret as ${file:PATH}, ${cmd:COMMAND} or "
    "${keyring:SERVICE/USER}; $${ is a literal ${."
)
_EDITORS: Final = frozenset({"workspaceFolder", "workspaceRoot"})
"""What editors call the first root."""
_VARIABLE: Final = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>.*))?", re.DOTALL)

Lookup: TypeAlias = Callable[[str], str | None]
"""Returns the value of a variable, or None if it is not set: `environment.get`."""


class TemplateError(ValueError):
    """A template cannot be parsed or filled. The text says why, `fix` what to do.

    `variable` is the environment variable that is not set; None if that is not the reason.
    """

    def __init__(
        self, why: str, fix: str = "Write $${ for a literal ${.", *, variable: str | None = None
    ) -> None:
        super().__init__(why)
        self.fix = fix
        self.variable = variable


class EnvironmentVariable(Struct, frozen=True):
    """`${name}` or `${name:-default}`."""

    name: str
    default: str | None


class EachRoot(Struct, frozen=True):
    """`${roots}`: as many argv elements as there are roots."""


class FirstRoot(Struct, frozen=True):
    """`${root}`."""


class JoinedRoots(Struct, frozen=True):
    """`${roots:SEPARATOR}`."""

    separator: str


TemplatePart: TypeAlias = (
    str | EnvironmentVariable | EachRoot | FirstRoot | JoinedRoots | SecretReference
)


class Template(Struct, frozen=True):
    """A parsed text: literal texts and placeholders, in order."""

    parts: tuple[TemplatePart, ...]

    @property
    def mentions_roots(self) -> bool:
        """Whether the text has a placeholder for roots."""
        return any(isinstance(part, EachRoot | FirstRoot | JoinedRoots) for part in self.parts)

    @property
    def mentions_first_root(self) -> bool:
        return FirstRoot() in self.parts

    @property
    def spreads(self) -> bool:
        """Whether this is `${roots}`, which becomes one argv element per root."""
        return self.parts == (EachRoot(),)

    @property
    def references(self) -> tuple[SecretReference, ...]:
        """The secrets that the text refers to."""
        return tuple(part for part in self.parts if isinstance(part, SecretReference))

    def fill(self, lookup: Lookup, roots: Sequence[str]) -> str:
        """Return the text with every placeholder replaced.

        Raises:
            TemplateError: a variable without a default is not set, or the text refers to a secret.
        """
        filled = self.filled(lookup, roots).plain
        if filled is None:
            places = "a server's `env` and `headers`, in `listen.token` and `listen.keys`"
            raise TemplateError("no secret can be here", f"Secrets can be in {places}.")
        return filled

    def filled(self, lookup: Lookup, roots: Sequence[str]) -> SecretText:
        """Return the text with every placeholder replaced but its references to secrets.

        Raises:
            TemplateError: a variable without a default is not set.
        """
        return SecretText(
            tuple(
                part if isinstance(part, SecretReference) else _filled(part, lookup, roots)
                for part in self.parts
            )
        )

    def elements(self, lookup: Lookup, roots: Sequence[str]) -> tuple[str, ...]:
        """Return the argv elements for this template: one, except for `${roots}`.

        Raises:
            TemplateError: as `fill`.
        """
        return tuple(roots) if self.spreads else (self.fill(lookup, roots),)


def parse_template(text: str, *, spread: bool = False) -> Template:
    """Return `text` as a template. With `spread`, the whole text may be `${roots}`.

    Raises:
        TemplateError: an unknown or unclosed placeholder, or `${roots}` where it is not allowed.
    """
    if "\0" in text:
        raise TemplateError("contains a NUL character", "Take it out.")
    parts: list[TemplatePart] = []
    end = 0
    for found in _PLACEHOLDER.finditer(text):
        parts += (text[end : found.start()], _part(found))
        end = found.end()
    template = Template(tuple(part for part in (*parts, text[end:]) if part != ""))
    if EachRoot() in template.parts and not (spread and template.spreads):
        raise TemplateError(
            "${roots} must be an argument of its own",
            "Write ${roots:,} for all roots in one text, or ${root} for the first.",
        )
    return template


def literal(text: str) -> str:
    """Return `text` escaped, so that `parse_template` finds no placeholder in it."""
    return text.replace("${", "$${")


def _part(found: re.Match[str]) -> TemplatePart:
    if found["escaped"]:
        return "${"
    body = found["body"]
    if found["open"] or body is None:
        why = "a placeholder is not closed, or contains another"
        raise TemplateError(why, "Close it with }; $${ is a literal ${.")
    if body == "roots":
        return EachRoot()
    if body == "root":
        return FirstRoot()
    if body.startswith("roots:") and body[6:7] not in {"", "-"}:
        return JoinedRoots(body.removeprefix("roots:"))
    return _reference(body) or _variable(body)


def _variable(body: str) -> EnvironmentVariable:
    if asked := _INPUT.fullmatch(body):
        return EnvironmentVariable(input_variable(asked["id"]), asked["default"])
    variable = _VARIABLE.fullmatch(body.removeprefix(_ENV))
    if variable is None or body.partition(":")[0] in _MEANT:
        raise TemplateError(f"unknown placeholder ${{{body}}}", _known_placeholder(body))
    return EnvironmentVariable(variable["name"], variable["default"])


def _reference(body: str) -> SecretReference | None:
    try:
        return reference_in(body)
    except SecretReferenceError as error:
        raise TemplateError(str(error), error.fix) from None


def input_variable(id_: str) -> str:
    """Return the name of the variable that has the value of `${input:id_}`."""
    return INPUT + re.sub(r"\W", "_", id_, flags=re.ASCII).upper()


def _known_placeholder(body: str) -> str:
    theirs = _THEIRS.match(body)
    if theirs:
        return f"Write ${{{theirs[1]}}}."
    kind, colon, _ = body.partition(":")
    if kind in _MEANT:
        return "Write ${roots}, ${root} or ${roots:,}."
    if kind == "input":
        return "Write ${input:NAME}."
    if colon and not body.startswith(_ENV):
        meant = likely_kind(kind)
        return f"Write {meant}." if meant else _ALL_KINDS
    if re.fullmatch(r"\s*[A-Za-z_]\w*\s*", body):
        return f"Write ${{{body.strip()}}}, without spaces."
    return "Write ${NAME}; $${ is a literal ${."


def _filled(
    part: str | EnvironmentVariable | EachRoot | FirstRoot | JoinedRoots,
    lookup: Lookup,
    roots: Sequence[str],
) -> str:
    match part:
        case str():
            return part
        case EnvironmentVariable(name, default):
            return _value(name, default, lookup)
        case FirstRoot():
            return roots[0] if roots else "."
        case JoinedRoots(separator):
            return separator.join(roots)
        case EachRoot():
            raise TemplateError("${roots} becomes several arguments and cannot be part of one")
        case _:
            assert_never(part)


def _value(name: str, default: str | None, lookup: Lookup) -> str:
    value = lookup(name)
    if default is not None:
        return value or default
    if value is None:
        raise _unset(name)
    return value


def _unset(name: str) -> TemplateError:
    if name.startswith(INPUT):
        fix = f"Set {name} for the hub. `roots-hub check` asks for it on a terminal."
        return TemplateError(f"the input {name} has no value", fix, variable=name)
    why = f"the variable {name} is not set"
    meant = difflib.get_close_matches(name, _MEANT, n=1, cutoff=0.7)
    if name in _EDITORS or meant:  # a misspelt placeholder, no variable
        fix = f"Write ${{{meant[0] if meant else 'root'}}}, or set the variable."
        return TemplateError(why, fix)
    fix = f"Set it for the hub, or give it a default: ${{{name}:-default}}."
    return TemplateError(why, fix, variable=name)
