from __future__ import annotations

from pathlib import Path
from typing import Any

from hub.config.fields import LoadContext
from hub.config.models import HubConfig
from hub.config.operator_roots import PathContext
from hub.config.to_specs import server_specs
from hub.paths.resolve import Flavour
from hub.specs import ServerSpec
from hub.system.disk import OsDisk

TERMINAL = {"PATH": "/bin", "LANG": "C", "SHLVL": "1", "TERM": "xterm", "WINDOWID": "7"}
ANOTHER = {**TERMINAL, "SHLVL": "2", "TERM": "vt100", "WINDOWID": "8", "SSH_AUTH_SOCK": "/run/a"}


def spec_in(variables: dict[str, str], **keys: Any) -> ServerSpec:
    raw = {"version": 1, "servers": {"s": {"command": "serve", **keys}}}
    context = LoadContext(Path("/"), None, variables)
    config = HubConfig.model_validate(raw, context=context)
    place = PathContext(OsDisk(), Flavour.POSIX, None, "/", variables)
    (spec,) = server_specs(config, place).values()
    return spec


def test_another_terminal_lists_the_same() -> None:
    choices: list[dict[str, Any]] = [{}, {"environment": "all"}, {"environment": "minimal"}]
    for keys in choices:
        one, two = spec_in(TERMINAL, **keys), spec_in(ANOTHER, **keys)
        assert one.catalog_id == two.catalog_id
    assert spec_in(TERMINAL).fingerprint != spec_in(ANOTHER).fingerprint


def test_what_a_server_may_list_by_is_told_apart() -> None:
    ids = [
        spec_in(TERMINAL).catalog_id,
        spec_in({**TERMINAL, "PATH": "/usr/bin"}).catalog_id,
        spec_in({**TERMINAL, "HTTPS_PROXY": "http://proxy"}).catalog_id,
        spec_in(TERMINAL, environment=["SHLVL"]).catalog_id,
        spec_in(ANOTHER, environment=["SHLVL"]).catalog_id,
        spec_in({**TERMINAL, "API_TOKEN": "one"}, environment="all").catalog_id,
        spec_in({**TERMINAL, "API_TOKEN": "two"}, environment="all").catalog_id,
        spec_in(TERMINAL, era="modern").catalog_id,
        spec_in(TERMINAL, confine="auto").catalog_id,
    ]
    assert len({*ids}) == len(ids)
