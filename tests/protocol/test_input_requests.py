from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.protocol.input_requests import (
    CONSENT_KEY,
    ELICITATION,
    ROOTS_KEY,
    SAMPLING,
    accepts,
    in_legacy_words,
    in_modern_words,
    inward,
    mode_of,
    needed,
    outward,
    urls_needed,
)
from hub.values import Json, JsonObject

KEYS = st.one_of(
    st.text(),
    st.lists(st.sampled_from(["roots-hub/", "child/", "roots", "consent", "a"]), max_size=4).map(
        "".join
    ),
)
FORM: JsonObject = {"message": "m"}
TOOLS: JsonObject = {"tools": [{"name": "look"}]}
URL: JsonObject = {"mode": "url", "url": "https://example.com", "elicitationId": "e", "more": 1}


# Keys


@given(st.sets(KEYS))
def test_a_childs_keys_never_meet_the_hubs_own_nor_each_other(keys: set[str]) -> None:
    outside = {outward(key) for key in keys}
    assert len(outside) == len(keys)
    assert not outside & {ROOTS_KEY, CONSENT_KEY}


@given(st.dictionaries(KEYS, st.integers()))
def test_responses_come_back_under_the_childs_own_keys(answers: dict[str, int]) -> None:
    responses: JsonObject = {outward(key): value for key, value in answers.items()}
    own: JsonObject = {ROOTS_KEY: {"roots": []}, CONSENT_KEY: {"action": "accept"}}
    assert inward({**responses, **own}, None) == answers
    assert inward({**own, **responses}, answers.keys()) == answers
    assert inward({**responses, **own}, ()) == {}


@given(st.dictionaries(KEYS, st.none()))
def test_no_response_under_a_key_of_the_hubs_reaches_a_child(given_: dict[str, None]) -> None:
    responses: JsonObject = dict(given_)
    for key in inward(responses, None):
        assert outward(key) in given_
        assert outward(key) not in {ROOTS_KEY, CONSENT_KEY}


def test_a_key_stays_as_it_is_unless_it_could_be_the_hubs() -> None:
    assert outward("user_name") == "user_name"
    assert outward(ROOTS_KEY) == f"roots-hub/child/{ROOTS_KEY}"


@pytest.mark.parametrize("responses", [None, [], "x", 7])
def test_what_is_no_object_has_no_responses(responses: Json) -> None:
    assert inward(responses, None) == {}


# Who takes it


@pytest.mark.parametrize(
    ("capabilities", "sampling", "form", "url"),
    [
        ({}, False, False, False),
        ({"sampling": {}}, True, False, False),
        ({"sampling": None, "elicitation": None}, False, False, False),
        ({"sampling": False, "elicitation": False}, False, False, False),
        ({"elicitation": {}}, False, True, False),
        ({"elicitation": {"form": {}}}, False, True, False),
        ({"elicitation": {"url": {}}}, False, False, True),
        ({"elicitation": {"form": {}, "url": {}}}, False, True, True),
    ],
)
def test_a_client_takes_what_it_declares(
    capabilities: JsonObject, *, sampling: bool, form: bool, url: bool
) -> None:
    assert accepts(capabilities, SAMPLING, {}) is sampling
    assert accepts(capabilities, ELICITATION, FORM) is form
    assert accepts(capabilities, ELICITATION, {**FORM, "mode": "form"}) is form
    assert accepts(capabilities, ELICITATION, URL) is url
    assert not accepts(capabilities, "roots/list", {})


def test_what_would_have_to_be_declared_is_what_is_taken_then() -> None:
    asked = ((SAMPLING, FORM), (SAMPLING, TOOLS), (ELICITATION, FORM), (ELICITATION, URL))
    for method, params in asked:
        assert accepts(needed(method, params), method, params)
    assert mode_of(ELICITATION, URL) == "elicitation/create in URL mode"
    assert mode_of(ELICITATION, FORM) == ELICITATION
    assert mode_of(SAMPLING, TOOLS) == "sampling/createMessage with tools"
    assert mode_of(SAMPLING, FORM) == SAMPLING


@pytest.mark.parametrize("params", [{"tools": []}, {"toolChoice": {"mode": "auto"}}])
def test_a_model_may_use_tools_only_where_the_client_declares_it(params: JsonObject) -> None:
    without: list[Json] = [{}, {"context": {}}, True]
    for declared in without:
        assert not accepts({"sampling": declared}, SAMPLING, params)
    assert accepts({"sampling": {"tools": {}}}, SAMPLING, params)
    assert accepts({"sampling": {}}, SAMPLING, {"tools": None, "toolChoice": None})


# In which era's words


def test_a_url_has_an_id_in_the_handshake_era_alone() -> None:
    modern = in_modern_words(ELICITATION, URL)
    assert modern == {"mode": "url", "url": "https://example.com", "more": 1}
    assert in_legacy_words(ELICITATION, modern, "e") == URL
    for method, params in ((ELICITATION, FORM), (SAMPLING, URL)):
        assert in_modern_words(method, params) is params
        assert in_legacy_words(method, params, "e") is params


def test_an_error_can_name_urls() -> None:
    listed: list[Json] = [URL, {"url": 7}, "x"]
    assert urls_needed({"elicitations": listed}) == (URL,)
    assert urls_needed({"elicitations": URL}) == ()
    assert urls_needed({}) == ()
