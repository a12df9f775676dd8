"""Model Context Protocol constants: versions, `_meta` keys, error codes, methods, log levels.

They are here so that a usual call needs none of the SDK's models; a test compares them with the
SDK's own.
"""

from __future__ import annotations

from typing import Final

HANDSHAKE_VERSIONS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""Protocol versions that begin with `initialize`, oldest first: the legacy era."""
MODERN_VERSIONS: Final = ("2026-07-28",)
"""Protocol versions in which every request has its own envelope: the modern era."""
ALL_VERSIONS: Final = (*HANDSHAKE_VERSIONS, *MODERN_VERSIONS)

PROTOCOL_VERSION_META: Final = "io.modelcontextprotocol/protocolVersion"
CLIENT_INFO_META: Final = "io.modelcontextprotocol/clientInfo"
CLIENT_CAPABILITIES_META: Final = "io.modelcontextprotocol/clientCapabilities"
LOG_LEVEL_META: Final = "io.modelcontextprotocol/logLevel"
SERVER_INFO_META: Final = "io.modelcontextprotocol/serverInfo"

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
HEADER_MISMATCH: Final = -32020
MISSING_CLIENT_CAPABILITY: Final = -32021
UNSUPPORTED_VERSION: Final = -32022

RESOURCE_NOT_FOUND: Final = -32002
"""Error code of legacy servers; modern clients get INVALID_PARAMS instead."""

CALLS: Final = frozenset({"tools/call", "prompts/get", "resources/read", "completion/complete"})
"""The requests that go to one child and whose arguments can name paths."""

LISTS: Final = {
    "tools/list": "tools",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
    "prompts/list": "prompts",
}
"""Listing methods, and the field of the result that has the entries."""

LIST_CHANGED: Final = {
    "notifications/tools/list_changed": ("tools/list",),
    "notifications/resources/list_changed": ("resources/list", "resources/templates/list"),
    "notifications/prompts/list_changed": ("prompts/list",),
}
"""Change notifications, and the listings to read again after each."""

LOG_LEVELS: Final = (
    "debug",
    "info",
    "notice",
    "warning",
    "error",
    "critical",
    "alert",
    "emergency",
)
