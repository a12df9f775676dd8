"""Put variables of the environment in the place of the secrets in a server's entry."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import chain, count
from typing import Any, Final, cast
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from hub.config.source.places import Path as Place
from hub.launch.environments import is_named_like_a_secret, is_withheld
from hub.launch.templates import EnvironmentVariable, TemplateError, input_variable, parse_template

_PLACEHOLDER: Final = re.compile(r"\$?\$\{(?P<body>[^{}]*)\}")
"""What the hub fills in, or with a second `$` the server: no secret itself."""
_INPUT: Final = "input:"
"""How a placeholder begins that an editor would ask its user for."""
_KNOWN: Final = re.compile(
    r"\b(?:gh[a-z]_|github_pat_|glpat-|xox[a-z]-|xapp-|AKIA|AIza|npm_|hf_|ntn_|secret_|lin_api_"
    r"|sk-|sk_|pk_|rk_|pat[-_]|dop_v1_|sbp_|tvly-|fc-|pplx-|r8_|figd_)[A-Za-z0-9_-]{8,}"
    r"|\beyJ[\w-]{8,}\.[\w-]+|\b(?:Bearer|Basic|token)\s+[^\s$]{6,}"
)
"""How the keys of well-known services begin."""
_WORD: Final = re.compile(r"[\w-]{16,}", re.ASCII)
_LOWER, _UPPER, _DIGIT = (re.compile(one) for one in ("[a-z]", "[A-Z]", "[0-9]"))
_MIXED: Final = 20
"""Characters of a word that is likely a secret if it has letters of both cases and digits."""
_DIGITS: Final = re.compile(
    r"(?<![0-9A-Za-z])(?:[0-9a-fA-F]{32,}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?![0-9A-Za-z])"
)
_HARMLESS: Final = frozenset(
    {"accept", "content-type", "user-agent", "mcp-protocol-version", "accept-language", "origin"}
)
_LOGINS: Final = frozenset({"authorization", "proxy-authorization", "cookie", "x-auth"})
_SCHEME: Final = re.compile(r"((?:Bearer|Basic|Token|ApiKey|token)\s+)?(.*)", re.DOTALL)
_FLAG: Final = re.compile(r"--?[A-Za-z][\w-]*")
_ASSIGNED: Final = re.compile(r"(?P<name>(?:--?)?[A-Za-z_][\w.-]*)=(?P<value>.+)", re.DOTALL)
_HEADER: Final = re.compile(r"(?P<name>[A-Za-z][\w-]*):(?P<space>\s*)(?P<value>\S.*)", re.DOTALL)


_TOKEN: Final = 20
"""Characters of a name in a URL that is rather a token."""
_ALWAYS_SET: Final = frozenset({"HOME", "PATH", "PWD", "USER"})
"""Variables that nobody has to set."""


class NeededVariable(Struct, frozen=True):
    """A variable that a server needs.

    If it stands for a secret: its `value`, and its `path` in the entry, both as the hub has them.
    """

    name: str
    server: str
    path: Place = ()
    value: str | None = None
    where: str = ""


class SecretVariables:
    """Gives each secret a variable of its own: no two values, and none of the environment's."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._values: dict[str, str] = {}

    def named(self, wanted: str, server: str, value: str) -> str:
        """Return the name of the variable for a value: `wanted`, if no other value has it."""
        base = re.sub(r"\W+", "_", wanted, flags=re.ASCII).strip("_").upper() or "SECRET"
        prefix = re.sub(r"\W+", "_", server, flags=re.ASCII).strip("_").upper()
        base = base.removeprefix(f"{prefix}_") if base.startswith(f"{prefix}_{prefix}_") else base
        longer = base if base.startswith(f"{prefix}_") else f"{prefix}_{base}"
        longer = longer.lstrip("0123456789_") or "SECRET"
        names = (longer if number == 1 else f"{longer}_{number}" for number in count(1))
        if not base[0].isdigit() and base != "SECRET":
            names = chain([base], names)
        name = next(
            one
            for one in names
            if self._values.get(one, self._environment.get(one, value)) == value
        )
        self._values[name] = value
        return name

    def is_set(self, name: str) -> bool:
        """Return whether the environment has a variable."""
        return name in self._environment


def looks_secret(value: str, name: str = "") -> bool:
    """Return whether a value is likely a secret, by its name or by how it looks."""
    bare = _PLACEHOLDER.sub("", value)
    if not bare.strip():
        return _has_default(value)
    if is_withheld(name or "X", bare) or _KNOWN.search(bare) or _DIGITS.search(bare):
        return True
    return _is_mixed(bare)


def _is_mixed(text: str) -> bool:
    """Return whether a long word in a text has letters of both cases and digits."""
    words = (word for word in _WORD.findall(text) if len(word) >= _MIXED)
    return any(_LOWER.search(one) and _UPPER.search(one) and _DIGIT.search(one) for one in words)


def _is_random(text: str) -> bool:
    """Return whether a long word in a text has letters and digits."""
    words = _WORD.findall(text)
    return any((_LOWER.search(one) or _UPPER.search(one)) and _DIGIT.search(one) for one in words)


def _is_certain(value: str) -> bool:
    """Return whether a value is a secret even if it is a path or a URL."""
    bare = _PLACEHOLDER.sub("", value)
    return is_withheld("X", bare) or _KNOWN.search(bare) is not None


def _has_default(value: str) -> bool:
    """Return whether a default in a placeholder looks secret: `${KEY:-sk-...}`."""
    defaults = (found["body"].partition(":-")[2] for found in _PLACEHOLDER.finditer(value))
    return any(default and looks_secret(default) for default in defaults)


def hidden(
    name: str, server: Mapping[str, Any], variables: SecretVariables
) -> tuple[dict[str, Any], list[NeededVariable]]:
    """Return a server, in the hub's shape, with variables for its secrets, and those variables."""
    return _Hiding(name, variables).server(server)


def variables_of(name: str, server: Mapping[str, Any]) -> list[NeededVariable]:
    """Return the variables to set, without a default, that a server's own placeholders name."""
    found: dict[str, NeededVariable] = {}
    texts = [str(server.get("command", "")), str(server.get("url", "")), str(server.get("cwd", ""))]
    texts += map(str, cast("list[Any]", server.get("args", [])))
    for key in ("env", "headers"):
        texts += map(str, cast("dict[str, Any]", server.get(key, {})).values())
    for text in texts:
        try:
            parts = parse_template(text, spread=True).parts
        except TemplateError:
            continue
        for part in parts:
            if isinstance(part, EnvironmentVariable) and part.default is None:
                found[part.name] = NeededVariable(part.name, name)
    return [need for name, need in found.items() if name not in _ALWAYS_SET]


class _Hiding:
    """Hides the secrets of one server."""

    def __init__(self, name: str, variables: SecretVariables) -> None:
        self._name = name
        self._variables = variables
        self._needed: list[NeededVariable] = []

    def server(self, server: Mapping[str, Any]) -> tuple[dict[str, Any], list[NeededVariable]]:
        made = {key: self._without_defaults(one, (key,)) for key, one in server.items()}
        if isinstance(made.get("env"), dict):
            made["env"] = {key: self._env(key, one) for key, one in made["env"].items()}
        if isinstance(made.get("headers"), dict):
            headers = made["headers"].items()
            made["headers"] = {
                key: self._header(key, one, ("headers", key)) for key, one in headers
            }
        if isinstance(made.get("args"), list):
            made["args"] = self._args([str(one) for one in made["args"]])
        if isinstance(made.get("url"), str):
            made["url"] = self._url(made["url"])
        return made, self._needed

    def _without_defaults(self, value: Any, at: Place) -> Any:
        """Return a value without the defaults of placeholders that are secrets."""
        if isinstance(value, dict):
            members = cast("dict[str, Any]", value).items()
            return {key: self._without_defaults(one, (*at, key)) for key, one in members}
        if isinstance(value, list):
            items = enumerate(cast("list[Any]", value))
            return [self._without_defaults(one, (*at, index)) for index, one in items]
        if not isinstance(value, str):
            return value

        def without(found: re.Match[str]) -> str:
            name, _, default = found["body"].partition(":-")
            if not default or not looks_secret(default, name):
                return found[0]
            if name.startswith(_INPUT):
                name = input_variable(name.removeprefix(_INPUT))
            is_set = self._variables.is_set(name)
            return f"${{{name}}}" if is_set else self._put(name, default, at)

        return _PLACEHOLDER.sub(without, value)

    def _env(self, name: str, value: object) -> object:
        is_text = isinstance(value, str) and bool(_rest(value))
        if not is_text or not looks_secret(str(value), name):
            return value
        return self._put(name, str(value), ("env", name))

    def _header(self, name: str, value: object, at: Place) -> object:
        low = name.casefold()
        if not isinstance(value, str) or low in _HARMLESS or not _rest(value):
            return value
        is_login = low in _LOGINS or looks_secret(value, name.replace("-", "_"))
        if not is_login and not _is_random(_PLACEHOLDER.sub("", value)):
            return value
        found = cast("re.Match[str]", _SCHEME.fullmatch(value))
        if found[2].startswith("${") and not _rest(found[2]):
            return value
        wanted = "TOKEN" if low in _LOGINS else name
        return (found[1] or "") + self._put(f"{self._name}_{wanted}", found[2], at)

    def _args(self, args: list[str]) -> list[str]:
        made: list[str] = []
        for index, value in enumerate(args):
            before = args[index - 1] if index else ""
            made.append(self._argument(value, before, ("args", index)))
        return made

    def _argument(self, value: str, before: str, at: Place) -> str:
        flag = before.lstrip("-").replace("-", "_") if _FLAG.fullmatch(before) else ""
        if not _rest(value):
            return value
        if flag and not value.startswith("-") and is_named_like_a_secret(flag):
            return self._put(f"{self._name}_{flag}", value, at)
        if found := _ASSIGNED.fullmatch(value):
            return self._assigned(found, at)
        made = self._with_header(value, at)
        if made == value and value.startswith("http"):
            made = self._url(value, at)
        # A path or a package: its long names with digits are no secrets.
        is_path = value.startswith(("~", "@", "-")) or "/" in value
        is_secret = _is_certain(value) or (looks_secret(value) and not is_path)
        if made == value and is_secret:
            return self._put(f"{self._name}_secret", value, at)
        return made

    def _with_header(self, value: str, at: Place) -> str:
        """Return `Name: value` with a variable for the value, if it is secret."""
        found = _HEADER.fullmatch(value)
        if found is None or found["value"].startswith(("/", "\\")):
            return value
        return f"{found['name']}:{found['space']}{self._header(found['name'], found['value'], at)}"

    def _assigned(self, found: re.Match[str], at: Place) -> str:
        """Return `NAME=value` or `--name=value` with a variable for the value, if it is secret."""
        name = found["name"].lstrip("-").replace("-", "_").replace(".", "_")
        if not _rest(found["value"]) or not looks_secret(found["value"], name):
            return found[0]
        wanted = name if name.isupper() else f"{self._name}_{name}"
        return f"{found['name']}={self._put(wanted, found['value'], at)}"

    def _url(self, url: str, at: Place = ("url",)) -> str:
        """Return a URL with variables for its password, and for keys in its query and path."""
        try:
            parts = urlsplit(url)
        except ValueError:
            return url
        if parts.password and _rest(parts.password):
            url = self._put_in(url, f":{parts.password}@", parts.password, "password", at)
        elif not parts.password and len(_rest(parts.username or "")) >= _TOKEN:
            url = self._put_in(url, f"//{parts.username}@", str(parts.username), "token", at)
        for pair in parts.query.split("&"):
            name, _, written = pair.partition("=")
            value = unquote(written)
            if _rest(value) and looks_secret(value, unquote(name).replace("-", "_")):
                url = self._put_in(url, pair, written, name, at)
        for part in parts.path.split("/"):
            if part and (_KNOWN.search(part) or _is_mixed(part) or _DIGITS.search(part)):
                url = self._put_in(url, f"/{part}", part, "url_key", at)
        return url

    def _put_in(self, url: str, around: str, secret: str, wanted: str, at: Place) -> str:
        """Return a URL with a variable for a secret in it, which is found by what is around it."""
        variable = self._put(f"{self._name}_{wanted}", secret, at)
        before, _, after = around.rpartition(secret)
        return url.replace(around, f"{before}{variable}{after}", 1)

    def _put(self, wanted: str, value: str, at: Place) -> str:
        variable = self._variables.named(wanted, self._name, value)
        self._needed.append(NeededVariable(variable, self._name, at, value))
        return f"${{{variable}}}"


def _rest(value: str) -> str:
    """Return what of a value is no placeholder."""
    return _PLACEHOLDER.sub("", value).strip()
