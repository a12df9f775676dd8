from __future__ import annotations

import itertools
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.app.hub import configured
from hub.app.machine import Setting, this_machine
from hub.config.models import HubConfig
from hub.config.to_specs import globs_for, stricter
from hub.errors import ConfigError
from hub.guard.policy import Access, AccessRule, Mode, Policy
from hub.sessions.services import Configured
from hub.values import ServerName


def made(profile: dict[str, Any], **keys: Any) -> tuple[Configured, Configured]:
    """Return what a config says for all, and for the clients of its profile."""
    servers = {"files": {"command": "x"}, "git": {"command": "y", "share": "all"}}
    raw = {"version": 1, "servers": servers, **keys, "profiles": {"p": profile}}
    whole = configured(HubConfig.model_validate(raw), Setting(), this_machine(os.environ))
    return whole, whole.profiles["p"]


def test_a_profile_without_keys_takes_nothing_away() -> None:
    whole, own = made({})
    files = ServerName("files")
    assert own.servers[files] == whole.servers[files]
    assert (own.names, own.roots, own.left_out) == (whole.names, whole.roots, [])


def test_a_profile_has_the_servers_that_it_names() -> None:
    whole, own = made({"servers": ["g*"]})
    assert [*own.servers] == ["git"]
    assert [*whole.servers] == ["files", "git"]
    assert own.names is whole.names


@pytest.mark.parametrize(
    ("tools", "offered"),
    [
        ({}, {"read", "read_all", "write"}),
        ({"allow": ["read*"]}, {"read", "read_all"}),
        ({"allow": ["files/read"]}, {"read"}),
        ({"allow": ["git/read"]}, set[str]()),
        ({"deny": ["write"]}, {"read", "read_all"}),
        ({"deny": ["*/write"]}, {"read", "read_all"}),
        ({"deny": ["git/*"]}, {"read", "read_all", "write"}),
        ({"allow": ["read*"], "deny": ["read_*"]}, {"read"}),
        ({"allow": ["hidden", "read"]}, {"read"}),
    ],
)
def test_a_tool_must_be_allowed_by_the_server_and_by_the_profile(
    tools: dict[str, Any], offered: set[str]
) -> None:
    servers = {"files": {"command": "x", "tools": {"deny": ["hidden"]}}}
    _, own = made({"tools": tools}, servers=servers)
    offer = own.servers[ServerName("files")].offer
    names = ("read", "read_all", "write", "hidden")
    assert {name for name in names if offer.includes(name)} == offered


def test_globs_may_name_their_server() -> None:
    globs = ("a", "files/b", "git/c", "f*/d/e")
    assert globs_for(ServerName("files"), globs) == ("a", "b", "d/e")


def test_the_ceilings_of_both_count(tmp_path: Path) -> None:
    for name in ("a/b", "c"):
        (tmp_path / name).mkdir(parents=True)
    a, b, c = (str(tmp_path / name) for name in ("a", "a/b", "c"))

    def ceiling(profile: list[str], *whole: str) -> tuple[str, ...] | None:
        _, own = made({"roots": {"ceiling": profile}}, roots={"ceiling": whole})
        found = own.roots.ceiling
        return None if found is None else found.paths

    assert ceiling([b]) == (b,)
    assert ceiling([], a) == (a,)
    assert ceiling([b], a) == (b,)
    assert ceiling([a], b) == (b,)
    assert ceiling([c], a) == ()
    assert ceiling([f"{tmp_path}/gone"]) == ()


def test_what_is_denied_for_all_stays_denied() -> None:
    _, own = made({"roots": {"deny": ["*.pem"]}}, roots={"deny": ["*.key", "!open.key"]})
    deny = own.servers[ServerName("files")].policy.deny
    refused = {name: deny.refuses((name,), folded=False) for name in ("a.pem", "a.key", "open.key")}
    assert refused == {"a.pem": True, "a.key": True, "open.key": False}


def test_the_guard_is_only_made_stricter() -> None:
    servers = {
        "files": {
            "command": "x",
            "guard": {"mode": "off", "on_refused": "ask"},
            "tools": {"overrides": {"read": {"guard": "report"}}},
        }
    }
    guard = {"mode": "enforce", "symlinks": "deny", "refuse_options": True, "on_refused": "refuse"}
    for profile, mode in (({}, Mode.OFF), ({"guard": guard}, Mode.ENFORCE)):
        _, own = made(profile, servers=servers)
        spec = own.servers[ServerName("files")]
        assert spec.policy.mode is mode
        assert (spec.policy.symlinks == "deny") is (mode is Mode.ENFORCE)
        assert (spec.policy_of("read").policy.mode is Mode.ENFORCE) is (mode is Mode.ENFORCE)


def test_a_process_that_all_share_is_confined_as_for_all(tmp_path: Path) -> None:
    access = [{"path": str(tmp_path), "access": "read"}]
    whole, own = made({"roots": {"access": access}})
    files, git = (own.servers[ServerName(name)] for name in ("files", "git"))
    assert files.confined_by is None
    assert git.confined_by == whole.servers[ServerName("git")].policy
    assert git.policy.access
    assert files.fingerprint == whole.servers[ServerName("files")].fingerprint


def test_a_path_that_cannot_be_followed_is_told_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    access = [{"path": f"{tmp_path}/loop/x", "access": "read"}]
    with pytest.raises(ConfigError, match=r"profiles\.p\.roots\.access\[0\]\.path"):
        made({"roots": {"access": access}})


PLACES = [parts for depth in range(4) for parts in itertools.product("ab", repeat=depth)]
RULES = st.lists(
    st.builds(AccessRule, st.sampled_from(PLACES), st.sampled_from(["read", "write"])),
    max_size=5,
    unique_by=lambda rule: rule.parts,
).map(tuple)


@given(RULES, RULES)
def test_rules_of_both_allow_what_each_allows(
    one: tuple[AccessRule, ...], other: tuple[AccessRule, ...]
) -> None:
    both = Policy(access=stricter(one, other))
    for place in itertools.chain(PLACES, [("a", "b", "a", "b"), ("c",)]):
        each: set[Access] = {Policy(access=rules).access_at(place) for rules in (one, other)}
        assert both.access_at(place) == ("read" if "read" in each else "write")
