"""What README.md, docs/guard.md and hub.yaml.example show is what the program does."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from hub.calls.builtin_tools import BUILTINS
from hub.config.fields import LoadContext
from hub.config.load import load_config
from hub.config.models import json_schema
from hub.guard.keys.key_words import kind_of_key

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
GUARD = (ROOT / "docs" / "guard.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def context(directory: Path) -> LoadContext:
    return LoadContext(directory, str(directory), {})


def test_the_help_in_the_readme_is_the_real_one() -> None:
    env = {"PATH": os.environ["PATH"], "COLUMNS": "100"}
    command = [sys.executable, "-m", "hub", "--help"]
    shown = subprocess.run(  # noqa: S603 - our own program
        command, capture_output=True, text=True, env=env, cwd=ROOT, check=True
    )
    assert shown.stdout.strip() in [block.strip() for block in blocks("text")]


def test_every_client_config_in_the_readme_is_json_that_runs_the_hub() -> None:
    configs = [json.loads(block) for block in blocks("json") if '"command"' in block]
    entries = [next(iter((one.get("mcpServers") or one["servers"]).values())) for one in configs]
    assert len(entries) == 3
    for entry in entries:
        assert entry["command"] == "roots-hub"
        assert entry["args"][0] == "wrap"
        assert "--" in entry["args"]


def test_the_config_in_the_readme_loads(tmp_path: Path) -> None:
    (block,) = blocks("yaml")
    (tmp_path / "hub.yaml").write_text(block)
    config = load_config(str(tmp_path / "hub.yaml"), context(tmp_path)).config
    assert list(config.servers) == ["files", "git", "demo"]


def test_the_example_config_loads(tmp_path: Path) -> None:
    config = load_config(str(ROOT / "hub.yaml.example"), context(tmp_path)).config
    assert set(config.servers) == {"files", "issues"}


def test_the_example_config_has_every_key() -> None:
    schema = json_schema()
    shapes = [schema, *schema["$defs"].values()]
    keys = {key for shape in shapes for key in shape.get("properties", {})}
    shown = set(re.findall(r"(?:^|[{,\s])(\w+):", (ROOT / "hub.yaml.example").read_text()))
    assert {"version", "servers", "token", "arguments"} <= keys
    assert keys - shown == set()


def test_the_answer_of_get_roots_in_the_readme_has_the_real_fields() -> None:
    (shown,) = [json.loads(block) for block in blocks("json") if '"rootsCount"' in block]
    schema = BUILTINS[0]["outputSchema"]
    assert isinstance(schema, dict)
    assert list(shown) == list(schema["properties"])  # pyright: ignore[reportArgumentType] - JSON


def test_the_example_keys_in_the_guards_page_are_of_the_kinds_it_says() -> None:
    rows = re.findall(r"^\| (path|glob|weak|payload|command) \| (`.*?`) \|", GUARD, re.MULTILINE)
    shown = {kind: re.findall(r"`(.*?)`", keys) for kind, keys in rows}
    shown["neutral"] = re.findall(r'`{"(\w+)": "/usr"}` under a key that does not tell', GUARD)
    assert len(shown) == 6
    for kind, keys in shown.items():
        assert keys
        assert {key: kind_of_key(key)[0].value for key in keys} == dict.fromkeys(keys, kind)
