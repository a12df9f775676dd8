"""The pages of docs/: every link leads somewhere, every snippet loads, one word for one thing."""

from __future__ import annotations

import itertools
import json
import plistlib
import re
import shlex
import tomllib
from configparser import ConfigParser
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import yaml

from hub.cli.command_line import parser
from hub.config.fields import LoadContext
from hub.config.load import load_config
from tests.conftest import PROJECT
from tests.kit.pages import PAGES, README, Block, anchor, blocks, headings, links, prose, shown_in
from tests.reference import helps

DOCS = PROJECT / "docs"
BESIDE_PAGES = {".svg"}
INTERNALS = {
    *("architecture.md", "conformance.md", "dependencies.md"),
    *("measurements.md", "performance.md"),
}
"""Pages for those who change the hub: they may name its code's words."""
BANNED = {
    r"handshake[ -]era": "legacy",
    r"\b(?:clients?|servers?|child|children|calls?) of (?:revision )?2026-07-28": "modern",
    r"2026-07-28 (?:clients?|servers?|child)": "modern",
    r"(?:clients?|servers?) of (?:the )?(?:old|new|older|newer) (?:era|protocol)": "legacy, modern",
}


Entry: TypeAlias = "str | list[Entry] | dict[str, Entry]"


def nav() -> list[str]:
    class Loader(yaml.SafeLoader):
        """Reads the file of a site, whose tags name Python functions."""

    Loader.add_multi_constructor("tag:yaml.org,2002:python/name:", lambda *_: None)  # pyright: ignore[reportUnknownMemberType, reportUnknownLambdaType] - untyped
    site = yaml.load((PROJECT / "mkdocs.yml").read_text(encoding="utf-8"), Loader)  # noqa: S506 - a safe one
    return list(_files(site["nav"]))


def _files(entry: Entry) -> list[str]:
    if isinstance(entry, str):
        return [entry]
    below = list(entry.values()) if isinstance(entry, dict) else entry
    return [file for one in below for file in _files(one)]


def test_every_page_is_in_the_nav_once() -> None:
    pages = [path.name for path in DOCS.iterdir() if path.suffix not in BESIDE_PAGES]
    assert sorted(nav()) == sorted(pages)


def test_every_page_can_be_reached_from_the_first() -> None:
    linked = {link.partition("#")[0] for link in links(DOCS / "index.md")}
    assert set(nav()) - linked == {"index.md"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_and_anchor_leads_somewhere(page: Path) -> None:
    for link in links(page):
        name, _, part = link.partition("#")
        target = page.parent / name if name else page
        assert target.exists(), f"{page.name}: {link}"
        outside = page != README and not target.resolve().is_relative_to(DOCS)
        assert not outside, f"{page.name}: {link} is not a part of the site: name it in `code`"
        if part:
            anchors = [anchor(heading) for heading in headings(target)]
            assert anchors.count(part) == 1, f"{page.name}: {link}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_heading_has_one_anchor_wherever_it_is_read(page: Path) -> None:
    """GitHub and the site differ in signs that stand alone and in letters with accents."""
    for heading in headings(page):
        assert "--" not in anchor(heading), heading
        assert anchor(heading).isascii(), heading


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_one_word_for_one_thing(page: Path) -> None:
    text = re.sub(r"\s+", " ", page.read_text(encoding="utf-8"))
    found = {
        match[0]: f"say {say}" for bad, say in BANNED.items() for match in re.finditer(bad, text)
    }
    assert found == {}


BLOCKS = [
    pytest.param(block, id=f"{page.name}-{at}-{block.language}")
    for page in PAGES
    for at, block in enumerate(blocks(page))
]


@pytest.mark.parametrize("block", BLOCKS)
def test_every_snippet_is_what_it_says(block: Block, tmp_path: Path) -> None:
    match block.language:
        case "json":
            json.loads(block.text)
        case "toml":
            tomllib.loads(block.text)
        case "ini":
            ConfigParser(interpolation=None, strict=False).read_string(block.text)
        case "xml":
            plistlib.loads(block.text.encode())
        case "yaml":
            _loads(yaml.safe_load(block.text), tmp_path)
        case "console":
            for shown in shown_in(block):
                _is_known(shown.command)
        case _:
            assert block.language in {
                "",
                "text",
                "mermaid",
                "dockerfile",
                "nginx",
                "caddyfile",
                "haproxy",
            }


def _loads(config: Any, directory: Path) -> None:
    """Check a config, or a part of one, as the hub reads it."""
    if config.keys() & {"extensions", "routes"}:
        return  # Goose's, Envoy's
    whole = {"version": 1, "servers": {"one": {"command": "true"}}} | config
    (directory / "project").mkdir()
    file = directory / "hub.yaml"
    file.write_text(yaml.safe_dump(whole))
    secrets = {"HUB_TOKEN": "t", "CI_TOKEN": "c", "HUB_KEY": "k" * 32, "HUB_SECRET": "s"}
    environment = {**secrets, "HOME": str(directory)}
    load_config(str(file), LoadContext(directory, str(directory), environment))


def _is_known(command: str) -> None:
    """Check that the options of a command of ours exist."""
    words = shlex.split(command.partition(" && ")[0].partition(" | ")[0], comments=True)
    if words[0] == "roots-hub":
        parser().parse_args(words[1:])


def test_every_block_says_what_it_is() -> None:
    assert [page.name for page in PAGES for block in blocks(page) if not block.language] == []


def test_every_option_that_is_named_exists() -> None:
    known = set(re.findall(r"--[a-z][\w-]+", " ".join(helps().values())))
    pages = [page for page in PAGES if page.name not in INTERNALS]
    named = {
        option
        for page in pages
        for code in re.findall(r"`roots-hub ([^`]+)`", prose(page))
        for option in re.findall(r"(?<![\w-])--[a-z][\w-]+", code)
    }
    assert named - known == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_lists_and_tables_begin_after_an_empty_line(page: Path) -> None:
    """GitHub shows them without one as well; the site does not."""
    lines = prose(page).splitlines()
    marks = re.compile(r"- |\d+\. |  |\|")
    glued = [
        line
        for before, line in itertools.pairwise(lines)
        if re.match(r"- |\d+\. |\|", line) and before.strip() and not marks.match(before)
    ]
    assert glued == []
