from __future__ import annotations

from typing import Any

import pytest

from hub.server.http.auth.admission import Admission, ProfileMatch, ProfileRules

ISSUER = "https://login.example.com"
NAMED = Admission("ci")
SIGNED = Admission(
    f"{ISSUER} anna",
    claims={"iss": ISSUER, "sub": "anna", "groups": ["staff", 7], "tenant": "ours", "admin": True},
)


def match(**fields: Any) -> ProfileMatch:
    claims = {name: frozenset(values) for name, values in fields.pop("claims", {}).items()}
    return ProfileMatch(frozenset(fields.pop("tokens", ())), claims=claims, **fields)


@pytest.mark.parametrize(
    ("one", "named", "signed"),
    [
        (match(tokens=["ci"]), True, False),
        (match(tokens=["anna", "ben"]), False, False),
        (match(tokens=[f"{ISSUER} anna"]), False, False),
        (match(issuer=ISSUER), False, True),
        (match(issuer="https://other.example.com"), False, False),
        (match(claims={"groups": ["ops", "staff"]}), False, True),
        (match(claims={"groups": ["ops"]}), False, False),
        (match(claims={"groups": ["staff"], "tenant": ["ours"]}), False, True),
        (match(claims={"groups": ["staff"], "tenant": ["other"]}), False, False),
        (match(claims={"groups": ["7"]}), False, False),
        (match(claims={"admin": ["True"]}), False, False),
        (match(claims={"nothing": ["None"]}), False, False),
        (match(claims={"tenant": ["our"]}), False, False),
        (match(issuer="https://other.example.com", claims={"tenant": ["ours"]}), False, False),
    ],
)
def test_a_match_covers_clients_with_all_that_it_names(
    one: ProfileMatch, *, named: bool, signed: bool
) -> None:
    assert (one.covers(NAMED), one.covers(SIGNED)) == (named, signed)


def test_profiles_are_told_in_the_order_of_the_config() -> None:
    rules = ProfileRules(
        {
            "ops": (match(claims={"groups": ["ops"]}),),
            "staff": (match(tokens=["x"]), match(claims={"groups": ["staff"]})),
            "all": None,
        }
    )
    assert rules.of(SIGNED) == ["staff", "all"]
    assert rules.of(NAMED) == ["all"]
    assert rules.of(Admission("local")) == ["all"]


@pytest.mark.parametrize(
    ("principal", "profiles"),
    [
        ("ci", ["bots", "all"]),
        ("other", ["all"]),
        (f"{ISSUER} anna", ["ours", "staff", "all"]),
        ("https://other.example.com ci", ["staff", "all"]),
        (f"{ISSUER} ci", ["ours", "staff", "all"]),
    ],
)
def test_a_principal_may_have_the_profiles_that_some_claims_would_give_it(
    principal: str, profiles: list[str]
) -> None:
    rules = ProfileRules(
        {
            "bots": (match(tokens=["ci"]),),
            "ours": (match(issuer=ISSUER, claims={"groups": ["x"]}),),
            "staff": (match(claims={"groups": ["staff"]}),),
            "all": None,
        }
    )
    assert rules.possible(principal) == profiles


def test_without_profiles_there_are_no_rules() -> None:
    assert not ProfileRules()
    assert ProfileRules({"all": None})
