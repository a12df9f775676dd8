"""The headers in which a request of the modern era repeats what is in its body."""

from __future__ import annotations

import base64
import re

from hub.core.protocol import PROTOCOL_VERSION_META
from hub.core.values import JsonObject, object_or_empty

_NAMES = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
"""The methods whose requests go by a name, and the field it is in."""
_PLAIN = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")
_ENCODED = re.compile(r"=\?base64\?.*\?=")


def modern_version(params: JsonObject) -> str | None:
    """Return the version in a request's envelope; only those of the modern era have one."""
    version = object_or_empty(params.get("_meta")).get(PROTOCOL_VERSION_META)
    return version if isinstance(version, str) else None


def request_headers(version: str, method: str, params: JsonObject) -> dict[bytes, bytes]:
    """Return the headers of a modern request, names in lower case."""
    headers = {
        b"mcp-protocol-version": version.encode(),
        b"mcp-method": header_value(method),
    }
    named = params.get(_NAMES.get(method, ""))
    if isinstance(named, str):
        headers[b"mcp-name"] = header_value(named)
    return headers


def header_value(text: str) -> bytes:
    """Return a text as it stands in a header: plain where it can, else marked as encoded."""
    if not text or (_PLAIN.fullmatch(text) and not _ENCODED.fullmatch(text)):
        return text.encode()
    return b"=?base64?" + base64.b64encode(text.encode("utf-8", "replace")) + b"?="
