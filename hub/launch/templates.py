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

A secret is not read here (`hub.secrets` does that at each launch), and only a text that may have
references (`filled`) can be filled then.
"""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias, assert_never

from msgspec import Struct

INPUT: Final = "HUB_INPUT_"
"""How the names of variables begin that hold what an editor would ask for: `${input:NAME}`."""

_PLACEHOLDER: Final = re.compile(r"(?P<escaped>\$\$\{)|\$\{(?P<body>[^{}]*)\}|(?P<open>\$\{)")
_INPUT: Final = re.compile(r"input:(?P<id>[^:{}]+)(?::-(?P<default>.*))?", re.DOTALL)
_THEIRS: Final = re.compile(r"env[:.](\w+)")
_ENV: Final = "env:"
_MEANT: Final = ("roots", "root")
_HIDDEN: Final = "…"
"""Stands for what of a text may be a secret and is no reference."""
_ALL_KINDS: Final = (
    "Write a variable as ${NAME}, or a secret as ${file:PATH}, ${cmd:COMMAND} or "
    "${keyring:SERVICE/USER}; $${ is a literal ${."
)
_EXAMPLES: Final = {
    "file": "${file:~/.config/token}",
    "cmd": "${cmd:pass show github/token}",
    "keyring": "${keyring:SERVICE/USER}",
}
"""Each kind of reference to a secret."""
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


class FileSecret(Struct, frozen=True):
    """`${file:PATH}`: the content of a file."""

    path: str

    @property
    def written(self) -> str:
        return f"${{file:{self.path}}}"

    @property
    def digested(self) -> tuple[str, ...]:
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
    def digested(self) -> tuple[str, ...]:
        return "cmd", self.words, self.directory


class KeyringSecret(Struct, frozen=True):
    """`${keyring:SERVICE/USER}`: a password in the user's keyring."""

    service: str
    user: str

    @property
    def written(self) -> str:
        return f"${{keyring:{self.service}/{self.user}}}"

    @property
    def digested(self) -> tuple[str, ...]:
        return "keyring", self.service, self.user


SecretReference: TypeAlias = FileSecret | CommandSecret | KeyringSecret


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
            _HIDDEN if isinstance(part, str) else part.written for part in self.parts if part
        )

    @property
    def digested(self) -> list[tuple[str, ...]]:
        """What is digested to tell this text from others: it holds no value of a reference."""
        return [("text", part) if isinstance(part, str) else part.digested for part in self.parts]


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
        """Return the argv elements: one, except for `${roots}`. Raises: TemplateError."""
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
    return _reference_in(body) or _variable(body)


def _variable(body: str) -> EnvironmentVariable:
    if asked := _INPUT.fullmatch(body):
        return EnvironmentVariable(input_variable(asked["id"]), asked["default"])
    variable = _VARIABLE.fullmatch(body.removeprefix(_ENV))
    if variable is None or body.partition(":")[0] in _MEANT:
        raise TemplateError(f"unknown placeholder ${{{body}}}", _known_placeholder(body))
    return EnvironmentVariable(variable["name"], variable["default"])


def _reference_in(body: str) -> SecretReference | None:
    """Return the reference in the body of a placeholder, `file:PATH`; None if it is no reference.

    Raises: TemplateError.
    """
    kind, colon, rest = body.partition(":")
    if not colon or kind not in _EXAMPLES:
        return None
    if not rest.strip():
        why = f"${{{kind}:}} names nothing"
        raise TemplateError(why, f"Write {_EXAMPLES[kind]}.")
    if kind == "file":
        return FileSecret(rest)
    return _command(rest) if kind == "cmd" else _keyring(rest)


def _command(words: str) -> CommandSecret:
    try:
        found = shlex.split(words)
    except ValueError:
        why = "the words of ${cmd:...} cannot be told apart: a quote is not closed"
        raise TemplateError(why, "Close it, as in ${cmd:pass show 'my token'}.") from None
    if not found or not found[0]:
        why = "${cmd:...} names no program"
        raise TemplateError(why, f"Write {_EXAMPLES['cmd']}.")
    return CommandSecret(words)


def _keyring(text: str) -> KeyringSecret:
    # A service may be a URL, so the last slash counts.
    service, _, user = text.rpartition("/")
    if not service or not user:
        why = "${keyring:...} needs a service and a user"
        raise TemplateError(why, f"Write {_EXAMPLES['keyring']}.")
    return KeyringSecret(service, user)


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
        near = difflib.get_close_matches(kind.lower(), _EXAMPLES, n=1, cutoff=0.7)
        return f"Write {_EXAMPLES[near[0]]}." if near else _ALL_KINDS
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
