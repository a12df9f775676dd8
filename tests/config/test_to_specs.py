from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from hub.config.fields import LoadContext
from hub.config.models import HubConfig
from hub.config.operator_roots import PathContext
from hub.config.to_specs import usable_servers
from hub.errors import ConfigError
from hub.guard.keys.vocabulary import Kind
from hub.guard.policy import Mode
from hub.launch.plan import LaunchTemplate
from hub.paths.resolve import Flavour
from hub.roots.roots import UnsafePaths
from hub.specs import RemoteTarget, ServerSpec
from hub.system.machine import OsDisk
from hub.values import ServerName
from tests.kit.trees import plant

FILES = "@modelcontextprotocol/server-filesystem"


def specs(
    servers: dict[str, Any], directory: Path = Path("/"), *, unsafe: bool = True, **keys: Any
) -> dict[ServerName, ServerSpec]:
    config = HubConfig.model_validate({"version": 1, "servers": servers, **keys})
    avoided = UnsafePaths(None, Flavour.POSIX) if unsafe else None
    place = PathContext(OsDisk(), Flavour.POSIX, avoided, str(directory), {})
    return usable_servers(config, place).specs


def spec(server: dict[str, Any], directory: Path = Path("/"), **keys: Any) -> ServerSpec:
    (found,) = specs({"s": server}, directory, **keys).values()
    return found


def test_servers_keep_their_order() -> None:
    names = ["b", "a", "c"]
    assert list(specs({name: {"command": "x"} for name in names})) == names


def test_missing_keys_have_the_defaults_of_a_spec() -> None:
    found = spec({"command": "x"}, unsafe=False)
    assert isinstance(found.target, LaunchTemplate)
    assert found == ServerSpec(
        found.name, found.target, fingerprint=found.fingerprint, catalog_id=found.catalog_id
    )


def test_every_key_of_a_server_arrives() -> None:
    found = spec(
        {
            "command": "x",
            "args": ["a"],
            "roots": {"answer": False},
            "share": "session",
            "start": "eager",
            "era": "legacy",
            "start_timeout": 1,
            "timeout": 2,
            "concurrency": 3,
            "idle_stop": 4,
        }
    )
    assert (found.share, found.eager, found.era, found.answer_roots) == (
        "session",
        True,
        "legacy",
        False,
    )
    assert (found.start_timeout, found.timeout, found.concurrency, found.idle_stop) == (1, 2, 3, 4)


def test_a_child_shared_by_all_clients_gets_no_roots() -> None:
    assert not spec({"command": "x", "share": "all"}).answer_roots


def test_a_url_becomes_a_remote_target() -> None:
    found = spec({"url": "https://x/mcp", "headers": {"Authorization": "s"}, "transport": "sse"})
    assert found.target == RemoteTarget("https://x/mcp", {"Authorization": "s"}, "sse")
    assert (found.ceiling, found.directories) == (None, ())


def test_a_servers_own_guard_goes_before_the_hubs() -> None:
    found = specs(
        {
            "own": {"command": "x", "guard": "report"},
            "other": {"command": "x", "guard": {"symlinks": "deny"}},
            "hubs": {"command": "x"},
        },
        guard="off",
        roots={"deny": ["*.key"]},
    )
    modes = [found[ServerName(name)].policy.mode for name in ("own", "other", "hubs")]
    assert modes == [Mode.REPORT, Mode.OFF, Mode.OFF]
    policy = found[ServerName("other")].policy
    assert (policy.symlinks, policy.rewrite) == ("deny", "verbatim")
    assert policy.deny.lines == ("*.key",)


def test_tools_have_policies_and_texts_of_their_own() -> None:
    found = spec(
        {
            "command": "x",
            "tools": {
                "allow": ["a*"],
                "deny": ["ab"],
                "overrides": {
                    "a": {"guard": "off", "access": "read", "description": "Better"},
                    "ac": {"arguments": {"/pattern": "glob"}},
                },
            },
        }
    )
    assert [found.offer.includes(tool) for tool in ("a", "ab", "ac", "b")] == [1, 0, 1, 0]
    assert found.offer.described({"name": "a", "title": "A"}, "a") == {
        "name": "a",
        "title": "A",
        "description": "Better",
    }
    assert "ac" not in found.offer.texts
    assert found.policy_of("a").policy.mode is Mode.OFF
    assert found.policy_of("a").access == "read"
    assert found.policy_of("ac").policy.mode is Mode.ENFORCE
    assert found.policy_of("ac").arguments == {"/pattern": Kind.GLOB}
    assert found.policy_of("b").policy == found.policy


def test_a_pattern_that_gitignore_does_not_have_is_an_error() -> None:
    with pytest.raises(ValidationError) as caught:
        HubConfig.model_validate({"version": 1, "roots": {"deny": ["!"]}})
    assert [error["loc"] for error in caught.value.errors()] == [("roots", "deny")]


def test_access_rules_are_read_with_their_links_followed(tmp_path: Path) -> None:
    top = plant(tmp_path, "code/vendor/", "link => code")
    access = [{"path": f"{top}/link/vendor", "access": "read"}]
    (rule,) = spec({"command": "x"}, top, roots={"access": access}).policy.access
    assert rule.parts == (*top.parts[1:], "code", "vendor")
    assert rule.access == "read"


def test_an_access_rule_for_an_unusable_path_is_an_error(tmp_path: Path) -> None:
    top = plant(tmp_path, "loop => loop")
    with pytest.raises(ConfigError) as caught:
        spec({"command": "x"}, top, roots={"access": [{"path": f"{top}/loop", "access": "read"}]})
    assert caught.value.faults[0].said.startswith(f"roots.access[0].path: {top}/loop: ")


def test_a_filesystem_servers_directories_are_its_ceiling(tmp_path: Path) -> None:
    top = plant(tmp_path, "docs/", "other/", "file.txt")
    args = ["-y", FILES, f"{top}/docs", f"{top}/file.txt", f"{top}/gone", "${roots}"]
    found = spec({"command": "npx", "args": args}, top)
    assert found.directories == (f"{top}/docs",)
    assert found.ceiling is not None
    assert found.ceiling.paths == (f"{top}/docs",)


def test_directories_can_be_named_by_the_environment(tmp_path: Path) -> None:
    top = plant(tmp_path, "docs/")
    environment = {"SHARED": f"{top}/docs"}
    config = HubConfig.model_validate(
        {"version": 1, "servers": {"f": {"command": "npx", "args": [FILES, "${SHARED}"]}}},
        context=LoadContext(top, environment=environment),
    )
    place = PathContext(OsDisk(), Flavour.POSIX, None, str(top), environment)
    assert usable_servers(config, place).specs[ServerName("f")].directories == (f"{top}/docs",)


def test_a_server_that_is_no_filesystem_server_has_no_ceiling(tmp_path: Path) -> None:
    top = plant(tmp_path, "docs/")
    found = spec({"command": "git-server", "args": [f"{top}/docs"]}, top)
    assert (found.directories, found.ceiling) == ((), None)


def test_the_clients_roots_can_stand_in_for_a_servers_directories(tmp_path: Path) -> None:
    top = plant(tmp_path, "docs/")
    server = {"command": "npx", "args": [FILES, f"{top}/docs"], "roots": {"args": "replace"}}
    found = spec(server, top)
    assert (found.directories, found.ceiling) == ((f"{top}/docs",), None)


def test_a_directory_that_is_not_safe_to_share_is_an_error() -> None:
    server = {"command": "npx", "args": [FILES, "/etc"]}
    with pytest.raises(ConfigError) as caught:
        spec(server)
    assert caught.value.faults[0].said == "servers.s.args[1]: /etc: Path is not safe for sharing"
    assert "roots.allow_unsafe" in caught.value.faults[0].fix
    allowed = spec(server, unsafe=False)
    assert allowed.directories == ("/etc",)


def test_an_argument_that_cannot_be_a_path_is_no_directory(tmp_path: Path) -> None:
    top = plant(tmp_path, "loop => loop")
    found = spec({"command": "npx", "args": [FILES, f"{top}/loop", "a\nb"]}, top)
    assert (found.directories, found.ceiling) == ((), None)
