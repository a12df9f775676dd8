"""Choose the environment variables that a child inherits; by default none that look secret.

The variables in a server's own `env` are added to these later.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from fnmatch import fnmatchcase
from itertools import chain
from typing import Final, Literal, TypeAlias

from hub.launch.stable_variables import PER_TERMINAL, STABLE, WINDOWS
from hub.paths.resolve import Flavour

Inherits: TypeAlias = Literal["default", "all", "minimal"] | tuple[str, ...]
"""The key `environment` of a server. A tuple: names and globs in addition to `minimal`."""

OWN: Final = "HUB_"
"""Prefix of the names of the hub's own variables."""
_NOBODYS: Final = frozenset({"HUB_TOKEN", "HUB_ROOTS", "HUB_CONFIG", "HUB_STARTED_BY"})
"""Variables for the hub alone."""

_MINIMAL: Final = {
    Flavour.POSIX: ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER"),
    Flavour.MACOS: ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER"),
    Flavour.WINDOWS: (
        *("APPDATA", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATH", "PATHEXT", "SYSTEMDRIVE"),
        *("PROCESSOR_ARCHITECTURE", "SYSTEMROOT", "TEMP", "USERNAME", "USERPROFILE"),
    ),
}
"""The variables that the MCP SDKs pass to a server."""

_WORDS: Final = frozenset(
    {
        *("auth", "bearer", "cookie", "cookies", "cred", "creds", "dsn", "jwt", "key", "keys"),
        *("mnemonic", "otp", "pass", "passcode", "pat", "pin", "psk", "pwd", "signature", "totp"),
        *("webhook", "webhooks"),
    }
)
_ENDINGS: Final = (
    *("token", "tokens", "secret", "secrets", "password", "passwords", "passwd", "passphrase"),
    *("credential", "credentials", "apikey", "apikeys", "accesskey", "authkey", "licensekey"),
    *("privatekey", "secretkey", "signingkey", "sshpass", "userpass"),
)
"""Endings of words that are often joined to others: `PGPASSWORD`, `ACCESSTOKEN`."""
_COUNTED: Final = frozenset({"max", "min", "limit", "count", "budget", "length"})
"""With one of these words, `token` means a piece of text: `MAX_TOKENS`."""
_OPEN_KEYS: Final = frozenset({"public", "host", "primary", "foreign"})
"""Words before `key` that show it is not secret: `PUBLIC_KEY_PATH`."""
_HARMLESS: Final = frozenset(
    {
        *("PWD", "OLDPWD"),  # the shell's working directories
        "SSH_AUTH_SOCK",  # path of the agent's socket: not secret, and git needs it
        "PASSWORD_STORE_DIR",
    }
)
_WORD: Final = re.compile(r"[A-Z]+[0-9]*(?![a-z])|[A-Z]?[a-z]+[0-9]*|[^\W\d_A-Za-z]+")

_PROXIES: Final = re.compile(r"(?:https?|ftp|all|no|npm_config_https?|npm_config)_?proxy", re.I)
"""Proxy variables. They may hold a password, but without them a server has no network."""
_LOGIN: Final = re.compile(
    r"https?://[^\s/@?#]*:[^\s/@?#]+@|(?!https?:)\b[a-z][a-z0-9+.-]*://[^\s@\"']*:[^\s@\"']+@"
    r"|://[^\s/@?#:]{20,}@",
    re.I,
)
_ASSIGNED: Final = re.compile(r"(?:^|[\s;?&\"'])([\w.-]+)=[^\s;&]")
_PRIVATE_KEY: Final = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----")
_NAME: Final = re.compile(r"(?<![A-Za-z0-9_])[A-Za-z_][A-Za-z0-9_]*")
_REFERENCE: Final = re.compile(
    r"\$(?:env:)?([A-Za-z_][A-Za-z0-9_]*)|\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)|%([A-Za-z_][A-Za-z0-9_]*)%"
)


def inherited(environment: Mapping[str, str], choice: Inherits, flavour: Flavour) -> dict[str, str]:
    """Return the variables of `environment` that a server's process inherits."""
    if choice == "all":
        return dict(environment)
    if choice == "default":
        return {name: value for name, value in environment.items() if not is_withheld(name, value)}
    minimal = _MINIMAL[flavour]
    globs = () if choice == "minimal" else choice
    return {
        name: value
        for name, value in environment.items()
        # An exported shell function is a program, not the value that its name promises.
        if (name in minimal and not value.startswith("()"))
        or any(fnmatchcase(name, glob) for glob in globs)
    }


def without_hubs_own(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables without those that are for the hub alone."""
    return {name: value for name, value in environment.items() if name not in _NOBODYS}


def stable(environment: Mapping[str, str], flavour: Flavour) -> dict[str, str]:
    """Return the variables of a client's environment that servers of a shared hub may inherit.

    They are the same in all sessions of a user, so that a terminal's id keeps no two apart. What
    is named like a secret, or holds a login, is not among them.
    """
    names, globs = _STABLE[flavour]
    folded = flavour is Flavour.WINDOWS
    return {
        name: value
        for name, value in environment.items()
        if _is_among(name.upper() if folded else name, names, globs)
        and not value.startswith("()")
        and not is_withheld(name, value)
    }


def _is_among(name: str, names: frozenset[str], globs: tuple[str, ...]) -> bool:
    return name in names or any(fnmatchcase(name, glob) for glob in globs)


def _stable_of(flavour: Flavour) -> tuple[frozenset[str], tuple[str, ...]]:
    """Return the stable variables of a system: names, and globs."""
    more = WINDOWS if flavour is Flavour.WINDOWS else ()
    wanted = {*_MINIMAL[flavour], *more, *chain.from_iterable(STABLE.values())} - PER_TERMINAL
    if flavour is Flavour.WINDOWS:
        wanted = {one.upper() for one in wanted}
    return (
        frozenset(one for one in wanted if "*" not in one),
        tuple(sorted(one for one in wanted if "*" in one)),
    )


_STABLE: Final = {flavour: _stable_of(flavour) for flavour in Flavour}


def is_withheld(name: str, value: str) -> bool:
    """Return whether `default` withholds a variable: for its name, or for a login in its value."""
    if name.upper().startswith(OWN) or is_named_like_a_secret(name):
        return True
    return _PROXIES.fullmatch(name) is None and _holds_a_login(value)


def is_named_like_a_secret(name: str) -> bool:
    """Return whether one of the words in a variable's name means a secret."""
    if name in _HARMLESS:
        return False
    words = [word.casefold() for word in _WORD.findall(name)]
    is_count = not _COUNTED.isdisjoint(words)
    before = ""
    for word in words:
        bare = word if word == "auth0" else word.rstrip("0123456789")
        counts = is_count and bare in {"token", "tokens"}
        opens = before not in _OPEN_KEYS or bare not in {"key", "keys"}
        if not counts and opens and (bare in _WORDS or bare.endswith(_ENDINGS)):
            return True
        before = bare
    return False


def mentioned(
    texts: tuple[str, ...], environment: Mapping[str, str], given: Collection[str]
) -> Iterator[str]:
    """Yield the variables that `texts` for a child mention but that are not in `given`, in order.

    These are: shell references (`$NAME`, `${NAME}`, `%NAME%`) to variables that are set for the hub
    or named like a secret; set variables that are a whole text (`docker run -e NAME`); and set
    variables named like a secret, anywhere in a text.
    """
    wanted: dict[str, None] = {}
    for text in texts:
        for found in _REFERENCE.finditer(text):
            name = found[1] or found[2] or found[3]
            if name in environment or is_named_like_a_secret(name):
                wanted[name] = None
        for found in _NAME.finditer(text):
            if found[0] in environment and (found[0] == text or is_named_like_a_secret(found[0])):
                wanted[found[0]] = None
    return (name for name in wanted if name not in given)


def _holds_a_login(value: str) -> bool:
    if "://" in value and _LOGIN.search(value):
        return True
    if "=" in value and any(is_named_like_a_secret(name) for name in _ASSIGNED.findall(value)):
        return True
    return "-----BEGIN" in value and _PRIVATE_KEY.search(value) is not None
