"""How a change of the config is split: what a running hub takes over, what waits, and why."""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Union, get_args, get_origin

import pytest
from pydantic import BaseModel

from hub.config.fields import LoadContext, Part
from hub.config.listening.listen import PrincipalLimits
from hub.config.models import HubConfig
from hub.config.reload.orders import NEEDS_RESTART, ORDERS
from hub.config.reload.tightening import ConfigChange, config_change
from hub.specs import LeftOut
from hub.values import ServerName
from tests.conftest import PROJECT

S = {"command": "s"}


def made(raw: Mapping[str, Any]) -> HubConfig:
    """Return the config with these keys; a server `s` unless it says otherwise."""
    whole = {"version": 1, "servers": {"s": S}, **raw}
    context = LoadContext(Path("/top"), "/home/user", {})
    return HubConfig.model_validate(whole, context=context)


def server(**keys: Any) -> dict[str, Any]:
    return {"servers": {"s": {**S, **keys}}}


def located(path: str) -> tuple[str, ...] | None:
    return None if "gone" in path else tuple(path.strip("/").split("/"))


def change(
    old: Mapping[str, Any], new: Mapping[str, Any], *, only_tightens: bool = True
) -> ConfigChange:
    return config_change(made(old), made(new), only_tightens=only_tightens, locate=located)


def summary(found: ConfigChange) -> tuple[list[str], list[str]]:
    """Return the keys that are taken over, and those that wait."""
    return [*found.taken], [one.key for one in found.waiting]


# Every key is classified


def models_in(annotation: Any) -> Iterator[type[Part]]:
    """Yield the models that an annotation may have as its value, or as values of a mapping."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation  # pyright: ignore[reportReturnType] - all models of the config are parts
    elif get_origin(annotation) in {Annotated, Union, types.UnionType}:
        for inner in get_args(annotation):
            yield from models_in(inner)


def patterns(model: type[BaseModel], at: str = "") -> Iterator[str]:
    """Yield all keys of a config. A list is one key, a mapping of models one for each name."""
    for name, field in model.model_fields.items():
        if model is HubConfig and name == "profiles":
            yield name  # it is one key, but for the limits
            yield from patterns(PrincipalLimits, "profiles.*.limits.")
            continue
        annotation: Any = field.annotation
        inner, here = [*models_in(annotation)], f"{at}{name}"
        if get_origin(annotation) is dict and (values := [*models_in(get_args(annotation)[1])]):
            for value in values:
                yield from patterns(value, f"{here}.*.")
        elif inner:
            for value in inner:
                yield from patterns(value, f"{here}.")
        else:
            yield here


def test_the_order_of_each_key_is_decided() -> None:
    """A new key needs a decision in `hub/config/reload/orders.py`: when does it tighten?"""
    wholes = {"servers", "servers.*", "servers.*.auth", "audit", "listen.auth"}
    assert set(patterns(HubConfig)) == ORDERS.keys() - wholes


def test_a_key_without_an_order_waits() -> None:
    class More(HubConfig):
        more: int = 0

    old, new = More(version=1), More(version=1, more=1)
    found = config_change(old, new, only_tightens=True, locate=located)
    assert summary(found) == ([], ["more"])
    assert found.waiting[0].why == "it is not known to tighten"


def test_what_needs_a_restart_is_a_key() -> None:
    keys = set(patterns(HubConfig))
    assert all(
        any(key == one or key.startswith(f"{one}.") for key in keys) for one in NEEDS_RESTART
    )


def test_the_documentation_names_what_needs_a_restart() -> None:
    text = " ".join((PROJECT / "docs/config-reload.md").read_text(encoding="utf-8").split())
    *most, last = (f"`{key}`" for key in NEEDS_RESTART)
    assert f"A restart is needed for {', '.join(most)} and {last}." in text
    example = (PROJECT / "hub.yaml.example").read_text(encoding="utf-8").splitlines()
    told = " ".join(line for line in example if "restart" in line)
    assert [key for key in NEEDS_RESTART if key.rpartition(".")[2] not in told] == []


# All of it, where no call can write the file

LOOSER: list[tuple[dict[str, Any], dict[str, Any], list[str]]] = [
    ({}, {"guard": "report"}, ["guard.mode"]),
    ({}, {"guard": {"on_refused": "ask"}}, ["guard.on_refused"]),
    ({"guard": {"symlinks": "deny"}}, {}, ["guard.symlinks"]),
    ({}, {"guard": {"rewrite": "canonical"}}, ["guard.rewrite"]),
    ({}, {"servers": {"s": S, "t": {"command": "t"}}}, ["servers.t"]),
    ({}, {"servers": {"s": {"url": "http://h/mcp"}}}, ["servers.s"]),
    ({}, server(command="other"), ["servers.s.command"]),
    ({}, server(args=["x"]), ["servers.s.args"]),
    (server(args=["x"]), {}, ["servers.s.args"]),
    (server(env={"READ_ONLY": "1"}), {}, ["servers.s.env"]),
    ({}, server(cwd="/x"), ["servers.s.cwd"]),
    ({}, server(environment="all"), ["servers.s.environment"]),
    (server(environment=["A"]), server(environment=["A*"]), ["servers.s.environment"]),
    (server(environment="minimal"), server(environment=["A"]), ["servers.s.environment"]),
    (server(confine="auto"), {}, ["servers.s.confine.mode"]),
    (
        server(confine="auto"),
        server(confine={"mode": "auto", "write": ["/a"]}),
        ["servers.s.confine.write"],
    ),
    (
        server(confine={"mode": "require", "abi": 3}),
        server(confine={"mode": "auto", "read": ["/r"]}),
        ["servers.s.confine.mode", "servers.s.confine.read", "servers.s.confine.abi"],
    ),
    (
        server(confine="auto"),
        server(confine={"mode": "auto", "allow": ["userns"]}),
        ["servers.s.confine.allow"],
    ),
    (server(share="session"), {}, ["servers.s.share"]),
    (server(share="all"), server(share="session"), ["servers.s.share"]),
    (server(timeout=5), {}, ["servers.s.timeout"]),
    (server(tools={"allow": ["read_*"]}), {}, ["servers.s.tools.allow"]),
    (server(tools={"deny": ["write_*"]}), {}, ["servers.s.tools.deny"]),
    ({}, server(guard="off"), ["servers.s.guard.mode"]),
    (
        server(tools={"overrides": {"t": {"access": "write"}}}),
        {},
        ["servers.s.tools.overrides.t.access"],
    ),
    (
        server(tools={"overrides": {"t": {"arguments": {"/a": "path"}}}}),
        {},
        ["servers.s.tools.overrides.t.arguments"],
    ),
    (
        {},
        server(tools={"overrides": {"t": {"arguments": {"/a": "path"}}}}),
        ["servers.s.tools.overrides.t.arguments"],
    ),
    (
        {},
        server(tools={"overrides": {"t": {"description": "Do as I say."}}}),
        ["servers.s.tools.overrides.t.description"],
    ),
    (
        {"guard": "report", **server(tools={"overrides": {"t": {"guard": "enforce"}}})},
        {"guard": "report"},
        ["servers.s.tools.overrides.t.guard"],
    ),
    ({"roots": {"deny": ["a"]}}, {}, ["roots.deny"]),
    ({"roots": {"deny": ["a"]}}, {"roots": {"deny": ["a", "!b"]}}, ["roots.deny"]),
    ({"roots": {"deny": ["!b", "a"]}}, {"roots": {"deny": ["a", "!b"]}}, ["roots.deny"]),
    ({"roots": {"fallback": ["a"]}}, {"roots": {"fallback": ["a", "b"]}}, ["roots.fallback"]),
    ({}, {"roots": {"fallback": ["a"]}}, ["roots.fallback"]),
    ({"roots": {"fallback": ["a"]}}, {}, ["roots.fallback"]),
    ({"roots": {"fallback": []}}, {}, ["roots.fallback"]),
    ({}, {"roots": {"detect": True}}, ["roots.detect"]),
    ({"roots": {"detect": True}}, {}, ["roots.detect"]),
    ({"roots": {"ceiling": ["a"]}}, {}, ["roots.ceiling"]),
    ({"roots": {"ceiling": ["a"]}}, {"roots": {"ceiling": ["b"]}}, ["roots.ceiling"]),
    ({"roots": {"ceiling": ["a"]}}, {"roots": {"ceiling": ["a/gone"]}}, ["roots.ceiling"]),
    ({"roots": {"access": [{"path": "a", "access": "read"}]}}, {}, ["roots.access"]),
    ({}, {"roots": {"access": [{"path": "a", "access": "write"}]}}, ["roots.access"]),
    ({}, {"roots": {"allow_unsafe": True}}, ["roots.allow_unsafe"]),
    ({"roots": {"when_missing": "deny"}}, {}, ["roots.when_missing"]),
    ({}, {"roots": {"reuse": 60}}, ["roots.reuse"]),
    ({}, {"max_children": 65}, ["max_children"]),
    ({"max_children_per_session": 2}, {}, ["max_children_per_session"]),
    ({"listen": {"token": "a"}}, {"listen": {"token": "b"}}, ["listen.token"]),
    ({}, {"listen": {"origins": ["http://a"]}}, ["listen.origins"]),
    ({}, {"instructions": "Obey."}, ["instructions"]),
    ({}, {"names": "never"}, ["names"]),
    ({}, {"audit": {"file": "a"}}, ["audit"]),
    ({"audit": {"file": "a"}}, {"audit": {"file": "b"}}, ["audit.file"]),
]
"""The running config, a new one that allows more or cannot be ranked, and the keys that differ."""


@pytest.mark.parametrize(("old", "new", "keys"), LOOSER)
def test_what_loosens_waits_where_calls_may_write_the_file(
    old: dict[str, Any], new: dict[str, Any], keys: list[str]
) -> None:
    found = change(old, new)
    assert summary(found) == ([], keys)
    assert found.config == made(old)
    assert all(one.why for one in found.waiting)


@pytest.mark.parametrize(("old", "new", "keys"), LOOSER)
def test_what_loosens_is_taken_over_where_they_may_not(
    old: dict[str, Any], new: dict[str, Any], keys: list[str]
) -> None:
    found = change(old, new, only_tightens=False)
    assert summary(found) == (keys, [])
    assert found.config == made(new)


TIGHTER: list[tuple[dict[str, Any], dict[str, Any], list[str]]] = [
    ({"guard": "off"}, {"guard": "report"}, ["guard.mode"]),
    ({"guard": {"on_refused": "ask"}}, {}, ["guard.on_refused"]),
    ({}, {"guard": {"symlinks": "deny"}}, ["guard.symlinks"]),
    ({}, {"guard": {"refuse_options": True}}, ["guard.refuse_options"]),
    ({"servers": {"s": S, "t": {"command": "t"}}}, {}, ["servers.t"]),
    (server(guard="off"), {}, ["servers.s.guard.mode"]),
    ({}, server(environment="minimal"), ["servers.s.environment"]),
    (server(environment=["A*", "B"]), server(environment=["AB"]), ["servers.s.environment"]),
    ({}, server(confine="auto"), ["servers.s.confine.mode"]),
    (
        server(confine={"mode": "auto", "read": ["/r"], "write": ["/w"]}),
        server(confine={"mode": "require", "read": ["/r/a", "/w/b"], "abi": 2}),
        [f"servers.s.confine.{key}" for key in ("mode", "read", "write", "abi")],
    ),
    ({}, server(share="session"), ["servers.s.share"]),
    ({}, server(timeout=5, concurrency=1), ["servers.s.timeout", "servers.s.concurrency"]),
    ({}, server(tools={"allow": ["read_*"]}), ["servers.s.tools.allow"]),
    (
        server(tools={"allow": ["read_*"], "deny": ["x"]}),
        server(tools={"allow": ["read_file"], "deny": ["x*"]}),
        ["servers.s.tools.allow", "servers.s.tools.deny"],
    ),
    (
        server(tools={"overrides": {"t": {"access": "read", "arguments": {"/a": "ignore"}}}}),
        {},
        [f"servers.s.tools.overrides.t.{key}" for key in ("access", "arguments")],
    ),
    (
        {"guard": "report"},
        {"guard": "report", **server(tools={"overrides": {"t": {"guard": "enforce"}}})},
        ["servers.s.tools.overrides.t.guard"],
    ),
    ({}, {"roots": {"deny": ["a"]}}, ["roots.deny"]),
    ({"roots": {"deny": ["a", "!b"]}}, {"roots": {"deny": ["c", "a"]}}, ["roots.deny"]),
    ({"roots": {"fallback": ["a", "b"]}}, {"roots": {"fallback": ["b"]}}, ["roots.fallback"]),
    ({"roots": {"fallback": ["a"]}}, {"roots": {"fallback": ["a/b"]}}, ["roots.fallback"]),
    ({"roots": {"fallback": ["a"]}}, {"roots": {"fallback": []}}, ["roots.fallback"]),
    ({}, {"roots": {"fallback": []}}, ["roots.fallback"]),
    ({}, {"roots": {"ceiling": ["a"]}}, ["roots.ceiling"]),
    ({"roots": {"ceiling": ["a", "b"]}}, {"roots": {"ceiling": ["a"]}}, ["roots.ceiling"]),
    ({"roots": {"ceiling": ["a"]}}, {"roots": {"ceiling": ["a/b"]}}, ["roots.ceiling"]),
    ({}, {"roots": {"access": [{"path": "a", "access": "read"}]}}, ["roots.access"]),
    ({"roots": {"allow_unsafe": True}}, {}, ["roots.allow_unsafe"]),
    (
        {},
        {"roots": {"when_missing": "deny", "strict": True}},
        ["roots.when_missing", "roots.strict"],
    ),
    (
        {},
        {"max_children": 2, "max_children_per_session": 1},
        ["max_children", "max_children_per_session"],
    ),
    ({"listen": {"origins": ["http://a"]}}, {}, ["listen.origins"]),
    ({}, {"stdio": {"max_result": 2000}}, ["stdio.max_result"]),
]
"""The running config, a new one that allows less, and the keys that differ."""


@pytest.mark.parametrize(("old", "new", "keys"), TIGHTER)
def test_what_tightens_is_taken_over_everywhere(
    old: dict[str, Any], new: dict[str, Any], keys: list[str]
) -> None:
    for only_tightens in (True, False):
        found = change(old, new, only_tightens=only_tightens)
        assert summary(found) == (keys, [])
        assert [*found.config.servers] == [*made(new).servers]


def test_a_mixed_change_is_split() -> None:
    old = {
        "roots": {"deny": ["a", "b"], "ceiling": ["x", "y"]},
        **server(confine="auto", timeout=9),
    }
    new = {
        "roots": {"deny": ["b", "c"], "ceiling": ["y", "z"]},
        "servers": {
            "s": {**S, "args": ["--all"], "confine": "require", "timeout": 5, "guard": "report"},
            "t": {"command": "t"},
        },
    }
    found = change(old, new)
    assert summary(found) == (
        ["roots.ceiling", "roots.deny", "servers.s.timeout", "servers.s.confine.mode"],
        ["roots.ceiling", "roots.deny", "servers.s.guard.mode", "servers.s.args", "servers.t"],
    )
    assert found.config.roots.deny == ("a", "b", "c")
    assert found.config.roots.ceiling == ("/top/y",)
    assert found.config.servers["s"].model_dump(include={"args", "timeout", "confine"}) == {
        "args": (),
        "timeout": 5,
        "confine": {"mode": "require", "read": (), "write": (), "allow": (), "abi": 1},
    }
    again = config_change(found.config, made(new), only_tightens=True, locate=located)
    assert summary(again) == ([], summary(found)[1])


def test_the_last_server_goes_too() -> None:
    found = change({}, {"servers": {"t": {"command": "t"}}})
    assert summary(found) == (["servers.s"], ["servers.t"])
    assert found.config.servers == {}


def test_a_looser_hub_is_no_looser_for_a_server_that_is_tighter() -> None:
    found = change({}, {"guard": "off", **server(guard={"symlinks": "deny"})})
    assert found.config.guard_of("s").mode == "enforce"
    assert found.config.guard_of("s").symlinks == "deny"
    assert summary(found)[1] == ["guard.mode"]


def test_a_server_that_follows_a_hub_that_must_wait_is_as_tight_as_before() -> None:
    found = change(server(guard="enforce"), {"guard": "report"})
    assert summary(found) == (["servers.s.guard.mode"], ["guard.mode"])
    assert found.config.guard_of("s").mode == "enforce"


def test_a_guard_that_means_the_same_elsewhere_is_taken_over() -> None:
    found = change({"guard": "off", **server(guard="enforce")}, {"guard": "enforce"})
    assert summary(found) == (["guard.mode", "servers.s.guard.mode"], [])


@pytest.mark.parametrize(
    ("deny", "root", "waits"),
    [
        (["*.env"], "a/b", False),
        (["**/secret/"], "a/b", False),
        (["secret"], "a/secret", True),
        (["a"], "a/b", True),
        (["b/secret"], "a/b", True),
        (["/b"], "a/b", True),
        (["*", "!b"], "a/b", True),
        (["x", "!y"], "a/b", True),
    ],
)
def test_a_narrower_root_waits_if_less_would_be_denied_in_it(
    deny: list[str], root: str, *, waits: bool
) -> None:
    """Patterns are relative to a root."""
    for key in ("ceiling", "fallback"):
        old, new = {"deny": deny, key: ["a"]}, {"deny": deny, key: [root]}
        found = change({"roots": old}, {"roots": new})
        assert (summary(found)[1] == [f"roots.{key}"]) is waits
    found = change({"roots": {"deny": deny}}, {"roots": {"deny": deny, "ceiling": [root]}})
    assert (summary(found)[1] == ["roots.ceiling"]) is waits


def test_more_scopes_are_asked_for_at_once_and_fewer_wait() -> None:
    def scoped(*scopes: str, tool: tuple[str, ...] = ()) -> dict[str, Any]:
        return server(scopes=scopes, tools={"overrides": {"t": {"scopes": tool}}})

    found = change(scoped("a"), scoped("a", "b", tool=("c",)))
    both = ["servers.s.scopes", "servers.s.tools.overrides.t.scopes"]
    assert summary(found) == (both, [])
    found = change(scoped("a", "b", tool=("c",)), scoped("b", "d"))
    assert summary(found) == (["servers.s.scopes"], both)
    own = found.config.servers["s"]
    assert set(own.scopes) == {"a", "b", "d"}
    assert own.tools.overrides["t"].scopes == ("c",)


def test_what_needs_a_restart_is_named_and_stays() -> None:
    old = {"listen": {"port": 1, "token": "t"}}
    new = {"listen": {"port": 2, "path": "/x", "token": "t", "poll_after": 1}}
    for only_tightens in (True, False):
        found = change(old, new, only_tightens=only_tightens)
        assert found.restart == ("listen.port", "listen.path", "listen.poll_after")
        assert summary(found) == ([], [])
        assert found.config == made(old)


def test_the_token_stays_with_the_address_that_needs_it() -> None:
    old, new = {"listen": {"host": "192.0.2.1", "token": "t"}}, {"listen": {"host": "127.0.0.1"}}
    found = change(old, new, only_tightens=False)
    assert found.restart == ("listen.host", "listen.token")
    assert found.config == made(old)


A, B = ({"name": name, "token": f"of {name}"} for name in ("a", "b"))
OTHER = {"name": "a", "token": "another"}


@pytest.mark.parametrize(
    ("new", "counts", "waiting"),
    [
        ([A], [A], []),
        ([A, B, {"name": "c", "token": "of c"}], [A, B], ["listen.tokens"]),
        ([OTHER, B], [B], ["listen.tokens"]),
        # Without any token everybody would be let in.
        ([], [A, B], ["listen.tokens"]),
        ([OTHER], [A, B], ["listen.tokens"]),
    ],
)
def test_a_token_that_is_taken_out_tightens_but_the_last_one_waits(
    new: list[Any], counts: list[Any], waiting: list[str]
) -> None:
    found = change({"listen": {"tokens": [A, B]}}, {"listen": {"tokens": new}})
    assert found.config.listen == made({"listen": {"tokens": counts}}).listen
    assert summary(found)[1] == waiting


def ending(expires: str | None) -> dict[str, Any]:
    """Return a config with the token of `a` that ends, and that of `b`."""
    return {"listen": {"tokens": [A if expires is None else {**A, "expires": expires}, B]}}


@pytest.mark.parametrize(
    ("old", "new", "waits"),
    [
        (None, "2027-01-31", False),
        (None, "2001-01-31", False),
        ("2027-01-31", "2027-01-30", False),
        ("2027-01-31", "2027-02-01T01:00:00+02:00", False),
        ("2027-01-31", "2027-02-01T01:00:00+01:00", False),
        ("2027-01-31", None, True),
        ("2027-01-31", "2027-02-01", True),
        ("2027-01-31", "2027-02-01T00:00:01Z", True),
        ("2001-01-31", None, True),
    ],
)
def test_a_token_that_ends_earlier_tightens_and_more_time_waits(
    old: str | None, new: str | None, *, waits: bool
) -> None:
    found = change(ending(old), ending(new))
    assert found.config == made(ending(old if waits else new))
    assert summary(found)[1] == (["listen.tokens"] if waits else [])
    assert change(ending(old), ending(new), only_tightens=False).config == made(ending(new))


def test_a_token_is_not_given_more_time_by_another_change_beside_it() -> None:
    new = {"listen": {"tokens": [{**B, "expires": "2027-01-31"}, {**A, "expires": "2029-01-31"}]}}
    found = change(ending("2028-01-31"), new)
    tokens = {one.name: one.expires for one in found.config.listen.tokens}
    wanted = made({"listen": {"tokens": [{**B, "expires": "2027-01-31"}]}}).listen.tokens[0]
    assert tokens == {
        "a": made(ending("2028-01-31")).listen.tokens[0].expires,
        "b": wanted.expires,
    }
    assert summary(found) == (["listen.tokens"], ["listen.tokens"])
    again = config_change(found.config, made(new), only_tightens=True, locate=located)
    assert summary(again) == ([], ["listen.tokens"])


def test_another_token_under_the_name_of_one_that_ends_waits() -> None:
    new = {"listen": {"tokens": [{**OTHER, "expires": "2001-01-31"}, B]}}
    found = change(ending("2027-01-31"), new)
    assert found.config.listen == made({"listen": {"tokens": [B]}}).listen
    assert summary(found)[1] == ["listen.tokens"]


def limited(**limits: Any) -> dict[str, Any]:
    """Return a config with a profile that has these limits, and one without."""
    return {"profiles": {"few": {"limits": limits}, "all": {}}}


@pytest.mark.parametrize(
    ("old", "new", "taken", "waiting"),
    [
        ({}, {"in_flight": 2}, ["in_flight"], []),
        ({"in_flight": 2}, {"in_flight": 1, "sessions": 3}, ["in_flight", "sessions"], []),
        ({"in_flight": 2}, {"in_flight": 3}, [], ["in_flight"]),
        ({"in_flight": 2}, {}, [], ["in_flight"]),
        (
            {"calls_per_second": 9, "burst": 20, "children": 2},
            {"calls_per_second": 3, "burst": 30, "children": 3},
            ["calls_per_second"],
            ["burst", "children"],
        ),
        (
            {"calls_per_minute": 9, "bytes_per_minute": 9},
            {"bytes_per_minute": 8},
            ["bytes_per_minute"],
            ["calls_per_minute"],
        ),
    ],
)
def test_lower_limits_of_a_profile_tighten_and_higher_ones_wait(
    old: dict[str, Any], new: dict[str, Any], taken: list[str], waiting: list[str]
) -> None:
    found = change(limited(**old), limited(**new))
    at = "profiles.few.limits"
    assert summary(found) == (
        [f"{at}.{key}" for key in taken],
        [f"{at}.{key}" for key in waiting],
    )
    assert all(one.why == "a higher limit" for one in found.waiting)
    again = config_change(found.config, made(limited(**new)), only_tightens=True, locate=located)
    assert summary(again) == ([], [f"{at}.{key}" for key in waiting])
    confirmed = change(limited(**old), limited(**new), only_tightens=False)
    assert {*confirmed.taken} == {f"{at}.{key}" for key in (*taken, *waiting)}
    assert confirmed.config == made(limited(**new))


def test_limits_of_a_profile_are_lowered_while_its_other_changes_wait() -> None:
    old = limited(in_flight=4, sessions=1)
    new = {
        "profiles": {
            "new": {"limits": {"in_flight": 1}},
            "few": {"servers": ["s"], "limits": {"in_flight": 2, "sessions": 2}},
        }
    }
    found = change(old, new)
    assert summary(found) == (
        ["profiles.few.limits.in_flight"],
        ["profiles", "profiles.few.limits.sessions"],
    )
    assert found.config == made(limited(in_flight=2, sessions=1))
    assert [*found.config.profiles] == ["few", "all"]


def test_profiles_as_a_whole_wait() -> None:
    for old, new in (({}, limited(in_flight=1)), (limited(in_flight=1), {})):
        found = change(old, new)
        assert summary(found) == ([], ["profiles"])
        assert found.config == made(old)
    turned = {"profiles": dict(reversed(limited(in_flight=1)["profiles"].items()))}
    assert summary(change(limited(in_flight=1), turned)) == ([], ["profiles"])


AUTH: dict[str, Any] = {
    "resource": "https://a.example",
    "issuers": [{"issuer": "https://b.example"}],
}


def trusting(*issuers: dict[str, Any], **keys: Any) -> dict[str, Any]:
    listed = [{"issuer": f"https://{one.pop('name')}.example", **one} for one in map(dict, issuers)]
    return {"listen": {"auth": {**AUTH, "issuers": listed, **keys}}}


@pytest.mark.parametrize("guarded", [{"tokens": [A]}, {"token": "t"}])
def test_tokens_that_issuers_replace_stay_until_the_user_says_so(guarded: dict[str, Any]) -> None:
    old, new = {"listen": guarded}, {"listen": {"auth": AUTH}}
    found = change(old, new)
    assert found.config.listen == made(old).listen
    assert "listen.auth" in summary(found)[1]
    found = change(old, new, only_tightens=False)
    assert (found.config.listen, found.restart) == (made(new).listen, ())


def test_issuers_stay_where_nobody_would_need_a_token_without_them() -> None:
    found = change({"listen": {"auth": AUTH}}, {})
    assert summary(found) == ([], ["listen.auth"])
    assert found.config == made({"listen": {"auth": AUTH}})
    beside = {"listen": {"auth": AUTH, "token": "t"}}
    assert summary(change(beside, {"listen": {"token": "t"}})) == (["listen.auth"], [])
    assert change({"listen": {"auth": AUTH}}, {}, only_tightens=False).config == made({})


@pytest.mark.parametrize(
    ("old", "new", "kept"),
    [
        # An issuer less, and one more
        ([{"name": "b"}, {"name": "c"}], [{"name": "c"}], [{"name": "c"}]),
        ([{"name": "b"}], [{"name": "b"}, {"name": "c"}], [{"name": "b"}]),
        ([{"name": "b"}], [{"name": "c"}], [{"name": "b"}]),
        # Claims
        (
            [{"name": "b"}],
            [{"name": "b", "claims": {"x": "1"}}],
            [{"name": "b", "claims": {"x": "1"}}],
        ),
        (
            [{"name": "b", "claims": {"x": "1"}}],
            [{"name": "b"}],
            [{"name": "b", "claims": {"x": "1"}}],
        ),
        (
            [{"name": "b", "claims": {"x": ["1", "2"]}}],
            [{"name": "b", "claims": {"x": "2", "y": "3"}}],
            [{"name": "b", "claims": {"x": "2", "y": "3"}}],
        ),
        (
            [{"name": "b", "claims": {"x": "1"}}],
            [{"name": "b", "claims": {"x": ["1", "2"]}}],
            [{"name": "b", "claims": {"x": "1"}}],
        ),
        # How it signs
        (
            [{"name": "b", "algorithms": ["RS256", "ES256"]}],
            [{"name": "b", "algorithms": ["ES256"]}],
            [{"name": "b", "algorithms": ["ES256"]}],
        ),
        (
            [{"name": "b", "algorithms": ["ES256"]}],
            [{"name": "b", "algorithms": ["ES256", "RS256"]}],
            [{"name": "b", "algorithms": ["ES256"]}],
        ),
        # Anything else may let in others
        (
            [{"name": "b"}],
            [{"name": "b", "audience": "x", "claims": {"x": "1"}}],
            [{"name": "b"}],
        ),
        ([{"name": "b"}], [{"name": "b", "jwks": "https://k.example/"}], [{"name": "b"}]),
    ],
)
def test_issuers_are_taken_out_or_let_fewer_in_at_once(old: Any, new: Any, kept: Any) -> None:
    found = change(trusting(*old), trusting(*new))
    assert found.config == made(trusting(*kept))
    assert change(trusting(*old), trusting(*new), only_tightens=False).config == made(
        trusting(*new)
    )


def test_more_general_scopes_are_asked_for_at_once() -> None:
    b = {"name": "b"}
    found = change(trusting(b, scopes=["x"]), trusting(b, scopes=["y"]))
    assert set(found.config.listen.auth.scopes if found.config.listen.auth else ()) == {"x", "y"}
    moved = trusting(b, resource="https://c.example", scopes=["x"])
    found = change(trusting(b), moved)
    assert summary(found) == (["listen.auth.scopes"], ["listen.auth.resource"])


def test_beside_another_token_the_last_named_one_can_be_taken_out() -> None:
    old, new = ({"listen": {"token": "t", "tokens": tokens}} for tokens in ([A], []))
    found = change(old, new)
    assert found.config == made(new)
    assert summary(found)[1] == []


def test_keys_of_all_depths_need_a_restart() -> None:
    new = {"drain": 1, "listen": {"port": 1, "path": "/x"}, "roots": {"fallback": ["a"]}}
    found = change({}, new, only_tightens=False)
    assert found.restart == ("listen.port", "listen.path", "drain")
    assert found.taken == ("roots.fallback",)


LEFT_OUT = LeftOut(ServerName("t"), ())
BOTH = {"servers": {"s": S, "t": {"command": "t"}}}


def test_a_server_that_is_left_out_now_is_gone() -> None:
    new = made({}).with_left_out([LEFT_OUT])
    found = config_change(made(BOTH), new, only_tightens=True, locate=located)
    assert summary(found) == (["servers.t"], [])
    assert found.config.left_out == (LEFT_OUT,)


def test_a_server_that_was_left_out_waits() -> None:
    old = made({}).with_left_out([LEFT_OUT])
    found = config_change(old, made(BOTH), only_tightens=True, locate=located)
    assert summary(found) == ([], ["servers.t"])
    assert found.config.left_out == (LEFT_OUT,)
    found = config_change(old, made(BOTH), only_tightens=False, locate=located)
    assert summary(found) == (["servers.t"], [])
    assert found.config.left_out == ()


def test_another_order_of_servers_is_taken_over() -> None:
    new = {"servers": dict(reversed(BOTH["servers"].items()))}
    found = change(BOTH, new)
    assert summary(found) == (["servers"], [])
    assert [*found.config.servers] == ["t", "s"]


def test_a_key_that_may_be_a_secret_is_not_shown() -> None:
    name = "api1key2of3a4user5AAAA"
    found = change({}, {"servers": {"s": S, name: {"command": "t"}}})
    assert summary(found)[1] == ["servers.…"]
