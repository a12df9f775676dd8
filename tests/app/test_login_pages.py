from __future__ import annotations

from typing import Any

import pytest

from hub.app.login_pages import public_url
from hub.config.listening.listen import Listen

BOUND = "http://127.0.0.1:8765/mcp"
AUTH = {
    "resource": "https://hub.example.com/tools/mcp",
    "issuers": [{"issuer": "https://login.example.com"}],
}


@pytest.mark.parametrize(
    ("listen", "url"),
    [
        ({}, BOUND),
        ({"names": ["localhost"]}, BOUND),
        (
            {"names": ["localhost", "hub.example.com", "b.example.com"]},
            "https://hub.example.com/mcp",
        ),
        ({"names": ["b.example.com"], "path": "/x"}, "https://b.example.com/x"),
        ({"names": ["b.example.com"], "auth": AUTH}, "https://hub.example.com/tools/mcp"),
    ],
)
def test_the_pages_are_where_browsers_reach_the_hub(listen: dict[str, Any], url: str) -> None:
    assert public_url(Listen.model_validate(listen), BOUND) == url
