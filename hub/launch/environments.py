"""Choose the environment variables that a child inherits; by default none that look secret.

The variables in a server's own `env` are added to these later.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from fnmatch import fnmatchcase
from functools import lru_cache
from itertools import chain
from typing import Final, Literal, TypeAlias

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
_LOGIN: Final = re.compile(r"https?://[^\s/@?#:]*:[^\s/@?#]+@|://[^\s/@?#:]{20,}@", re.I)
_BEFORE_AT: Final = re.compile(r"[^\s@\"']+@?")
_USER_AND_PASSWORD: Final = re.compile(
    r"(?<![a-z0-9+.-])(?!https?:)[a-z0-9+.-]+://[^:]*:[^@]", re.I
)
"""In what stands before an `@`. Of other URLs than web pages a password may have any character."""
_ASSIGNED: Final = re.compile(r"(?:^|[\s;?&\"'])([\w.-]+)=[^\s;&]")
_PRIVATE_KEY: Final = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----")
_NAME: Final = re.compile(r"(?<![A-Za-z0-9_])[A-Za-z_][A-Za-z0-9_]*")
_REFERENCE: Final = re.compile(
    r"\$(?:env:)?([A-Za-z_][A-Za-z0-9_]*)|\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)|%([A-Za-z_][A-Za-z0-9_]*)%"
)

# Not here: variables of which two terminals of one user have different values, for no reason that a
# server cares about. These are `TERM`, `SHLVL`, `DISPLAY`, `WINDOWID`, `SSH_CONNECTION`,
# `XDG_SESSION_ID`, what desktops add to `XDG_DATA_DIRS`, the paths that `fnm` makes for each shell.
STABLE: Final[Mapping[str, tuple[str, ...]]] = {
    "language, and how times and letters are written": ("LANG", "LANGUAGE", "LC_*", "TZ"),
    "where programs keep their files": (
        *("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_BIN_HOME"),
        *("XDG_RUNTIME_DIR", "TMPDIR", "TMP", "TEMP"),
    ),
    "a server behind a company's proxy has no network without it": (
        *("HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "ALL_PROXY", "NO_PROXY"),
        *("http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "no_proxy"),
        *("NODE_USE_ENV_PROXY", "GLOBAL_AGENT_*"),
    ),
    "whose certificates are trusted": (
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "OPENSSL_CONF", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
        *("NODE_EXTRA_CA_CERTS", "NODE_USE_SYSTEM_CA", "GIT_SSL_CAINFO", "GIT_SSL_CAPATH"),
        *("AWS_CA_BUNDLE", "PIP_CERT", "NIX_SSL_CERT_FILE", "CARGO_HTTP_CAINFO", "DENO_CERT"),
        *("DENO_TLS_CA_STORE", "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"),
    ),
    "where programs find libraries": (
        *("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "DYLD_FALLBACK_LIBRARY_PATH"),
        *("NIX_LD", "NIX_LD_LIBRARY_PATH", "NIX_PATH", "NIX_PROFILES", "NIX_REMOTE"),
        *("HOMEBREW_PREFIX", "HOMEBREW_CELLAR", "HOMEBREW_REPOSITORY"),
    ),
    "Python: modules, environments, versions, packages": (
        *("PYTHONPATH", "PYTHONHOME", "PYTHONUTF8", "PYTHONIOENCODING", "PYTHONUSERBASE"),
        *("PYTHONNOUSERSITE", "PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX", "VIRTUAL_ENV"),
        *("CONDA_PREFIX", "CONDA_DEFAULT_ENV", "CONDA_EXE", "CONDA_PYTHON_EXE"),
        *("MAMBA_EXE", "MAMBA_ROOT_PREFIX", "PYENV_ROOT", "PYENV_VERSION", "PIPX_*", "PIP_*"),
        *("UV_*", "POETRY_HOME", "POETRY_CACHE_DIR", "HATCH_*", "RYE_HOME", "PIXI_HOME"),
    ),
    "Node, Bun and Deno: modules, versions, packages": (
        *("NODE_PATH", "NODE_OPTIONS", "NODE_ENV", "NVM_DIR", "NVM_BIN", "NVM_INC"),
        *("FNM_DIR", "FNM_ARCH", "FNM_NODE_DIST_MIRROR", "FNM_VERSION_FILE_STRATEGY"),
        *("FNM_COREPACK_ENABLED", "FNM_RESOLVE_ENGINES", "VOLTA_HOME", "VOLTA_FEATURE_PNPM"),
        *("N_PREFIX", "NODENV_ROOT", "NODENV_VERSION", "COREPACK_*", "PNPM_HOME"),
        *("NPM_CONFIG_*", "npm_config_registry", "npm_config_*:registry", "npm_config_cache"),
        *("npm_config_prefix", "npm_config_userconfig", "npm_config_globalconfig"),
        *("npm_config_ca", "npm_config_cafile", "npm_config_strict_ssl", "npm_config_proxy"),
        *("npm_config_https_proxy", "npm_config_noproxy", "npm_config_offline"),
        *("npm_config_prefer_offline", "YARN_CACHE_FOLDER", "YARN_GLOBAL_FOLDER", "YARN_NPM_*"),
        *("YARN_REGISTRY", "YARN_RC_FILENAME", "BUN_INSTALL", "BUN_INSTALL_*", "DENO_DIR"),
        *("DENO_INSTALL", "DENO_INSTALL_ROOT"),
    ),
    "managers of many languages' versions": (
        *("ASDF_DIR", "ASDF_DATA_DIR", "ASDF_CONFIG_FILE", "ASDF_*_VERSION"),
        *("ASDF_DEFAULT_TOOL_VERSIONS_FILENAME", "MISE_DATA_DIR", "MISE_CONFIG_DIR"),
        *("MISE_CACHE_DIR", "MISE_STATE_DIR", "MISE_ENV", "MISE_*_VERSION", "PROTO_HOME"),
        *("AQUA_ROOT_DIR", "AQUA_GLOBAL_CONFIG"),
    ),
    "Rust": (
        *("CARGO_HOME", "CARGO_NET_*", "CARGO_HTTP_*", "CARGO_REGISTRY_*", "CARGO_REGISTRIES_*"),
        *("CARGO_TARGET_DIR", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN", "RUSTUP_DIST_SERVER"),
        *("RUSTUP_UPDATE_ROOT",),
    ),
    "Go": (
        *("GOPATH", "GOROOT", "GOBIN", "GOENV", "GOFLAGS", "GOPROXY", "GOPRIVATE", "GONOPROXY"),
        *("GONOSUMDB", "GOSUMDB", "GOTOOLCHAIN", "GOCACHE", "GOMODCACHE"),
    ),
    "Java": (
        *("JAVA_HOME", "JDK_HOME", "JAVA_TOOL_OPTIONS", "SDKMAN_DIR", "JENV_ROOT", "M2_HOME"),
        *("MAVEN_HOME", "MAVEN_OPTS", "GRADLE_HOME", "GRADLE_USER_HOME", "COURSIER_*"),
    ),
    "Ruby, Perl, PHP, .NET, Haskell, Erlang, Lua, Dart": (
        *("GEM_HOME", "GEM_PATH", "RUBYLIB", "RUBYOPT", "BUNDLE_PATH", "RBENV_ROOT"),
        *("RBENV_VERSION", "rvm_path", "PERL5LIB", "PERL_LOCAL_LIB_ROOT", "PLENV_ROOT"),
        *("COMPOSER_HOME", "PHPENV_ROOT", "DOTNET_ROOT", "DOTNET_CLI_HOME", "NUGET_PACKAGES"),
        *("GHCUP_INSTALL_BASE_PREFIX", "STACK_ROOT", "CABAL_DIR", "MIX_HOME", "HEX_HOME"),
        *("LUA_PATH", "LUA_CPATH", "PUB_CACHE", "FLUTTER_ROOT"),
    ),
    "containers and clusters: with what a server's `docker run` speaks": (
        *("DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "DOCKER_CERT_PATH"),
        *("DOCKER_TLS_VERIFY", "CONTAINER_HOST", "KUBECONFIG"),
    ),
    "git and ssh: whose settings and which agent": (
        *("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM", "GIT_SSH"),
        *("GIT_SSH_COMMAND", "SSH_AUTH_SOCK"),
    ),
}
"""The variables that are the same for all of a user's sessions, by why servers need them.

Servers of a shared hub inherit no others, unless the config names them.
"""

_WINDOWS: Final = (
    *("ALLUSERSPROFILE", "COMMONPROGRAMFILES", "COMMONPROGRAMFILES(X86)", "COMMONPROGRAMW6432"),
    *("COMPUTERNAME", "COMSPEC", "DRIVERDATA", "NUMBER_OF_PROCESSORS", "OS", "PROGRAMDATA"),
    *("PROGRAMFILES", "PROGRAMFILES(X86)", "PROGRAMW6432", "PSMODULEPATH", "PUBLIC"),
    *("USERDOMAIN", "WINDIR"),
)
"""What programs on Windows find system files by."""
_PER_TERMINAL: Final = frozenset({"TERM"})
"""Variables of the SDKs' short list that tell two terminals apart; a pipe needs none of them."""


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
    more = _WINDOWS if flavour is Flavour.WINDOWS else ()
    wanted = {*_MINIMAL[flavour], *more, *chain.from_iterable(STABLE.values())} - _PER_TERMINAL
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


@lru_cache(4096)
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
    if "://" in value and (_LOGIN.search(value) or _is_password_before_at(value)):
        return True
    if "=" in value and any(is_named_like_a_secret(name) for name in _ASSIGNED.findall(value)):
        return True
    return "-----BEGIN" in value and _PRIVATE_KEY.search(value) is not None


def _is_password_before_at(value: str) -> bool:
    before = (text for text in _BEFORE_AT.findall(value) if text[-1] == "@")
    return any(_USER_AND_PASSWORD.search(text) for text in before)
