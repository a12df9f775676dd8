from __future__ import annotations

from pathlib import Path
from typing import Any

from hub.config.fields import LoadContext
from hub.config.models import HubConfig
from hub.config.operator_roots import PathContext
from hub.config.to_specs import usable_servers
from hub.paths.resolve import Flavour
from hub.specs import ServerSpec
from hub.system.machine import OsDisk

TERMINAL = {"PATH": "/bin", "LANG": "C", "SHLVL": "1", "TERM": "xterm", "WINDOWID": "7"}
ANOTHER = {**TERMINAL, "SHLVL": "2", "TERM": "vt100", "WINDOWID": "8", "SSH_AUTH_SOCK": "/run/a"}


def spec_in(variables: dict[str, str], *, is_shared: bool = False, **keys: Any) -> ServerSpec:
    raw = {"version": 1, "servers": {"s": {"command": "serve", **keys}}}
    context = LoadContext(Path("/"), None, variables)
    config = HubConfig.model_validate(raw, context=context)
    place = PathContext(OsDisk(), Flavour.POSIX, None, "/", variables, is_shared=is_shared)
    (spec,) = usable_servers(config, place).specs.values()
    return spec


def test_a_command_for_the_secret_of_a_login_has_variables() -> None:
    auth = {"client_id": "x", "client_secret": "${cmd:pass show x}", "issuer": "https://i.example"}
    raw = {"version": 1, "servers": {"s": {"url": "https://h.example/", "auth": auth}}}
    config = HubConfig.model_validate(raw, context=LoadContext(Path("/"), None, TERMINAL))
    place = PathContext(OsDisk(), Flavour.POSIX, None, "/", TERMINAL)
    (spec,) = usable_servers(config, place).specs.values()
    assert spec.for_commands == TERMINAL


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


def test_a_fingerprint_has_the_reference_to_a_secret_and_not_its_value(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("one")
    before = spec_in(TERMINAL, env={"A": f"${{file:{file}}}"})
    file.write_text("two")
    assert spec_in(TERMINAL, env={"A": f"${{file:{file}}}"}).fingerprint == before.fingerprint
    references = [
        f"${{file:{file}2}}",
        f"$${{file:{file}}}",
        f"x${{file:{file}}}",
        f"${{cmd:{file}}}",
    ]
    prints = [spec_in(TERMINAL, env={"A": one}).fingerprint for one in references]
    assert len({before.fingerprint, *prints}) == 5
    ids = [spec_in(TERMINAL, env={"A": one}).catalog_id for one in references]
    assert len({before.catalog_id, *ids}) == 5


def test_a_command_gets_what_servers_may_inherit_and_its_servers_are_told_apart_by_that() -> None:
    variables = {**TERMINAL, "HUB_TOKEN": "t", "VAULT_TOKEN": "v"}
    env = {"A": "${cmd:vault read it}"}
    spec = spec_in(variables, env=env)
    assert "VAULT_TOKEN" not in spec.inherits
    assert spec.for_commands == {**TERMINAL, "VAULT_TOKEN": "v"}
    another = spec_in({**variables, "VAULT_TOKEN": "w"}, env=env)
    assert another.fingerprint != spec.fingerprint
    assert another.catalog_id == spec.catalog_id
    assert spec_in(variables, env={"A": "${file:/x}"}).for_commands == {}


def test_in_a_shared_hub_a_command_gets_what_all_sessions_have() -> None:
    env = {"A": "${cmd:vault read it}"}
    one, two = (spec_in(each, is_shared=True, env=env) for each in (TERMINAL, ANOTHER))
    assert "WINDOWID" not in one.for_commands
    assert one.for_commands["PATH"] == "/bin"
    assert two.for_commands.items() >= one.for_commands.items()


def test_servers_that_choose_alike_have_the_same_variables_not_a_copy_each() -> None:
    servers: dict[str, Any] = {
        "a": {"command": "a"},
        "b": {"command": "b"},
        "c": {"command": "c", "environment": []},
    }
    config = HubConfig.model_validate({"version": 1, "servers": servers})
    place = PathContext(OsDisk(), Flavour.POSIX, None, "/", TERMINAL)
    a, b, c = (spec.inherits for spec in usable_servers(config, place).specs.values())
    assert a is b
    assert c is not a
