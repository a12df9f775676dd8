from __future__ import annotations

import pytest

from hub.calls.addressing import Addressed, OwnParam, address, call_to, called, label_of
from hub.calls.builtin_tools import BUILTINS, GET_ROOTS
from hub.catalog.merge import Catalog, Listing, merge
from hub.catalog.names import Names
from hub.errors import RouteError
from hub.protocol.constants import CLIENT_CAPABILITIES_META, CLIENT_INFO_META, PROTOCOL_VERSION_META
from hub.values import BuiltinRoute, Call, CallMethod, ChildRoute, Json, JsonObject, ServerName

TWO = Names(["a", "b"])
LISTING = Listing(
    tools=({"name": "read"},),
    resources=({"uri": "file:///x"},),
    templates=({"uriTemplate": "note://{id}"},),
    prompts=({"name": "ask"},),
)
CATALOG = merge({ServerName("a"): LISTING}, names=TWO, builtins=BUILTINS)


def named(method: CallMethod, name: str, **params: Json) -> Addressed:
    key = "uri" if method.startswith("resources/") else "name"
    return address(method, {key: name, **params})


def completing(params: JsonObject) -> Addressed:
    ref: JsonObject = {"type": "ref/prompt", "name": "a__ask"}
    return address("completion/complete", {"ref": ref, **params})


def route_of(addressed: Addressed, catalog: Catalog = CATALOG) -> ChildRoute:
    route = addressed.route(catalog)
    assert isinstance(route, ChildRoute)
    return route


def call_of(addressed: Addressed, catalog: Catalog, route: ChildRoute) -> Call:
    """Return the call that the child of `route` gets."""
    own = addressed.own(catalog, route)
    call = call_to(addressed.method, route.name, own, addressed.params)
    assert call is not None
    return call


@pytest.mark.parametrize(
    ("method", "public", "own"),
    [
        ("tools/call", "a__read", "read"),
        ("prompts/get", "a__ask", "ask"),
        ("resources/read", "file:///x", "file:///x"),
        ("resources/subscribe", "note://5", "note://5"),
    ],
)
def test_a_public_name_leads_to_its_child_under_the_childs_own_name(
    method: CallMethod, public: str, own: str
) -> None:
    addressed = named(method, public, arguments={"path": "/x"}, more={"kept": 1})
    route = route_of(addressed)
    assert (route.server, route.name) == ("a", own)
    call = call_of(addressed, CATALOG, route)
    assert (call.method, call.name) == (method, own)
    key = "uri" if method.startswith("resources/") else "name"
    assert call.params == {key: own, "arguments": {"path": "/x"}, "more": {"kept": 1}}


def test_what_the_guard_walks_is_what_the_child_gets() -> None:
    addressed = named("tools/call", "a__read", arguments={"path": "/x"})
    call = call_of(addressed, CATALOG, route_of(addressed))
    assert call.arguments is call.params["arguments"]


def test_a_resource_is_judged_by_its_own_uri() -> None:
    addressed = named("resources/read", "hub+a:file:///x")
    own = ChildRoute(ServerName("a"), "file:///own", {})
    call = call_of(named("resources/read", "file:///x"), CATALOG, own)
    assert call.arguments == {"uri": "file:///own"}
    assert addressed.name == "hub+a:file:///x"


def test_what_a_template_takes_out_of_a_uri_is_judged_too() -> None:
    own = ChildRoute(ServerName("a"), "docs://a/..%2Fx", {})
    call = call_of(named("resources/read", "file:///x"), CATALOG, own)
    assert call.arguments == {"uri": "docs://a/..%2Fx", "parts": ["a/..%2Fx", "..%2Fx"]}
    assert call.params == {"uri": "docs://a/..%2Fx"}


def test_the_hubs_own_tool_leads_to_the_hub() -> None:
    assert named("tools/call", GET_ROOTS).route(CATALOG) == BuiltinRoute(GET_ROOTS)


@pytest.mark.parametrize(
    ("method", "name", "said"),
    [
        ("tools/call", "a__write", "Unknown tool: a__write"),
        ("tools/call", "read", "Unknown tool: read"),
        ("prompts/get", "a__read", "Unknown prompt: a__read"),
        ("completion/complete", "a__read", "Unknown reference: a__read"),
    ],
)
def test_a_name_that_leads_nowhere_is_named(method: CallMethod, name: str, said: str) -> None:
    addressed = (
        address(method, {"ref": {"type": "ref/prompt", "name": name}})
        if method == "completion/complete"
        else named(method, name)
    )
    with pytest.raises(RouteError) as caught:
        addressed.route(CATALOG)
    assert str(caught.value) == said


def test_a_resource_that_nobody_offers_is_named() -> None:
    empty = merge({}, names=TWO)
    with pytest.raises(RouteError, match="Unknown resource: x:///y"):
        named("resources/read", "x:///y").route(empty)


@pytest.mark.parametrize(
    ("method", "params", "said"),
    [
        ("tools/call", {}, "the request names no tool"),
        ("tools/call", {"name": 5}, "the request names no tool"),
        ("resources/read", {"name": "x"}, "the request names no resource"),
        ("completion/complete", {"ref": "x"}, "the request names no reference"),
        ("tools/call", {"name": "x", "arguments": []}, '"arguments" must be an object'),
        ("prompts/get", {"name": "x", "arguments": "x"}, '"arguments" must be an object'),
    ],
)
def test_a_request_that_cannot_be_read_says_why(
    method: CallMethod, params: JsonObject, said: str
) -> None:
    with pytest.raises(RouteError, match=said):
        address(method, params)


@pytest.mark.parametrize("arguments", [{}, {"arguments": None}])
def test_a_call_may_have_no_arguments(arguments: JsonObject) -> None:
    addressed = named("tools/call", "a__read", **arguments)
    assert call_of(addressed, CATALOG, route_of(addressed)).arguments == {}


def test_what_is_between_the_client_and_the_hub_stays_there() -> None:
    meta: JsonObject = {
        "progressToken": 1,
        PROTOCOL_VERSION_META: "2026-07-28",
        CLIENT_INFO_META: {},
        CLIENT_CAPABILITIES_META: {},
    }
    retry: JsonObject = {"inputResponses": {"roots": {}}, "requestState": "sealed"}
    assert named("tools/call", "x", _meta=meta, **retry).params == {"name": "x"}
    # The hub declares no tasks, so it has to ignore a wish for one.
    assert named("tools/call", "x", task={"ttl": 60000}).params == {"name": "x"}
    kept = named("tools/call", "x", _meta={**meta, "com.example/trace": 7}).params
    assert kept == {"name": "x", "_meta": {"com.example/trace": 7}}
    for no_object in (None, 3, "x"):
        assert named("tools/call", "x", _meta=no_object).params == {"name": "x"}


def test_a_completion_is_judged_by_all_that_it_gives() -> None:
    addressed = completing(
        {
            "argument": {"name": "path", "value": "/x"},
            "context": {"arguments": {"dir": "/y"}},
        }
    )
    call = call_of(addressed, CATALOG, route_of(addressed))
    assert call.name == "ask"
    assert call.arguments == {
        "argument": {"path": "/x"},
        "context": {"arguments": {"dir": "/y"}},
        "values": ["/x", "/y"],
    }
    assert call.params["ref"] == {"type": "ref/prompt", "name": "ask"}
    assert call.params["argument"] == {"name": "path", "value": "/x"}
    assert call.params["context"] == {"arguments": {"dir": "/y"}}


def test_no_argument_of_a_completion_hides_another_of_the_same_name() -> None:
    given: JsonObject = {"arguments": {"path": "/given"}, "more": {"path": "/more"}}
    addressed = completing({"argument": {"name": "path", "value": "/x"}, "context": given})
    call = call_of(addressed, CATALOG, route_of(addressed))
    assert call.arguments == {
        "argument": {"path": "/x"},
        "context": given,
        "values": ["/x", "/given"],
    }


@pytest.mark.parametrize(
    ("params", "judged"),
    [
        ({}, {"argument": {"value": None}, "context": None, "values": [None]}),
        ({"argument": "x"}, {"argument": {"value": None}, "context": None, "values": [None]}),
        (
            {"argument": {"name": 5, "value": "/x"}, "context": 1},
            {"argument": {"value": "/x"}, "context": 1, "values": ["/x"]},
        ),
    ],
)
def test_a_completion_that_names_no_argument_is_judged_by_its_value(
    params: JsonObject, judged: JsonObject
) -> None:
    addressed = completing(params)
    assert call_of(addressed, CATALOG, route_of(addressed)).arguments == judged


def test_a_template_can_be_completed() -> None:
    ref: JsonObject = {"type": "ref/resource", "uri": "note://{id}"}
    addressed = address("completion/complete", {"ref": ref})
    assert route_of(addressed).server == "a"
    assert call_of(addressed, CATALOG, route_of(addressed)).params["ref"] == ref
    without = call_of(addressed, merge({}, names=TWO), route_of(addressed))
    assert without.params["ref"] == {}


@pytest.mark.parametrize(
    ("names", "addressed", "servers"),
    [
        (TWO, named("tools/call", "a__read"), ("a",)),
        (TWO, named("tools/call", "c__read"), ()),
        (TWO, named("tools/call", GET_ROOTS), ()),
        (TWO, named("resources/read", "file:///x"), None),
        (Names(["a", "b"], "never"), named("tools/call", "read"), None),
        (Names(["a"]), named("tools/call", "read"), ("a",)),
        (TWO, named("tools/call", "read"), ()),
        (Names(["b", "a"], first="a"), named("tools/call", "read"), ("a",)),
        (Names(["b", "a"], first="a"), named("tools/call", "b__read"), ("b",)),
    ],
)
def test_only_servers_that_could_own_a_name_are_waited_for(
    names: Names, addressed: Addressed, servers: tuple[str, ...] | None
) -> None:
    assert addressed.servers(names) == servers


def test_whoever_may_own_a_template_is_waited_for_when_it_is_completed() -> None:
    ref: JsonObject = {"type": "ref/resource", "uri": "note://{id}"}
    assert address("completion/complete", {"ref": ref}).servers(TWO) is None
    assert completing({}).servers(TWO) == ("a",)


def searching(name: str, arguments: JsonObject) -> Addressed:
    params: JsonObject = {"name": name, "arguments": arguments, "_meta": {"x": 1}}
    return address("tools/call", params, expose="search")


def test_a_call_within_a_call_leads_to_the_inner_tool_and_is_judged_by_its_own_arguments() -> None:
    inner: JsonObject = {"path": "/x"}
    asked: JsonObject = {"serverName": "a", "toolName": "read", "toolArgs": inner}
    addressed = searching("call-tool", asked)
    assert (addressed.server, addressed.name) == ("a", "read")
    assert addressed.servers(TWO) == ("a",)
    assert addressed.base == "/toolArgs"
    assert addressed.params == {"name": "read", "arguments": inner, "_meta": {"x": 1}}
    assert named("tools/call", "a__read").base == ""


def test_a_call_within_a_call_may_have_no_arguments() -> None:
    addressed = searching("call-tool", {"serverName": "a", "toolName": "read"})
    assert addressed.params.get("arguments", {}) == {}


def test_only_the_hubs_own_tools_can_be_called_where_tools_are_searched_for() -> None:
    assert searching(GET_ROOTS, {}).name == GET_ROOTS
    assert searching("list-servers", {}).question is not None
    with pytest.raises(RouteError, match="Unknown tool: a__read"):
        searching("a__read", {})


def test_a_tool_that_is_called_within_a_call_is_told_from_its_namesakes() -> None:
    rest: JsonObject = {"_meta": {"x": 1}, "y": 2}
    given: JsonObject = {"path": "/x"}
    seen: set[str] = set()
    for server, tool in (("a", "read"), ("b", "read"), ("a", "write")):
        asked: JsonObject = {"serverName": server, "toolName": tool, "toolArgs": given}
        params: JsonObject = {"name": "call-tool", "arguments": asked, **rest}
        inner = called(params)
        assert inner is not None
        label = label_of("tools/call", params, "search")
        assert label is not None
        assert inner == {"name": label, "arguments": given, **rest}
        seen.add(label)
    assert len(seen) == 3
    bare = called({"name": "call-tool", "arguments": {"serverName": "a", "toolName": "t"}})
    assert bare is not None
    assert bare.keys() == {"name"}


@pytest.mark.parametrize(
    "params",
    [
        {"name": "read", "arguments": {}},
        {"name": "get-tool", "arguments": {"serverName": "a", "toolName": "read"}},
        {"name": "call-tool"},
        {"name": "call-tool", "arguments": []},
        {"name": "call-tool", "arguments": {"serverName": "a"}},
        {"name": "call-tool", "arguments": {"serverName": "a", "toolName": 5}},
        {"name": "call-tool", "arguments": {"serverName": "a", "toolName": "t", "toolArgs": 5}},
        {"name": "call-tool", "arguments": {"serverName": "a", "toolName": "t", "more": 5}},
        {"name": "call-tool", "arguments": {"serverName": "a\0b", "toolName": "c"}},
    ],
)
def test_what_is_searched_for_is_called_by_one_tool_alone(params: JsonObject) -> None:
    assert called(params) is None


def test_a_call_of_a_childs_tool_keeps_all_but_what_is_between_the_client_and_the_hub() -> None:
    arguments: JsonObject = {"path": "a"}
    meta: JsonObject = {"progressToken": 1, "kept": 2}
    call = call_to(
        "tools/call",
        "read",
        OwnParam("name", "read"),
        {"name": "f__read", "arguments": arguments, "_meta": meta, "x": 1},
    )
    assert call is not None
    assert call.arguments is arguments
    assert call.params == {"name": "read", "arguments": arguments, "_meta": {"kept": 2}, "x": 1}


@pytest.mark.parametrize("arguments", [[], "x", 5, True])
def test_a_call_whose_arguments_are_no_object_is_none(arguments: Json) -> None:
    params: JsonObject = {"name": "read", "arguments": arguments}
    assert call_to("tools/call", "read", OwnParam("name", "read"), params) is None


@pytest.mark.parametrize("params", [{"name": "r"}, {"name": "r", "arguments": None}])
def test_a_call_of_a_childs_tool_may_have_no_arguments(params: JsonObject) -> None:
    call = call_to("tools/call", "read", OwnParam("name", "read"), params)
    assert call is not None
    assert call.arguments == {}
