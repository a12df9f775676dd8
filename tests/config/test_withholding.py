from __future__ import annotations

from pathlib import Path
from typing import Any

from hub.config.fields import LoadContext
from hub.config.inheritance import missed
from hub.config.models import HubConfig
from hub.config.operator_roots import PathContext
from hub.config.to_specs import usable_servers
from hub.paths.resolve import Flavour
from hub.system.machine import OsDisk

ENVIRONMENT = {"GITHUB_TOKEN": "s3cret", "EDITOR": "vi", "PATH": "/bin"}
PLACE = PathContext(OsDisk(), Flavour.POSIX, None, "/", ENVIRONMENT)


def told(server: dict[str, Any]) -> list[str]:
    raw = {"version": 1, "servers": {"s": server}}
    context = LoadContext(Path("/"), None, ENVIRONMENT)
    (spec,) = usable_servers(HubConfig.model_validate(raw, context=context), PLACE).specs.values()
    return [f"{what}: {fix}" for what, fix in missed(spec, ENVIRONMENT)]


def test_a_variable_that_a_shell_would_expand_and_is_withheld_is_named_with_a_fix() -> None:
    script = {"command": "sh", "args": ["-c", "curl -H $GITHUB_TOKEN | $EDITOR"]}
    assert told(script) == [
        "uses GITHUB_TOKEN, which its process does not inherit (environment: default): "
        'write env: {GITHUB_TOKEN: "${GITHUB_TOKEN}"}'
    ]
    (token, editor) = told({**script, "environment": ["LC_*"]})
    assert "uses GITHUB_TOKEN" in token
    assert "uses EDITOR" in editor
    assert "(environment: [LC_*])" in editor


def test_an_inherited_variable_is_not_reported() -> None:
    script = {"command": "sh", "args": ["-c", "curl -H $GITHUB_TOKEN"]}
    assert told({**script, "env": {"GITHUB_TOKEN": "${GITHUB_TOKEN}"}}) == []
    assert told({**script, "environment": "all"}) == []
    assert told({**script, "environment": ["GITHUB_*"]}) == []
    assert told({"command": "serve", "args": ["--token", "${GITHUB_TOKEN}", "${roots}"]}) == []


def test_a_variable_passed_to_a_container_by_name_is_reported() -> None:
    (said,) = told({"command": "docker", "args": ["run", "-e", "GITHUB_TOKEN", "image"]})
    assert "uses GITHUB_TOKEN" in said


def test_an_unexpanded_header_is_named_without_its_value() -> None:
    remote = {"url": "https://example.com/", "headers": {"Authorization": "Bearer $GITHUB_TOKEN"}}
    assert told(remote) == ["$GITHUB_TOKEN is sent literally, not replaced: write ${GITHUB_TOKEN}"]
    filled = {"url": "https://example.com/", "headers": {"Authorization": "Bearer ${GITHUB_TOKEN}"}}
    assert told(filled) == []
