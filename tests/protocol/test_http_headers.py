from __future__ import annotations

from decimal import Decimal
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.shared import inbound

from hub.protocol.http_headers import (
    NAMED_BY,
    AnnotationError,
    ParamHeader,
    declared,
    decoded,
    encoded,
    headers_of,
    mismatch,
)
from hub.values import Json, JsonObject


def marked(token: Json, kind: Json = "string", **more: Json) -> JsonObject:
    return {"type": kind, "x-mcp-header": token, **more}


def schema(**properties: Json) -> JsonObject:
    return {"type": "object", "properties": properties}


SQL = declared(
    schema(
        region=marked("Region"),
        query={"type": "string"},
        page=marked("Page", "integer"),
        fresh=marked("Fresh", "boolean"),
        where=schema(tenant=marked("Tenant")),
    )
)


def test_the_methods_with_a_name_are_those_of_the_sdk() -> None:
    assert dict(inbound.NAME_BEARING_METHODS) == NAMED_BY


# Which arguments are repeated


def test_a_marked_argument_at_any_depth_becomes_a_header() -> None:
    assert list(SQL) == [
        ParamHeader("Mcp-Param-Region", ("region",), "string"),
        ParamHeader("Mcp-Param-Page", ("page",), "integer"),
        ParamHeader("Mcp-Param-Fresh", ("fresh",), "boolean"),
        ParamHeader("Mcp-Param-Tenant", ("where", "tenant"), "string"),
    ]


@pytest.mark.parametrize("nothing", [None, True, [], {}, "x", 7, {"properties": []}, schema()])
def test_a_schema_that_marks_nothing_has_no_headers(nothing: Json) -> None:
    assert declared(nothing) == ()


def test_a_mark_in_a_default_or_enum_is_not_a_mark() -> None:
    mark = marked("X")
    assert declared(schema(a={"type": "object", "default": mark, "enum": [mark]})) == ()
    named = declared(schema(**{"x-mcp-header": marked("Y")}))
    assert [param.path for param in named] == [("x-mcp-header",)]


MISPLACED: list[Json] = [
    marked("X"),
    {"items": marked("X")},
    {"prefixItems": [marked("X")]},
    {"anyOf": [schema(a=marked("X"))]},
    {"not": schema(a=marked("X"))},
    {"if": schema(a=marked("X"))},
    {"additionalProperties": marked("X")},
    {"patternProperties": {"^a": marked("X")}},
    {"$defs": {"a": schema(a=marked("X"))}},
    schema(a={"type": "array", "items": schema(b=marked("X"))}),
]
TOKENS: list[Json] = ["", "a b", "a:b", "é", "a\r\nX: y", None, 7, [], "a\n"]
KINDS: list[Json] = ["number", "object", "array", None, ["string"], 1]
WRONG: list[Json] = [
    *(schema(a=marked(token)) for token in TOKENS),
    *(schema(a=marked("X", kind)) for kind in KINDS),
    schema(a=marked("X"), b=marked("x")),
]


@pytest.mark.parametrize("bad", [*MISPLACED, *WRONG])
def test_a_mark_that_the_protocol_forbids_is_an_error(bad: Json) -> None:
    with pytest.raises(AnnotationError):
        declared(bad)
    assert inbound.find_invalid_x_mcp_header(bad) is not None


def test_an_error_names_the_argument() -> None:
    with pytest.raises(AnnotationError, match=r"'where\.n': only a string, integer or boolean"):
        declared(schema(where=schema(n=marked("N", "number"))))


def test_deep_nesting_is_walked_to_its_end() -> None:
    deep: JsonObject = marked("Deep")
    for _ in range(5000):
        deep = schema(a=deep)
    (param,) = declared(deep)
    assert len(param.path) == 5000
    assert headers_of((param,), {"a": {"a": 1}}) == {}


# What the headers say


def test_values_are_written_as_text() -> None:
    arguments: JsonObject = {
        "region": "us-west1",
        "query": "SELECT 1",
        "page": -7,
        "fresh": True,
        "where": {"tenant": "A"},
    }
    assert headers_of(SQL, arguments) == {
        "Mcp-Param-Region": "us-west1",
        "Mcp-Param-Page": "-7",
        "Mcp-Param-Fresh": "true",
        "Mcp-Param-Tenant": "A",
    }


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (False, "false"),
        (42.0, "42"),
        (1.5, "1.5"),
        (Decimal("1.10"), "1.10"),
        (2**60, str(2**60)),
        ("", ""),
        ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
        (" padded ", "=?base64?IHBhZGRlZCA=?="),
        ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
        ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
    ],
)
def test_a_value_is_encoded_where_it_would_not_arrive(value: Json, text: str) -> None:
    assert headers_of(SQL, {"region": value}) == {"Mcp-Param-Region": text}


@pytest.mark.parametrize("value", [None, [], {}, ["a"], pytest.param(10**5000, id="huge")])
def test_a_value_that_no_header_can_have_gets_none(value: Json) -> None:
    assert headers_of(SQL, {"region": value}) == {}
    assert headers_of(SQL, {"where": value}) == {}
    assert mismatch(SQL, {"region": value}, []) is None


@given(st.text())
def test_every_text_comes_back_from_its_header(text: str) -> None:
    value = encoded(text)
    assert decoded(value) == text
    assert value.isascii()
    assert value == value.strip()
    assert value == inbound.encode_header_value(text)


def test_an_unpaired_surrogate_survives_encoding() -> None:
    assert decoded(encoded("\ud800")) == "\ud800"


@pytest.mark.parametrize(
    "value", ["=?base64?????=", "=?base64?YQ?=", "=?base64?YR==?=", "=?base64?/w==?=", "é", "a\x01"]
)
def test_a_value_that_is_not_well_encoded_says_nothing(value: str) -> None:
    assert decoded(value) is None


# What comes in


def test_headers_that_say_the_same_fit() -> None:
    arguments: JsonObject = {"region": "Ä", "page": 42, "where": {"tenant": "t"}}
    given_ = [("MCP-PARAM-REGION", encoded("Ä")), ("mcp-param-page", "42.0"), ("x", "y")]
    assert mismatch(SQL, arguments, [*given_, ("mcp-param-tenant", "t")]) is None
    ours = headers_of(SQL, arguments)
    assert mismatch(SQL, arguments, ours.items()) is None
    checked = inbound.validate_mcp_param_headers(
        schema(region=marked("Region"), page=marked("Page", "integer")),
        cast("dict[str, Any]", arguments),
        ours,
    )
    assert checked is None


@pytest.mark.parametrize(
    ("arguments", "headers", "says"),
    [
        ({"region": "a"}, [], "the header is missing"),
        ({"region": "a"}, [("mcp-param-region", "b")], "'region' do not match"),
        ({"region": "a"}, [("mcp-param-region", "A")], "'region' do not match"),
        ({}, [("mcp-param-region", "a")], "no such argument"),
        ({"region": None}, [("mcp-param-region", "null")], "no such argument"),
        ({"region": []}, [("mcp-param-region", "[]")], "no such argument"),
        ({"region": "a"}, [("mcp-param-region", "a"), ("Mcp-Param-Region", "a")], "more than once"),
        ({"region": "a"}, [("mcp-param-region", "=?base64?YQ?=")], "not encoded correctly"),
        ({"region": "1"}, [("mcp-param-region", "1.0")], "'region' do not match"),
        ({"page": 42}, [("mcp-param-page", "42.5")], "'page' do not match"),
        ({"page": 42}, [("mcp-param-page", "4.2e1")], "'page' do not match"),
        ({"fresh": True}, [("mcp-param-fresh", "True")], "'fresh' do not match"),
    ],
)
def test_headers_that_say_something_else_are_found(
    arguments: JsonObject, headers: list[tuple[str, str]], says: str
) -> None:
    assert says in str(mismatch(SQL, arguments, headers))


def test_headers_without_an_argument_are_ignored() -> None:
    assert mismatch(SQL, {}, [("mcp-param-other", "x"), ("mcp-param-other", "y")]) is None
