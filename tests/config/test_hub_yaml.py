"""The text of a hub.yaml has the values that were meant, whatever is in them."""

from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hub.config.carrying import CarriedServer, LeftServer, hub_yaml
from hub.config.clients.entries import ClientServer
from hub.config.clients.locations import FoundServer
from hub.config.source.strict_yaml import read_yaml

TEXTS = st.text(st.characters(codec="utf-8"), max_size=8) | st.sampled_from(
    ["off", "1.10", "~", "null", "- a", "a: b", "# c", "2024-01-01", "<<", "*a", "!x", "\u2028", ""]
)


def denied(names: list[str]) -> dict[str, list[str]]:
    return {"deny": names}


SERVERS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"command": TEXTS, "args": st.lists(TEXTS, max_size=3)},
    optional={
        "env": st.dictionaries(TEXTS, TEXTS, max_size=3),
        "tools": st.lists(TEXTS, max_size=2).map(denied),
        "timeout": st.floats(1e-9, 1e30) | st.integers(1, 99),
    },
)


@given(st.dictionaries(TEXTS, SERVERS, max_size=3), TEXTS, st.lists(TEXTS, max_size=2))
def test_what_is_written_is_read_again(
    servers: dict[str, dict[str, Any]], name: str, folders: list[str]
) -> None:
    source = FoundServer(
        "cursor", "user", Path("/x"), name, ClientServer(place=("a", name)), Path("/")
    )
    made = [
        CarriedServer(key, server, (source,), (name,), about=name)
        for key, server in servers.items()
    ]
    text = hub_yaml("my hub.yaml", made, [LeftServer(source, name)], folders=folders, confine="off")
    assert "roots-hub check --config 'my hub.yaml' --connect" in text
    expected: dict[str, Any] = {
        "version": 1,
        "servers": {key: {**server, "confine": "off"} for key, server in servers.items()},
    }
    if folders:
        expected["roots"] = {"fallback": folders}
    assert read_yaml(text) == expected
