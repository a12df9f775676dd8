"""Field types of the config (paths, secrets, URLs, templates, ...): validation and parsing."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Final, TypeAlias, assert_never, cast
from urllib.parse import urlsplit

from msgspec import Struct, field
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetPydanticSchema,
    SecretStr,
    StrictBool,
    StrictInt,
    StringConstraints,
    ValidationInfo,
)
from pydantic_core import core_schema

from hub.guard.policy import Access, DenyPatterns
from hub.launch.environments import without_hubs_own
from hub.launch.templates import (
    CommandSecret,
    FileSecret,
    KeyringSecret,
    SecretReference,
    SecretText,
    Template,
    literal,
    parse_template,
)
from hub.paths.file_uris import path_meant
from hub.protocol.http_headers import is_header_name, is_header_value
from hub.secrets.reading import SecretError, text_value


class LoadContext(Struct, frozen=True):
    """Directory, home and environment for reading a config. Relative paths start at `directory`.

    `digest`: only a file with this SHA-256 hash is read, the text that the user has trusted.
    `reads_secrets`: the hub serves with `listen`, so commands and the keyring are asked for the
    secrets there. `is_clients`: the config is another program's, which starts no commands.
    """

    directory: Path
    home: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    digest: str | None = None
    reads_secrets: bool = False
    is_clients: bool = False

    def __repr__(self) -> str:
        return f"LoadContext({self.directory!r})"


URL_PATH: Final = "^/[^?#]*$"
"""The pattern of a path in the hub's own URL."""
_UNREAD: Final = "\0"
"""What a secret begins with that was not read: no client can send this character."""


class FieldError(ValueError):
    """A value that does not fit. The text says why, `fix` what to do.

    `is_outside`: the file is as it should be, but not the environment variable that it names.
    """

    def __init__(self, why: str, fix: str, *, is_outside: bool = False) -> None:
        super().__init__(why)
        self.fix = fix
        self.is_outside = is_outside


def _context(info: ValidationInfo) -> LoadContext:
    return info.context if isinstance(info.context, LoadContext) else LoadContext(Path())


def _resolved(text: str, info: ValidationInfo) -> str:
    template = parse_template(text)
    if template.mentions_roots:
        raise FieldError("cannot depend on the roots", "Write a value without ${root}.")
    return template.fill(_context(info).environment.get, ())


def is_unread(secret: SecretStr) -> bool:
    """Return whether a secret has only its reference, because nothing needs its value here."""
    return secret.get_secret_value().startswith(_UNREAD)


def written_of(secret: SecretStr) -> str:
    """Return the reference of a secret that was not read, as it is written in the config."""
    return secret.get_secret_value().removeprefix(_UNREAD)


def _secret(value: object, info: ValidationInfo) -> object:
    if not isinstance(value, str):
        return value
    text, context = _header(value, info), _context(info)
    if not context.reads_secrets and any(
        not isinstance(one, FileSecret) for one in text.references
    ):
        return _UNREAD + text.shown
    try:
        return text_value(text, without_hubs_own(context.environment))
    except SecretError as error:
        raise FieldError(error.what, error.fix, is_outside=True) from None


def _header(text: str, info: ValidationInfo) -> SecretText:
    template = _referring(text, info)
    if template.mentions_roots:
        raise FieldError("cannot depend on the roots", "Write a value without ${root}.")
    filled = template.filled(_context(info).environment.get, ())
    if filled.plain == "":
        raise _empty(text)
    if filled.plain is not None and not is_header_value(filled.plain):
        what = "has a character that cannot be sent"
        raise FieldError(what, "Write it on one line.", is_outside="${" in text)
    return filled


def _env_value(text: str, info: ValidationInfo) -> Template:
    template = _referring(text, info)
    template.filled(_context(info).environment.get, ())
    return template


def files_in(text: str, context: LoadContext) -> list[str]:
    """Return the paths of the files that a valid text refers to."""
    found = (_located(one, context) for one in parse_template(text).references)
    return [one.path for one in found if isinstance(one, FileSecret)]


def _referring(text: str, info: ValidationInfo) -> Template:
    """Return a text that may refer to secrets; relative paths start at the config's directory."""
    context = _context(info)
    return Template(
        tuple(
            _located(part, context) if isinstance(part, SecretReference) else part
            for part in parse_template(text).parts
        )
    )


def _located(reference: SecretReference, context: LoadContext) -> SecretReference:
    match reference:
        case FileSecret(path):
            return FileSecret(str(context.directory / _below_home(path, context.home)))
        case CommandSecret(words):
            if context.is_clients:
                fix = "Put its output into a variable, or move the server to a hub.yaml."
                raise FieldError("${cmd:...} works in a hub.yaml alone", fix)
            return CommandSecret(words, str(context.directory))
        case KeyringSecret():
            return reference
        case _:
            assert_never(reference)


def _empty(written: str) -> FieldError:
    if "${" in written:
        fix = "Set the variable in it to a text that is not empty."
        return FieldError("is empty, as its variable is", fix, is_outside=True)
    return FieldError("is empty", "Write a text, or take the key out.")


def absolute_path(text: str, info: ValidationInfo) -> str:
    """Return a path as `PathText` has it: absolute, from the config's directory."""
    resolved = _resolved(text, info)
    if not resolved:
        raise _empty(text)
    if (meant := path_meant(resolved)) is not None:
        raise FieldError("must be a path, not a URI", f"Write {meant}.")
    context = _context(info)
    return str(context.directory / _below_home(resolved, context.home))


def _below_home(text: str, home: str | None) -> str:
    if not text.startswith("~"):
        return text
    if home is None or text[1:2] not in {"", "/", "\\"}:
        fix = "Write the directory in full."
        raise FieldError("only ~ and ~/... are understood", fix)
    return home + text[1:]


def _template(text: str, info: ValidationInfo) -> str:
    parse_template(text).fill(_context(info).environment.get, ())
    return text


def _argument(text: str, info: ValidationInfo) -> str:
    _check_hidden(text)
    parse_template(text, spread=True).elements(_context(info).environment.get, ())
    return text


def _check_hidden(text: str) -> None:
    """Check that a text of a command line refers to no secret."""
    if parse_template(text, spread=True).references:
        what = "all users of the machine see a process's arguments: no secret can be here"
        raise FieldError(what, "Put it into `env`.")


def _command(text: str, info: ValidationInfo) -> str:
    if not text.strip():
        raise FieldError("is empty", "Write the program that starts the server.")
    _check_hidden(text)
    # The client's roots choose the child's working directory, so they must not choose the command.
    return _placed(text, info) if {"/", "\\"} & set(text) else _template(text, info)


def _placed(text: str, info: ValidationInfo) -> str:
    _template(text, info)
    if text.startswith("${"):
        return text
    context = _context(info)
    if text.startswith("~"):
        return literal(context.home or "~") + _below_home(text, "~")[1:]
    return text if Path(text).is_absolute() else f"{literal(str(context.directory))}/{text}"


def web_address(text: str, info: ValidationInfo) -> str:
    """Return a URL of http or https, with the variables in it filled in."""
    if parse_template(text).references:
        what = "a URL is shown in logs and errors: no secret can be here"
        raise FieldError(what, "Put it into `headers`.")
    resolved = _resolved(text, info)
    if not resolved:
        raise _empty(text)
    try:
        parts = urlsplit(resolved)
        has_host = bool(parts.hostname) and parts.port != 0
    except ValueError as error:
        what = "has a port above 65535" if "out of range" in str(error) else "is no URL"
        raise FieldError(what, "Write host and port as in https://host:8080/mcp.") from None
    if parts.scheme not in {"http", "https"} or not has_host:
        raise FieldError(
            "must be an http:// or https:// URL", _full_address(text), is_outside="${" in text
        )
    return resolved


def _full_address(text: str) -> str:
    if found := re.fullmatch(r"(https?)[:/]+([\w.-]+(?::\d+)?(?:/[\w./-]*)?)", text):
        return f"Write {found[1]}://{found[2]}."
    if re.fullmatch(r"[\w.-]+(?::\d+)?(?:/[\w./-]*)?", text):
        is_near = text.startswith(("localhost", "127."))
        return f"Write {'http' if is_near else 'https'}://{text}."
    return "Write it in full, as in https://mcp.example.com/mcp."


def _patterns(lines: tuple[str, ...]) -> tuple[str, ...]:
    try:
        DenyPatterns(lines)
    except ValueError as error:
        raise FieldError(str(error), "Write patterns as in .gitignore.") from None
    return lines


def _absolute_pointer(text: str) -> str:
    if not text.startswith("/"):
        fix = f"Write /{text}: a JSON pointer, as in /edits/*/file."
        raise FieldError("must begin with /", fix)
    return text


def off_spelled_false(value: object) -> object:
    """Return `off` for false: YAML reads a bare `off` as false."""
    return "off" if value is False else value


def mode_alone(value: object) -> object:
    """Return a mapping with the key `mode` for a bare mode."""
    value = off_spelled_false(value)
    return {"mode": value} if isinstance(value, str | bool | int) else value


def path_alone(value: object) -> object:
    """Return a mapping with the key `path` for a bare path."""
    return {"path": value} if isinstance(value, str) else value


def inheritable(value: object) -> object:
    """Return a valid value of `environment`: a word, or a tuple of names and globs.

    Raises: FieldError with one message for all wrong values.
    """
    if isinstance(value, list | tuple):
        names = cast("Sequence[object]", value)
        if all(isinstance(name, str) and name and not {"=", "\0"} & set(name) for name in names):
            return tuple(names)
    elif isinstance(value, str) and value in {"default", "all", "minimal"}:
        return value
    what = "must be default, all, minimal, or a list of names and globs"
    if isinstance(value, dict):
        raise FieldError(what, "Write the variables into `env`.")
    if isinstance(value, str) and re.fullmatch(r"[A-Z][A-Z0-9_*]*", value):
        raise FieldError(what, f"Write `environment: [{value}]`.")
    raise FieldError(what, "Write one of these words, or a list such as [LANG, LC_*].")


class Part(BaseModel):
    """A mapping of the config: keys it does not know are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


def _made_from_text(kind: type, make: Callable[[str, ValidationInfo], object]) -> GetPydanticSchema:
    """Return the schema of a field that is a text in the file, and a `kind` after reading."""

    def validated(
        value: object, text: core_schema.ValidatorFunctionWrapHandler, info: ValidationInfo
    ) -> object:
        return value if isinstance(value, kind) else make(text(value), info)

    schema = core_schema.with_info_wrap_validator_function(
        validated,
        core_schema.str_schema(),
        serialization=core_schema.plain_serializer_function_ser_schema(lambda value: value),
    )
    return GetPydanticSchema(lambda _kind, _handler: schema)


def read_by(parse: Callable[[str], str | None], what: str, fix: str) -> AfterValidator:
    """Return the check of a text that `parse` reads; one that it makes None of does not fit."""

    def read(text: str) -> str:
        found = parse(text)
        if found is None:
            raise FieldError(what, fix)
        return found

    return AfterValidator(read)


def like(pattern: str) -> Callable[[str], str | None]:
    """Return what reads a text that matches a pattern, as it is."""
    return lambda text: text if re.fullmatch(pattern, text) else None


Flag: TypeAlias = StrictBool
Count: TypeAlias = Annotated[StrictInt, Field(ge=1)]
ResultBytes: TypeAlias = Annotated[StrictInt, Field(ge=1024)]
"""A limit that leaves room for the error text in place of a larger result."""
Port: TypeAlias = Annotated[StrictInt, Field(ge=0, le=65535)]
Seconds: TypeAlias = Annotated[float, Field(gt=0, allow_inf_nan=False, strict=True)]
SecondsOrZero: TypeAlias = Annotated[float, Field(ge=0, allow_inf_nan=False, strict=True)]
Name: TypeAlias = Annotated[str, StringConstraints(min_length=1, max_length=64)]
Variable: TypeAlias = Annotated[str, StringConstraints(pattern=r"^[^=\x00]+$")]
"""The name of an environment variable."""

EnvText: TypeAlias = Annotated[Template, _made_from_text(Template, _env_value)]
"""The value of a variable, as a template that may refer to secrets."""
HeaderName: TypeAlias = Annotated[
    Name,
    read_by(
        lambda text: text if is_header_name(text) else None,
        "is no name of a header",
        "Write one of letters, digits and hyphens, as in X-Api-Key.",
    ),
]
HeaderText: TypeAlias = Annotated[SecretText, _made_from_text(SecretText, _header)]
"""The value of a header: its variables are filled in, its secrets are read at each connection."""
Secret: TypeAlias = Annotated[SecretStr, BeforeValidator(_secret, json_schema_input_type=str)]
PathText: TypeAlias = Annotated[str, AfterValidator(absolute_path)]
"""Absolute after reading: `~` is the home directory, a relative path starts at the config file."""

WebAddress: TypeAlias = Annotated[str, AfterValidator(web_address)]
ArgumentText: TypeAlias = Annotated[str, AfterValidator(_argument)]
CommandText: TypeAlias = Annotated[str, AfterValidator(_command)]
PlaceText: TypeAlias = Annotated[str, AfterValidator(_placed)]
"""A directory, as a template that may have placeholders."""

Patterns: TypeAlias = Annotated[tuple[str, ...], AfterValidator(_patterns)]
Pointer: TypeAlias = Annotated[str, AfterValidator(_absolute_pointer)]


class AccessAt(Part):
    """What tools may do at and below a path."""

    path: PathText
    access: Access
