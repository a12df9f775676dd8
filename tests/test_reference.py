"""The pages for looking up have every key, command, field and reason of the program."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from hub.audit.log_file import AuditRecord, CallOutcome
from hub.calls.builtin_tools import BUILTINS
from hub.children.child import ChildState
from hub.cli.served import Served
from hub.config.fields import LoadContext
from hub.config.load import load_config
from hub.config.models import json_schema
from hub.guard.containment import OUTSIDE
from hub.guard.decide import Refused
from hub.guard.keys.key_words import kind_of_key
from hub.roots.effective import Source
from hub.server.http.open_requests import client_config
from tests.conftest import PROJECT
from tests.kit.pages import blocks
from tests.reference import (
    COMMAND_LINE,
    CONFIGURATION,
    UNSAID,
    helps,
    keys,
    rows,
    with_helps,
    with_keys,
)
from tests.reference import blocks as helps_in

DOCS = PROJECT / "docs"
ADVICE = "`python -m tests.reference --write` brings the page up to date"
OF_A_SERVER = {"server"}
"""Sources of the roots of single servers, which `source` does not show."""


def text(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def test_every_key_has_a_row_with_its_values_its_default_and_a_sentence() -> None:
    found = rows(CONFIGURATION.read_text(encoding="utf-8"))
    assert {name: key for name, (key, _) in found.items()} == keys(), ADVICE
    assert [name for name, (_, said) in found.items() if said in {"", UNSAID}] == []


def test_a_new_key_gets_a_row_beside_its_neighbours_and_a_wrong_one_is_mended() -> None:
    page = CONFIGURATION.read_text(encoding="utf-8")
    line = next(line for line in page.splitlines() if line.startswith("| `roots.strict`"))
    changed = page.replace(f"{line}\n", "").replace("| `8765` |", "| `1` |")
    mended = with_keys(changed).splitlines()
    assert any(row.startswith("| `roots.strict` |") and row.endswith("| ... |") for row in mended)
    at = next(at for at, row in enumerate(mended) if row.startswith("| `roots.strict` |"))
    assert mended[at - 1].startswith("| `roots.")
    assert next(row for row in page.splitlines() if "`listen.port`" in row) in mended


def words(texts: dict[str, str]) -> dict[str, list[str]]:
    """Return the words of texts: versions of Python break long lines at different ones."""
    return {name: text.split() for name, text in texts.items()}


def test_every_command_has_its_help() -> None:
    shown = helps_in(COMMAND_LINE.read_text(encoding="utf-8"))
    assert words(shown) == words(helps()), ADVICE


def test_a_new_command_is_put_at_the_end() -> None:
    page = COMMAND_LINE.read_text(encoding="utf-8")
    before, _, rest = page.partition("## `roots-hub plan`")
    mended = with_helps(before + rest.partition("\n## ")[2])
    assert words(helps_in(mended)) == words(helps())


def test_the_example_config_loads(tmp_path: Path) -> None:
    context = LoadContext(tmp_path, str(tmp_path), {})
    config = load_config(str(PROJECT / "hub.yaml.example"), context).config
    assert set(config.servers) == {"files", "issues"}


def test_the_example_config_has_every_key() -> None:
    schema = json_schema()
    shapes = [schema, *schema["$defs"].values()]
    known = {key for shape in shapes for key in shape.get("properties", {})}
    shown = set(re.findall(r"(?:^|[{,\s])(\w+):", (PROJECT / "hub.yaml.example").read_text()))
    assert {"version", "servers", "token", "arguments"} <= known
    assert known - shown == set()


def first_cells(page: str, heading: str) -> list[str]:
    """Return the names in the first cells of the table whose first column has this heading."""
    table = page.partition(f"| {heading} |")[2].partition("\n\n")[0]
    return re.findall(r"`(\w+)`", " ".join(line.split("|")[1] for line in table.splitlines()[2:]))


def test_the_answer_of_get_roots_is_shown_and_explained_field_by_field() -> None:
    schema = BUILTINS[0]["outputSchema"]
    assert isinstance(schema, dict)
    assert isinstance(fields := schema["properties"], dict)
    page = text("get-roots.md")
    (shown,) = [block.text for block in blocks(DOCS / "get-roots.md") if block.language == "json"]
    assert re.findall(r'^  "(\w+)":', shown, re.MULTILINE) == list(fields)
    assert first_cells(page, "field") == list(fields)
    of_a_server = set(re.findall(r'^      "(\w+)":', shown, re.MULTILINE))
    assert of_a_server | {"reason", "failures", "retryAt"} == set(first_cells(page, "of a server"))
    (row,) = re.findall(r"^\| `source` .*$", page, re.MULTILINE)
    assert set(re.findall(r"`([\w-]+)`", row)) - {"source"} == set(get_args(Source)) - OF_A_SERVER
    (row,) = re.findall(r"^\| `state` .*$", page, re.MULTILINE)
    states = {state.__name__.lower() for state in get_args(ChildState)} | {"idle", "cached"}
    assert set(re.findall(r"`([\w-]+)`", row)) - {"state"} == states


def test_the_audit_log_is_explained_field_by_field() -> None:
    page = text("audit-log.md")
    (line,) = [block.text for block in blocks(DOCS / "audit-log.md") if block.language == "json"]
    fields = list(AuditRecord.__struct_fields__)
    assert re.findall(r'"(\w+)": ', line) == fields
    assert first_cells(page, "field") == fields
    (row,) = re.findall(r"^\| `verdict` .*$", page, re.MULTILINE)
    assert set(get_args(CallOutcome)) <= set(re.findall(r"`(\w+)`", row))


def reasons() -> Iterator[tuple[str, ...]]:
    """Yield the reasons of refusals in the code, each in the parts that do not vary."""
    for module in [*(PROJECT / "hub/guard").rglob("*.py"), *(PROJECT / "hub/paths").rglob("*.py")]:
        tree = ast.parse(module.read_text(encoding="utf-8"))
        docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            match node:
                case ast.Call(func=ast.Name("PathError"), args=[ast.JoinedStr(values), *_]):
                    yield tuple(one.value for one in values if isinstance(one, ast.Constant))  # pyright: ignore[reportReturnType] - parts of an f-string
                case ast.Call(func=ast.Name("PathError"), args=[ast.Constant(str(said)), *_]):
                    yield (said,)
                case ast.Constant(str(said)) if (
                    said.startswith(("it ", "the call ", "the arguments ", "outside the "))
                    and id(node) not in docstrings
                ):
                    yield (said,)
                case _:
                    pass


def test_every_reason_of_a_refusal_is_explained() -> None:
    listed = re.findall(r"^\| `(.*?)` \|", text("refused.md"), re.MULTILINE)
    missing = [
        parts for parts in set(reasons()) if not any(all(p in row for p in parts) for row in listed)
    ]
    assert missing == []


def test_a_refusal_reads_as_it_is_shown() -> None:
    (shown,) = [block.text for block in blocks(DOCS / "refused.md") if block.language == "text"]
    roots = ("file:///home/user/project", "file:///home/user/documents")
    assert shown == f"{Refused('/path', '/etc/passwd', OUTSIDE, roots).message()}\n"


def test_what_the_hub_says_at_its_start_reads_as_it_is_shown() -> None:
    (shown,) = [block.text for block in blocks(DOCS / "serve-http.md") if block.language == "text"]
    url = "http://127.0.0.1:8765/mcp"
    said = Served(
        config="hub.yaml",
        servers="files, git",
        folder="what each client shares; for clients that share none: /home/user/project (config)",
        rights="read and write",
    )
    lines = [f"roots-hub serves {url}", *said.lines(), "For a client's config:"]
    assert shown == "\n".join([*lines, client_config(url, needs_token=False), ""])


GUARD = text("guard.md")


def test_the_example_keys_in_the_guards_page_are_of_the_kinds_it_says() -> None:
    found = re.findall(r"^\| (path|glob|weak|payload|command) \| (`.*?`) \|", GUARD, re.MULTILINE)
    shown = {kind: re.findall(r"`(.*?)`", names) for kind, names in found}
    shown["neutral"] = re.findall(r'`{"(\w+)": "/usr"}` under a key that does not tell', GUARD)
    assert len(shown) == 6
    for kind, names in shown.items():
        assert names
        assert {key: kind_of_key(key)[0].value for key in names} == dict.fromkeys(names, kind)


@pytest.mark.parametrize("name", ["configuration.md", "command-line.md"])
def test_the_page_is_written_by_its_program(name: str) -> None:
    write = {"configuration.md": with_keys, "command-line.md": with_helps}[name]
    assert write(text(name)) == text(name), ADVICE
