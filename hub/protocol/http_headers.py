"""HTTP headers: those that repeat parts of a request's body, bearer tokens (RFC 6750), and hosts.

`Mcp-Name`, `Mcp-Method` and `Mcp-Param-*` let a proxy route without reading bodies. MCP 2026-07-28,
"Streamable HTTP": `Mcp-Name` has the tool, prompt or resource; `Mcp-Param-*` have the arguments
that a tool's `inputSchema` marks with `x-mcp-header`.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import ipaddress
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Final
from urllib.parse import urlsplit

from msgspec import Struct

from hub.protocol.constants import PROTOCOL_VERSION_META
from hub.values import Json, JsonObject, object_or_empty

NAMED_BY: Final = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
"""The methods that have an `Mcp-Name` header, and the parameter that the header repeats."""

_ANNOTATION: Final = "x-mcp-header"
_PREFIX: Final = "Mcp-Param-"
_KINDS: Final = frozenset({"string", "integer", "boolean"})
_TOKEN: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_VALUE: Final = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]*")
_PLAIN: Final = re.compile(r"[ -~]*")
_ALLOWED: Final = re.compile(r"[\t -~]*")
_WRAPPED: Final = re.compile(r"=\?base64\?(.*)\?=", re.DOTALL)
_WHOLE: Final = re.compile(r"(-?[0-9]{1,400})(?:\.0+)?")
_EXACT: Final = 2**53
"""Below this, no two integers have the same float."""

_SCHEMAS_IN: Final = frozenset(
    {
        "additionalProperties",
        "contains",
        "contentSchema",
        "else",
        "if",
        "items",
        "not",
        "propertyNames",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
        "allOf",
        "anyOf",
        "oneOf",
        "prefixItems",
    }
)
"""Keywords whose value is a schema, or a list of schemas."""
_SCHEMAS_BY_NAME_IN: Final = frozenset(
    {"$defs", "definitions", "dependentSchemas", "patternProperties"}
)


class AnnotationError(ValueError):
    """A tool has an invalid `x-mcp-header` annotation; the text says where and why."""


class ParamHeader(Struct, frozen=True):
    """One argument that is repeated as a header: header name, path of the argument, JSON type."""

    name: str
    path: tuple[str, ...]
    kind: str


def declared(schema: Json) -> tuple[ParamHeader, ...]:
    """Return the headers that a tool's calls over HTTP must have. Raises: AnnotationError."""
    found: dict[str, ParamHeader] = {}
    for path, node in _positions(schema):
        if _ANNOTATION in node:
            header = _header(path, node)
            first = found.setdefault(header.name.lower(), header)
            if first is not header:
                raise AnnotationError(f"{_where(path)}: {header.name} is taken already")
    return tuple(found.values())


def headers_of(params: tuple[ParamHeader, ...], arguments: JsonObject) -> dict[str, str]:
    """Return the `Mcp-Param-*` headers of a call; an absent argument has no header."""
    texts = ((param.name, _text(_value(arguments, param.path))) for param in params)
    return {name: encoded(text) for name, text in texts if text is not None}


def mismatch(
    params: tuple[ParamHeader, ...], arguments: JsonObject, headers: Iterable[tuple[str, str]]
) -> str | None:
    """Return how a call's headers differ from its arguments, as text; None if they match.

    `headers` are all headers of the request; a repeated header must be in it each time.
    """
    given: dict[str, list[str]] = {}
    for name, value in headers:
        given.setdefault(name.lower(), []).append(value)
    objections = (
        _objection(param, _text(_value(arguments, param.path)), given.get(param.name.lower(), []))
        for param in params
    )
    return next((text for text in objections if text is not None), None)


def is_header_name(text: str) -> bool:
    """Return whether a header can have this name (RFC 9110, 5.1)."""
    return _TOKEN.fullmatch(text) is not None


def is_header_value(text: str) -> bool:
    """Return whether a header can have this value, sent as UTF-8, without blanks around it."""
    return _VALUE.fullmatch(text.strip()) is not None


def encoded(text: str) -> str:
    """Return a text as a header value: unchanged, or in base64 if a header cannot hold it."""
    if _PLAIN.fullmatch(text) and text == text.strip() and not _WRAPPED.fullmatch(text):
        return text
    return f"=?base64?{base64.b64encode(text.encode('utf-8', 'surrogatepass')).decode()}?="


def decoded(value: str) -> str | None:
    """Return the text of a header value, base64 decoded if needed; None if it is not valid."""
    wrapped = _WRAPPED.fullmatch(value)
    if wrapped is None:
        return value if _ALLOWED.fullmatch(value) else None
    try:
        plain = base64.b64decode(wrapped[1].encode(), validate=True)
        text = plain.decode("utf-8", "surrogatepass")
    except (binascii.Error, UnicodeError):
        return None
    return text if base64.b64encode(plain).decode() == wrapped[1] else None


def _positions(schema: Json) -> Iterator[tuple[tuple[str, ...] | None, JsonObject]]:
    """Yield each nested schema with its path; None if more than `properties` leads to it."""
    waiting: deque[tuple[tuple[str, ...] | None, Json]] = deque([((), schema)])
    while waiting:
        path, node = waiting.popleft()
        if isinstance(node, list):
            waiting.extend((None, one) for one in node)
        elif isinstance(node, dict):
            yield path, node
            for keyword, below in node.items():
                waiting.extend(_below(path, keyword, below))


def _below(
    path: tuple[str, ...] | None, keyword: str, below: Json
) -> Iterator[tuple[tuple[str, ...] | None, Json]]:
    if keyword == "properties" and isinstance(below, dict):
        for name, one in below.items():
            yield (None if path is None else (*path, name)), one
    elif keyword in _SCHEMAS_BY_NAME_IN and isinstance(below, dict):
        for one in below.values():
            yield None, one
    elif keyword in _SCHEMAS_IN:
        yield None, below


def _header(path: tuple[str, ...] | None, node: JsonObject) -> ParamHeader:
    token, kind = node[_ANNOTATION], node.get("type")
    if not path:
        raise AnnotationError(
            f"{_ANNOTATION} may only be on properties of the arguments, or of objects in them"
        )
    if not isinstance(token, str) or not _TOKEN.fullmatch(token):
        raise AnnotationError(f"{_where(path)}: its {_ANNOTATION} cannot be in a header's name")
    if not isinstance(kind, str) or kind not in _KINDS:
        raise AnnotationError(f"{_where(path)}: only a string, integer or boolean can be repeated")
    return ParamHeader(_PREFIX + token, path, kind)


def _where(path: tuple[str, ...] | None) -> str:
    return f"argument {'.'.join(path or ())!r}"


def _value(arguments: JsonObject, path: tuple[str, ...]) -> Json:
    value: Json = arguments
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _text(value: Json) -> str | None:
    """Return an argument as header text; None if its type has no such text."""
    match value:
        case bool():
            return "true" if value else "false"
        case float() if abs(value) < _EXACT and value.is_integer():
            return str(int(value))
        case str() | float() | Decimal():
            return str(value)
        case int():
            try:
                return str(value)
            except ValueError:  # more digits than Python converts
                return None
        case _:
            return None


def _objection(param: ParamHeader, text: str | None, given: list[str]) -> str | None:
    where = f"{param.name} and {_where(param.path)}"
    if len(given) > 1:
        return f"{param.name} occurs more than once"
    if text is None:
        return f"{where} do not match: there is no such argument" if given else None
    if not given:
        return f"{where} do not match: the header is missing"
    said = decoded(given[0])
    if said is None:
        return f"{param.name} is not encoded correctly"
    same = said == text or (param.kind == "integer" and _is_same_number(said, text))
    return None if same else f"{where} do not match"


def _is_same_number(one: str, other: str) -> bool:
    first, second = _WHOLE.fullmatch(one), _WHOLE.fullmatch(other)
    return first is not None and second is not None and int(first[1]) == int(second[1])


Marked = Mapping[str, tuple[ParamHeader, ...]]
"""The arguments to repeat as headers, by tool name."""


def modern_version(params: JsonObject) -> str | None:
    """Return the protocol version in a request's envelope; None for a legacy request."""
    version = object_or_empty(params.get("_meta")).get(PROTOCOL_VERSION_META)
    return version if isinstance(version, str) else None


def request_headers(
    version: str, method: str, params: JsonObject, marked: Marked
) -> dict[bytes, bytes]:
    """Return the MCP headers of a modern request, with names in lower case."""
    headers = {"mcp-protocol-version": encoded(version), "mcp-method": encoded(method)}
    named = params.get(NAMED_BY.get(method, ""))
    if isinstance(named, str):
        headers["mcp-name"] = encoded(named)
        if method == "tools/call" and named in marked:
            arguments = object_or_empty(params.get("arguments"))
            headers |= headers_of(marked[named], arguments)
    return {name.lower().encode(): value.encode() for name, value in headers.items()}


class Offered(Struct, frozen=True):
    """A tool listing for HTTP, with the headers of its tools (`marked`).

    `refused` has the tools that were left out, with the reason.
    """

    listing: JsonObject
    marked: Marked
    refused: Mapping[str, str]


def offered(listing: JsonObject) -> Offered:
    """Return a tool listing without the tools that have invalid annotations."""
    tools = listing.get("tools")
    if not isinstance(tools, list):
        return Offered(listing, {}, {})
    kept: list[Json] = []
    marked: dict[str, tuple[ParamHeader, ...]] = {}
    refused: dict[str, str] = {}
    for tool in tools:
        entry = object_or_empty(tool)
        name = str(entry.get("name"))
        try:
            marked[name] = declared(entry.get("inputSchema"))
            kept.append(tool)
        except AnnotationError as exc:
            refused[name] = str(exc)
    return Offered({**listing, "tools": kept} if refused else listing, marked, refused)


NOT_SENDABLE: Final = "begins or ends with a blank, or has a character that is not shown"
"""What is wrong with a token that no request can have."""
_SENDABLE: Final = re.compile(r"(?! )[^\x00-\x08\x0a-\x1f\x7f]+(?<! )", re.ASCII)


def bearer_in(authorization: str | None) -> bytes | None:
    """Return the token in an Authorization header, as the bytes that came; None: it has none."""
    scheme, _, token = (authorization or "").partition(" ")
    return token.strip(" \t").encode("latin-1") if scheme.lower() == "bearer" else None


def is_sendable(token: str) -> bool:
    """Return whether an Authorization header can bring a token as it is."""
    return _SENDABLE.fullmatch(token) is not None and token.strip("\t") == token


def token_hash(token: str) -> str:
    """Return the SHA-256 of a token, in hex."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


LOOPBACK_NAMES: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_LABEL: Final = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_NAME: Final = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_MAX: Final = 253
"""Characters that a name in DNS may have."""
_WITH_PORT: Final = re.compile(r"(\[[^\[\]:]*:[^\[\]]*\]|[^\[\]:]+)(?::[0-9]{0,5})?")


def is_loopback(host: str) -> bool:
    """Return whether an address, or the name `localhost`, can be reached from this machine only."""
    try:
        return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def is_private(url: str) -> bool:
    """Return whether nobody on the way can read or change what a URL gives.

    That is https, or http to this machine.
    """
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return False
    return bool(host) and (
        parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host))
    )


def host_name(text: str) -> str | None:
    """Return a host name or an address in normal form, without port; None if it is neither."""
    lowered = text.lower()
    try:
        return str(ipaddress.ip_address(lowered.strip("[]")))
    except ValueError:
        return lowered if len(lowered) <= _MAX and _NAME.fullmatch(lowered) else None


def name_in(host: str) -> str | None:
    """Return the name in a Host header in normal form, without port; None if it has none."""
    found = _WITH_PORT.fullmatch(host)
    return None if found is None else host_name(found[1])


_ORIGIN: Final = re.compile(
    r"([a-z][a-z0-9+.-]*)://(\[[0-9a-f:.]+\]|[^\s/?#@:\[\]]+)(?::([0-9]{1,5}))?"
)
_PORTS: Final = {"http": "80", "https": "443", "ws": "80", "wss": "443"}


def origin_in(text: str) -> str | None:
    """Return an origin in normal form (lower case, no default port); None if it is not valid."""
    found = _ORIGIN.fullmatch(text.strip().lower())
    if found is None:
        return None
    scheme, host, port = found.groups()
    return f"{scheme}://{host}" + (f":{port}" if port and port != _PORTS.get(scheme) else "")


def is_own(origin: str, host: str, scheme: str | None = None) -> bool:
    """Return whether `origin` is that of the server in the Host header; `scheme` None: any."""
    said = origin.partition("://")[0]
    known = {"http", "https"} if scheme is None else {scheme}
    return said in known and origin_in(f"{said}://{host}") == origin
