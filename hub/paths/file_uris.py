"""Convert `file:` URIs to paths and back, for every `Flavour`, wherever the hub itself runs."""

from __future__ import annotations

import re
from urllib.parse import quote, unquote_to_bytes

from hub.paths.resolve import Flavour


class UriError(ValueError):
    """A URI that names no usable local path. The message is a sentence fit for a client."""


_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_DRIVE = re.compile(r"/([A-Za-z])[:|](?=/|$)")
_UNRESERVED = "/-._~!$&'()*+,;=:@"


def path_from_uri(uri: str, flavour: Flavour) -> str:
    """Return the absolute path that `uri` names, percent-decoded once and not normalised.

    A Windows path keeps the URI's forward slashes. On Windows a remote host becomes a UNC path.

    Raises:
        UriError: `uri` is no `file:` URI, is ambiguous, not valid UTF-8 or has a control
            character; or its path is not absolute, or on a remote host (except on Windows).
    """
    if uri[:5].lower() != "file:":
        raise UriError("Only file:// URIs are supported")
    if "?" in uri or "#" in uri:
        # A client may have forgotten to encode them: the shortened path could be a parent folder.
        raise UriError("A file URI with a query or a fragment is ambiguous")
    authority, path = _split(uri[5:])
    path = _decode(path, flavour)
    if flavour is Flavour.WINDOWS:
        return _windows_path(authority, path)
    if authority.lower() not in {"", "localhost"}:
        raise UriError(f"Path is on another machine: {authority}")
    if not path.startswith("/"):
        raise UriError("Path is not absolute")
    return path


def path_meant(text: str) -> str | None:
    """Return what to write where a path is wanted and `text` is a `file:` URI; None if it is none.

    That is the path of the URI, or words that ask for it where the URI cannot be read.
    """
    if not re.match(r"file:/", text, re.IGNORECASE):
        return None
    try:
        return path_from_uri(text, Flavour.POSIX)
    except UriError:
        return "the path alone"


def uri_from_path(path: str, flavour: Flavour) -> str:
    """Return the `file:` URI of an absolute path, percent-encoded."""
    if flavour is Flavour.WINDOWS:
        path = path.replace("\\", "/")
        if path.startswith("//"):
            return "file:" + quote(path, safe=_UNRESERVED)
        path = "/" + path
    return "file://" + quote(path, safe=_UNRESERVED, errors="surrogateescape")


def _split(rest: str) -> tuple[str, str]:
    if not rest.startswith("//"):
        return "", rest
    authority, slash, path = rest[2:].partition("/")
    return authority, slash + path


def _decode(path: str, flavour: Flavour) -> str:
    lowered = path.lower()
    if "%2f" in lowered or (flavour is Flavour.WINDOWS and "%5c" in lowered):
        raise UriError("A file URI with an encoded slash is ambiguous")
    try:
        decoded = unquote_to_bytes(path).decode()
    except UnicodeError:
        raise UriError("A file URI must be valid UTF-8") from None
    if _CONTROL.search(decoded):
        raise UriError("A file URI with a control character is not supported")
    return decoded


def _windows_path(authority: str, path: str) -> str:
    if authority.lower() not in {"", "localhost"}:
        return f"//{authority}{path}"
    if path.startswith("//"):
        return path
    drive = _DRIVE.match(path)
    if drive is None:
        raise UriError("Path is not absolute")
    return f"{drive[1].upper()}:{path[drive.end() :] or '/'}"
