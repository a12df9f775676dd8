"""The environment variables that are the same for all of a user's sessions, as a list of data.

A shared hub's servers inherit no other ones, unless the config names them. Each group says why a
server needs it. A variable does not belong here if two terminals of one user have different values
for no reason that a server cares about: `TERM`, `SHLVL`, `DISPLAY`, `WINDOWID`, `SSH_CONNECTION`,
`XDG_SESSION_ID`, what desktops add to `XDG_DATA_DIRS`, the paths that `fnm` makes for each shell.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

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
"""Names and globs, by the reason why servers need them."""

WINDOWS: Final = (
    *("ALLUSERSPROFILE", "COMMONPROGRAMFILES", "COMMONPROGRAMFILES(X86)", "COMMONPROGRAMW6432"),
    *("COMPUTERNAME", "COMSPEC", "DRIVERDATA", "NUMBER_OF_PROCESSORS", "OS", "PROGRAMDATA"),
    *("PROGRAMFILES", "PROGRAMFILES(X86)", "PROGRAMW6432", "PSMODULEPATH", "PUBLIC"),
    *("USERDOMAIN", "WINDIR"),
)
"""What programs on Windows find system files by."""
PER_TERMINAL: Final = frozenset({"TERM"})
"""Variables of the SDKs' short list that tell two terminals apart; a pipe needs none of them."""
