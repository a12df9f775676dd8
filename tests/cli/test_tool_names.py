from __future__ import annotations

import pytest

from hub.catalog.names import NamesMode
from hub.cli.options import named_tool

SERVERS = ("files", "git", "a.b", "a")
CASES: list[tuple[str, tuple[str, ...], NamesMode, tuple[str, str] | None]] = [
    ("files.read", SERVERS, "auto", ("files", "read")),
    ("files__read", SERVERS, "auto", ("files", "read")),
    ("files__read.all", SERVERS, "auto", ("files", "read.all")),
    ("a.b.c", SERVERS, "auto", ("a.b", "c")),
    ("a.c.d", SERVERS, "auto", ("a", "c.d")),
    ("a.b__c", SERVERS, "auto", ("a.b", "c")),
    ("files.read__all", SERVERS, "auto", ("files", "read__all")),
    ("read", ("files",), "auto", ("files", "read")),
    ("files__read", ("files",), "auto", ("files", "files__read")),
    ("files__read", ("files",), "always", ("files", "read")),
    ("files.read", ("files",), "auto", ("files", "read")),
    ("other.read", ("files",), "auto", ("other", "read")),
    ("other.read", SERVERS, "auto", ("other", "read")),
    ("read", SERVERS, "auto", None),
    ("read", SERVERS, "never", None),
    ("other__read", SERVERS, "auto", None),
    ("files.", SERVERS, "auto", None),
    ("files__", SERVERS, "auto", None),
    ("", ("files",), "auto", None),
    ("files.read", (), "auto", ("files", "read")),
    ("files__read", (), "auto", None),
]


@pytest.mark.parametrize(("text", "servers", "mode", "named"), CASES)
def test_a_tool_is_named_by_its_server_or_by_its_public_name(
    text: str, servers: tuple[str, ...], mode: NamesMode, named: tuple[str, str] | None
) -> None:
    assert named_tool(text, servers, mode) == named
