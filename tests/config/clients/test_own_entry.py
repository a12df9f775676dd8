from pathlib import Path
from typing import Any

import pytest

from hub.config.clients.entries import hub_arguments, is_hub, own_entry, read_entry
from hub.config.clients.locations import CLIENTS


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("command", [["/opt/roots-hub"], ["uvx", "roots-hub"], ["py", "-m", "hub"]])
def test_each_clients_entry_starts_the_hub(client: str, command: list[str]) -> None:
    entry = own_entry(client, "roots-hub", command, Path("/x/hub.yaml"))
    read = read_entry(entry)
    assert read.problems == []
    argv = [read.server["command"], *read.server["args"]]
    assert argv == [*command, "attach", "--config", "/x/hub.yaml"]
    assert is_hub(entry)


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["roots-hub", "run"], ["run"]),
        (["/x/roots-hub.exe", "wrap", "--", "y"], ["wrap", "--", "y"]),
        (["C:\\x\\roots-hub.exe"], []),
        (["uvx", "roots-hub@1.2", "run"], ["run"]),
        (["uvx", "--from", "roots-hub", "roots-hub", "run"], ["run"]),
        (["python3", "-m", "hub", "run"], ["run"]),
        (["python", "/x/bin/roots-hub", "run"], ["run"]),
        (["npx", "roots-hub-x"], None),
        (["npx", "files", "/x/roots-hub"], None),
        (["npx", "files", "/x/roots-hub", "/y"], None),
        (["uv", "--directory", "/x/roots-hub", "run", "server"], None),
        (["env", "--", "roots-hub"], None),
        (["python", "-m", "hubs"], None),
        ([], None),
    ],
)
def test_the_hub_is_recognised_in_a_command_line(
    argv: list[str], expected: list[str] | None
) -> None:
    assert hub_arguments(argv) == expected


@pytest.mark.parametrize(
    "entry",
    [{"command": "roots-hub", "args": ["wrap", "--", "x"]}, {"url": "https://x"}, "x", None],
)
def test_other_entries_are_not_the_hub(entry: Any) -> None:
    assert not is_hub(entry)
