"""URIs: which one opens something on the child's machine, and which paths are in it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import unquote

from hub.guard.budget import TooManyWaysError
from hub.guard.text.prose import is_prose
from hub.paths.file_uris import UriError, path_from_uri
from hub.paths.resolve import PATH_MAX, Flavour, PathError

_LOCAL_URI = re.compile(r"\s*(?:[a-z0-9.-]+[:+])*?(file:.*)", re.I | re.S)
_DATABASE_URI = re.compile(
    r"(?:jdbc:)?(?:sqlite3?|duckdb|h2|hsqldb|derby)(?:\+\w+)?:(?:///|//(?=[^/]))?(.*)", re.I | re.S
)
_DATABASE_HOST = re.compile(
    r"(?:jdbc:)?(?:sqlite3?|duckdb|h2|hsqldb|derby)(?:\+\w+)?://[^/]+/", re.I
)
_SERVER = re.compile(r"(?!(?:https?|wss?):)[a-z][a-z0-9.-]*(?:\+\w+)*://(?:[^/?#@]*@)?", re.I)
_RELATIVE_URI = re.compile(r"file:(?![/\\])", re.I)
_WITHOUT_HOST = re.compile(r"file:(?![/\\])|(?!file:)[a-z][a-z0-9+.-]*:///", re.I)
_OTHER_LOCAL_URI = re.compile(
    r"(?:https?(?:\+|://))?(?:unix|npipe|ipc|netdoc|local-?(?:file)?):(?://)?(.*)"
    r"|(?:vscode(?:-insiders)?|vscodium|cursor|windsurf|zed)://file(?=/)(.*)"
    r"|res://+(.*)"
    r"|vscode-file://[^/]*(?=/)(.*)|(?:osfs|fs|localfs|posix|fileb|ldapi|oci-layout|[a-z][a-z0-9.-]*\+(?:unix|socket))://(.*)",
    re.I | re.S,
)
_REMOTE_URI = re.compile(
    r"(?!(?:php|phar|(?:zip|tar)(?:fs|file)?|(?:lib)?archive|t?gz|gzip|bz2|bzip2|xz|zstd|7z|rar|glob"
    r"|jar|war|ear|compress\.\w+|simplecache"
    r"|filecache|blockcache|reference|dir|vsi\w*|text|concat|subfile|crypto|cache|async|label|caption"
    r"|pango|inline|msl|mvg|vid|vrt|a?movie)://)"
    r"(?:[a-z][a-z0-9+.-]+://(?!\.|%(?:25)*2e)|https\?://|(?:data|mailto|urn|about|blob|tel):)",
    re.I,
)
"""A URI of another place. No host begins with a dot: `http://..` can only be meant as a path."""
_SPECIAL = re.compile(r"\s*(?:fd::|jrt:/|vsock:\d|expect://)", re.I)
_DOTS = re.compile(r"\.\.|%(?:25)*2e", re.I)
_MAX_CODED = 8
_PARAMETERS = re.compile(r"[?&;]")
_OWN_SCHEME = re.compile(
    r"(?!(?:https?|wss?|file|data|urn|mailto):)[a-z][a-z0-9+.-]*:(?://)?", re.I
)
"""The start of a URI whose scheme the server made up; that of a web page names another machine."""
_END = re.compile(r"[?#]")
FILE_URI = re.compile(r"\s*+(?:[a-z0-9.-]++[:+])*?fileb?:", re.I)
"""The start of a text that may be, as a whole, a URI of a file here."""
_SPACED = re.compile(rf"{FILE_URI.pattern}\S[^\n]*", re.I)
_TEMPLATE_PARAMETERS = re.compile(r"[?#&;]")
_SLASH = re.compile("/")
_MOST = 32
"""No template has so many names before or behind a value with a slash in it."""


def is_file_uri(text: str) -> bool:
    """Return whether a text is as a whole a `file:` URI; it may have spaces, but is no sentence."""
    if FILE_URI.match(text) is None:
        return False
    # A child that cuts a URL at its query or fragment ignores words after it.
    uri = _END.split(text.strip(), maxsplit=1)[0]
    is_spaced = len(uri) < PATH_MAX and _SPACED.fullmatch(uri) is not None
    return len(uri.split(None, 1)) == 1 or (is_spaced and not is_prose(uri))


def is_special(text: str) -> bool:
    """Return whether `text` is a URI that some child opens, but not as a file: `expect://`."""
    return ":" in text and _SPECIAL.match(text) is not None


def is_local_uri(text: str) -> bool:
    """Return whether `text` is a URI that opens something on the child's own machine."""
    if ":" not in text:
        return False
    return any(uri.match(text) for uri in (_LOCAL_URI, _DATABASE_URI, _OTHER_LOCAL_URI))


def is_remote(text: str) -> bool:
    """Return whether `text` is a URI of another machine, or of no place (`data:`, `mailto:`)."""
    return ":" in text and _REMOTE_URI.match(text) is not None and not is_local_uri(text)


def is_server(uri: str) -> bool:
    """Return whether `uri` is the URL of a server, such as a database, and of no web page.

    Its parameters can be file paths: `postgres://h/db?sslkey=/x`.
    """
    return _SERVER.match(uri) is not None and is_remote(uri)


def without_host(uri: str) -> str | None:
    """Return the absolute path of a URI that names no host, or None: `delta:///a` is `/a`.

    Some children read `sqlite:///a`, `sqlite://x/a` and `file:a` so as well; for others these are
    relative paths.
    """
    start = (_WITHOUT_HOST.match(uri) or _DATABASE_HOST.match(uri)) if ":" in uri else None
    is_word = uri[-1:] == ":"  # `File:`, as in a text
    return None if start is None or is_word else f"/{uri[start.end() :]}"


def climbing(uri: str) -> str | None:
    """Return a remote URI as a relative path, if its `..` lead out of the start directory, or None.

    A child that knows no URIs may read it so: `http://../../x` leads one directory up. Of its own
    URIs it cuts off the start, with the first name or without it: `notes://path/../x` is `../x`.

    Raises:
        PathError: the URI is percent-encoded too many times over.
    """
    if not _DOTS.search(uri):
        return None
    path = _unquoted(uri).replace("\\", "/")
    scheme = _OWN_SCHEME.match(path)
    behind = "" if scheme is None else path[scheme.end() :]
    return next(filter(_climbs, (path, behind, behind.partition("/")[2])), None)


def _climbs(path: str) -> bool:
    depth = 0
    for name in path.split("/"):
        if name == "..":
            depth -= 1
        elif name not in {"", "."}:
            depth += 1
        if depth < 0:
            return True
    return False


def _unquoted(uri: str) -> str:
    for _ in range(_MAX_CODED):
        plain = unquote(uri)
        if plain == uri:
            return plain
        uri = plain
    raise TooManyWaysError


def local_uri_paths(text: str, flavour: Flavour) -> Iterable[str]:
    """Return the paths that a URI for which `is_local_uri` is true may open.

    Raises:
        PathError: it is no valid URI.
    """
    if match := _LOCAL_URI.match(text):
        return _file_uri_paths(match[1].strip(), flavour)
    if match := _DATABASE_URI.match(text):
        return (match[1].partition("?")[0],)
    match = _OTHER_LOCAL_URI.match(text)
    return (next(filter(None, match.groups()), ""),) if match else ()


def host_as_folder(text: str) -> str | None:
    """Return a local URI without its scheme if it has a host: `sqlite://tmp/x` is `//tmp/x`.

    Some children cut off `sqlite:` and open the rest, as PHP's PDO does. None if it has no host,
    for `file:`, where a host is an error, and for `res:`, whose paths start in a project.
    """
    scheme, sign, rest = text.partition("://")
    if not sign or rest[:1] == "/" or scheme.lower() == "res" or _LOCAL_URI.match(text):
        return None
    return f"//{rest}"


def _file_uri_paths(uri: str, flavour: Flavour) -> Iterable[str]:
    before = re.split(r"[?#]", uri, maxsplit=1)[0]
    if _RELATIVE_URI.match(uri) and flavour is not Flavour.WINDOWS:
        return [spelled.partition(":")[2] for spelled in (before, uri)]
    whole = uri.replace("?", "%3F").replace("#", "%23")
    try:
        return [path_from_uri(spelled, flavour) for spelled in (before, whole)]
    except UriError as exc:
        raise PathError(str(exc)) from exc


def server_values(text: str) -> Iterable[str]:
    """Yield what may be a file's path in the URL of a server.

    It is the host, if that is encoded, or a parameter's value.
    """
    server = _SERVER.match(text)
    if server is not None and text[server.end() :][:3].lower() == "%2f":  # the path of a socket
        yield re.split(r"[/:?#]", text[server.end() :], maxsplit=1)[0]
    yield from (one.partition("=")[2] for one in _PARAMETERS.split(text)[1:])


def uri_parts(uri: str) -> list[str]:
    """Return the texts that may be values of a URI's template, still encoded, each once.

    A value may start behind the scheme and behind each slash; so does each parameter's value. Far
    from both ends it has no slash that is not encoded.
    """
    scheme = _OWN_SCHEME.match(uri)
    if scheme is None:
        return []
    text = uri[scheme.end() :]
    end = _END.search(text)
    path = text if end is None else text[: end.start()]
    starts = [0, *(slash.end() for slash in _SLASH.finditer(path))]
    parts = [path[start:] for start in (*starts[: _MOST + 1], *starts[-_MOST:])]
    parts += path.split("/")[_MOST + 1 : -_MOST]
    if end is not None:
        parameters = _TEMPLATE_PARAMETERS.split(text[end.start() :])
        parts += (one.partition("=")[2] or one for one in parameters)
    return [part for part in dict.fromkeys(parts) if part]
