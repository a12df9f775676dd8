import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.catalog.merge import (
    LONGEST_MATCHED,
    Catalog,
    Listing,
    Offer,
    ToolText,
    is_for_all,
    merge,
    merged_instructions,
)
from hub.catalog.names import Names, wrapped
from hub.roots.roots import EMPTY
from hub.values import BuiltinRoute, ChildRoute, JsonObject, ServerName
from tests.kit.worlds import Directories, share

A, B = ServerName("a"), ServerName("b")
GET_ROOTS: JsonObject = {"name": "get-roots", "description": "Show the roots"}


def tools(*names: str, **more: Any) -> Listing:
    return Listing(tools=tuple({"name": name, **more} for name in names))


def resources(*uris: str) -> Listing:
    return Listing(resources=tuple({"uri": uri} for uri in uris))


def templates(*uris: str) -> Listing:
    return Listing(templates=tuple({"uriTemplate": uri} for uri in uris))


def both(a: Listing, b: Listing, **more: Any) -> Catalog:
    return merge({B: b, A: a}, names=Names([A, B]), **more)


def only(a: Listing, **more: Any) -> Catalog:
    return merge({A: a}, names=Names([A]), **more)


def listed(entries: tuple[JsonObject, ...], key: str = "name") -> list[Any]:
    return [entry[key] for entry in entries]


def leads_to(route: object) -> tuple[str, str]:
    assert isinstance(route, ChildRoute)
    return (route.server, route.name)


def test_the_config_orders_servers_and_each_child_its_own() -> None:
    catalog = both(tools("y", "x"), tools("x"), builtins=[GET_ROOTS])
    assert listed(catalog.tools) == ["get-roots", "a__y", "a__x", "b__x"]
    assert leads_to(catalog.tool("b__x")) == (B, "x")
    assert catalog.tool("get-roots") == BuiltinRoute("get-roots")
    assert catalog.tool("x") is None


def test_unknown_fields_survive_and_the_route_keeps_the_childs_own_entry() -> None:
    entry: JsonObject = {"name": "x", "icons": [1], "inputSchema": {"x-odd": True}}
    catalog = both(Listing(tools=(entry,)), Listing())
    assert catalog.tools == ({**entry, "name": "a__x"},)
    route = catalog.tool("a__x")
    assert isinstance(route, ChildRoute)
    assert route.definition is entry


def test_a_child_without_a_listing_is_left_out() -> None:
    assert listed(merge({A: tools("x")}, names=Names([A, B])).tools) == ["a__x"]


def test_entries_without_a_name_and_repeated_ones_are_left_out() -> None:
    odd = Listing(
        tools=({"name": 7}, {}, {"name": "x", "n": 1}, {"name": "x", "n": 2}),
        resources=({}, {"uri": "u:1", "n": 1}, {"uri": "u:1", "n": 2}),
        templates=({}, {"uriTemplate": "u:{x}", "n": 1}, {"uriTemplate": "u:{x}", "n": 2}),
    )
    catalog = only(odd)
    for entries in (catalog.tools, catalog.resources, catalog.templates):
        assert listed(entries, "n") == [1]


def test_allow_and_deny_choose_by_the_childs_own_names() -> None:
    offer = Offer(allow=("read_*", "move_*"), deny=("move_*",))
    catalog = both(tools("read_a", "move_a", "Read_a", "other"), tools("other"), offers={A: offer})
    assert listed(catalog.tools) == ["a__read_a", "b__other"]
    assert catalog.tool("a__move_a") is None


def test_the_operator_describes_tools() -> None:
    offer = Offer(texts={"x": ToolText("X!", "Mine"), "y": ToolText(title="Y!")})
    shown = only(tools("x", "y", "z", description="theirs"), offers={A: offer}).tools
    assert shown == (
        {"name": "x", "description": "Mine", "title": "X!"},
        {"name": "y", "description": "theirs", "title": "Y!"},
        {"name": "z", "description": "theirs"},
    )


def test_a_childs_tool_of_a_builtins_name_keeps_working_under_its_prefixed_name() -> None:
    catalog = only(tools("get-roots", "x"), builtins=[GET_ROOTS])
    assert listed(catalog.tools) == ["get-roots", "x", "a__get-roots"]
    assert leads_to(catalog.tool("a__get-roots")) == (A, "get-roots")


def test_a_child_that_has_the_prefixed_name_too_keeps_both() -> None:
    catalog = only(tools("get-roots", "a__get-roots"), builtins=[GET_ROOTS])
    assert leads_to(catalog.tool("a__get-roots")) == (A, "a__get-roots")
    assert len(catalog.tools) == 3
    assert leads_to(catalog.tool(listed(catalog.tools)[2])) == (A, "get-roots")


def test_names_never_leaves_out_names_of_several_servers_and_lists_them() -> None:
    never = Names([A, B], "never")
    assert listed(merge({A: tools("x"), B: tools("y")}, names=never).tools) == ["x", "y"]
    made = merge({A: tools("x", "y"), B: tools("x", "z")}, names=never)
    assert listed(made.tools) == ["y", "z"]
    assert made.tool("x") is None
    (clash,) = made.left_out.values()
    assert (clash.kind, clash.name, clash.servers) == ("tool", "x", (A, B))
    assert "'x' is left out: a and b have one" in clash.what
    assert "tools.deny" in clash.fix


def test_a_name_that_all_servers_but_one_hide_is_not_a_clash() -> None:
    offers = {B: Offer(deny=("x",))}
    made = merge({A: tools("x"), B: tools("x")}, names=Names([A, B], "never"), offers=offers)
    assert listed(made.tools) == ["x"]
    assert not made.left_out


@pytest.mark.parametrize("hidden", ["\x1b[2J", "\u202e", "\u200b", "\U000e0041", "\x9b", "\n"])
def test_a_name_with_invisible_characters_is_listed_without_them_and_routes_to_its_tool(
    hidden: str,
) -> None:
    name = f"rm{hidden}all"
    for names in (Names([A]), Names([A, B])):
        made = merge({A: tools(name)}, names=names)
        (public,) = listed(made.tools)
        assert re.fullmatch(r"(a__)?rm_\w*_[0-9a-f]{10}", public)
        route = made.tool(public)
        assert isinstance(route, ChildRoute)
        assert route.name == name


def test_invisible_characters_in_texts_are_escaped_and_nothing_else_changes() -> None:
    schema: JsonObject = {
        "type": "object",
        "properties": {
            "title": {"type": "string", "description": "a\u200bb", "default": "\u200b"},
            "n": {"enum": ["\u202e"], "title": "N\x1b[31m"},
        },
    }
    tool: JsonObject = {
        "name": "t",
        "title": "T\u202e",
        "description": "first\n\x1b[8mthen",
        "inputSchema": schema,
    }
    listing = Listing(tools=(tool, {"name": "plain", "description": "é 👨‍👩 ok\n\ttab"}))
    shown, plain = merge({A: listing}, names=Names([A])).tools
    assert (shown["title"], shown["description"]) == ("T\\u202e", "first\n\\x1b[8mthen")
    assert shown["inputSchema"] == {
        "type": "object",
        "properties": {
            "title": {"type": "string", "description": "a\\u200bb", "default": "\u200b"},
            "n": {"enum": ["\u202e"], "title": "N\\x1b[31m"},
        },
    }
    assert plain == listing.tools[1]


def test_invisible_characters_in_prompts_and_resources_are_escaped() -> None:
    prompt: JsonObject = {"name": "p", "arguments": [{"name": "a", "description": "x\u2066"}]}
    resource: JsonObject = {"uri": "file:///a", "name": "n\x07\n", "description": "d\x9b"}
    template: JsonObject = {"uriTemplate": "file:///{a}", "name": "t\ufeff"}
    listing = Listing(prompts=(prompt,), resources=(resource,), templates=(template,))
    made = merge({A: listing}, names=Names([A]))
    assert made.prompts[0]["arguments"] == [{"name": "a", "description": "x\\u2066"}]
    assert made.resources[0] == {"uri": "file:///a", "name": "n\\x07\\n", "description": "d\\x9b"}
    assert made.templates[0]["name"] == "t\\ufeff"


def test_prompts_are_named_like_tools() -> None:
    prompt = Listing(prompts=({"name": "p", "arguments": []},))
    catalog = both(prompt, prompt)
    assert listed(catalog.prompts) == ["a__p", "b__p"]
    assert leads_to(catalog.prompt("b__p")) == (B, "p")
    assert catalog.prompt("p") is None


def test_a_uri_stays_as_it_is_where_unique_and_names_its_server_where_not() -> None:
    catalog = both(resources("u:1", "u:2"), resources("u:2", "u:3"))
    assert listed(catalog.resources, "uri") == ["u:1", "u:2", "hub+b://u%3A2", "u:3"]
    assert leads_to(catalog.resource("u:2")) == (A, "u:2")
    assert leads_to(catalog.resource("hub+b://u%3A2")) == (B, "u:2")
    assert leads_to(catalog.resource("hub+b://u%3A9")) == (B, "u:9")
    assert catalog.resource("hub+c://u%3A2") is None


def test_a_child_cannot_list_itself_as_another_server() -> None:
    catalog = both(resources("hub+b://u%3A2"), Listing())
    assert listed(catalog.resources, "uri") == ["hub+a://hub%2Bb%3A%2F%2Fu%253A2"]
    assert leads_to(catalog.resource("hub+a://hub%2Bb%3A%2F%2Fu%253A2")) == (A, "hub+b://u%3A2")
    assert leads_to(catalog.resource("hub+b://u%3A2")) == (B, "u:2")


def test_templates_route_resources_that_are_not_listed() -> None:
    catalog = both(templates("t://{id}"), templates("t://{id}", "s://{+path}"))
    second = "hub+b://t%3A%2F%2F{id}"
    assert listed(catalog.templates, "uriTemplate") == ["t://{id}", second, "s://{+path}"]
    assert leads_to(catalog.resource("t://1%20")) == (A, "t://1%20")
    assert leads_to(catalog.resource("hub+b://t%3A%2F%2F1%20")) == (B, "t://1%20")
    assert leads_to(catalog.resource("s://x/y")) == (B, "s://x/y")
    assert catalog.resource("other:1") is None


def test_templates_are_not_tried_on_a_uri_of_any_length() -> None:
    catalog = both(templates("t://{+path}"), resources("u:1"))
    longest = "t://" + "x" * (LONGEST_MATCHED - 4)
    assert leads_to(catalog.resource(longest)) == (A, longest)
    assert catalog.resource(longest + "x") is None, "as any unknown URI"


def test_a_template_that_matches_everything_does_not_match_another_servers_uri() -> None:
    catalog = both(templates("{+any}", "hub+b://{x}"), resources("u:1"))
    assert leads_to(catalog.resource("hub+b://u%3A2")) == (B, "u:2")
    assert leads_to(catalog.resource("u:2")) == (A, "u:2")


def test_an_unlisted_uri_goes_to_the_only_child_that_can_have_it() -> None:
    assert leads_to(only(Listing()).resource("u:9")) == (A, "u:9")
    assert leads_to(both(tools("x"), resources("u:1")).resource("u:9")) == (B, "u:9")
    assert both(resources("u:1"), templates("t:{x}")).resource("u:9") is None
    assert both(Listing(), Listing()).resource("u:9") is None


def test_completions_are_asked_of_the_child_by_its_own_name() -> None:
    some = Listing(
        prompts=({"name": "p"},),
        resources=({"uri": "u:1"},),
        templates=({"uriTemplate": "t:{x}"},),
    )
    catalog = both(some, some)

    def asked(ref: JsonObject) -> tuple[str, JsonObject] | None:
        found = catalog.completion(ref)
        return None if found is None else (found[0].server, found[1])

    prompt: JsonObject = {"type": "ref/prompt", "name": "b__p", "title": "T"}
    assert asked(prompt) == (B, {**prompt, "name": "p"})
    template: JsonObject = {"type": "ref/resource", "uri": "hub+b://t%3A{x}"}
    assert asked(template) == (B, {**template, "uri": "t:{x}"})
    assert asked({"type": "ref/resource", "uri": "u:1"}) == (
        A,
        {"type": "ref/resource", "uri": "u:1"},
    )
    for unknown in ({"type": "ref/prompt", "name": "p"}, {"type": "ref/resource"}, {"uri": "x"}):
        assert catalog.completion(unknown) is None


names = st.sampled_from(["x", "y", "b__x", "get-roots", "a__get-roots", "x" * 70, "o dd"])
uris = st.sampled_from(["u:1", "u:2", "hub+b://u%3A1"])


def listing_of(tool_names: list[str], resource_uris: list[str]) -> Listing:
    return Listing(tools(*tool_names).tools, resources(*resource_uris).resources)


listings = st.builds(listing_of, st.lists(names, max_size=5), st.lists(uris, max_size=3))


@given(st.dictionaries(st.sampled_from(["a", "a__b", "b"]), listings), st.randoms())
def test_every_listed_name_has_one_route_whatever_the_order(
    by_name: dict[str, Listing], random: Any
) -> None:
    children = {ServerName(name): listing for name, listing in by_name.items()}
    order = list(children)
    random.shuffle(order)
    reached: list[set[tuple[str, str]]] = []
    for servers in (list(children), order):
        catalog = merge(children, names=Names(servers), builtins=[GET_ROOTS])
        routes = [catalog.tool(name) for name in listed(catalog.tools)]
        found = [catalog.resource(uri) for uri in listed(catalog.resources, "uri")]
        assert len(set(listed(catalog.tools))) == len(catalog.tools)
        pairs = [leads_to(route) for route in (*routes[1:], *found)]
        assert len(set(pairs)) == len(pairs)
        reached.append(set(pairs))
    assert reached[0] == reached[1]


# Aliases


@pytest.mark.parametrize("order", [[A, B], [B, A]])
def test_aliases_lead_to_the_first_servers_tools_and_prompts_and_are_not_listed(
    order: list[ServerName],
) -> None:
    prompts: tuple[JsonObject, ...] = ({"name": "p"}, {"name": "p"})
    first = Listing(tools=({"name": "x"}, {"name": "secret"}), prompts=prompts)
    later = Listing(tools=({"name": "x"}, {"name": "y"}), prompts=({"name": "q"},))
    made = merge(
        {A: first, B: later},
        names=Names(order, first="a"),
        offers={A: Offer(deny=("secret",))},
        builtins=[GET_ROOTS],
    )
    assert sorted(listed(made.tools)) == ["a__x", "b__x", "b__y", "get-roots"]
    assert sorted(listed(made.prompts)) == ["a__p", "b__q"]
    assert made.tool("x") is made.tool("a__x")
    assert made.prompt("p") is made.prompt("a__p")
    assert made.completion({"type": "ref/prompt", "name": "p"}) is not None
    for unknown in (made.tool("y"), made.tool("secret"), made.prompt("q")):
        assert unknown is None


def test_an_alias_never_takes_a_name_of_the_hub_or_of_another_server() -> None:
    first, names = tools("get-roots", "b__y", "a__y"), Names([A, B], first="a")
    made = merge({A: first, B: tools("y")}, names=names, builtins=[GET_ROOTS])
    assert made.tool("get-roots") == BuiltinRoute("get-roots")
    assert leads_to(made.tool("b__y")) == (B, "y")
    assert made.tool("a__y") is None
    # Before the other server is listed, too.
    assert merge({A: first}, names=names, builtins=[GET_ROOTS]).tool("b__y") is None


@pytest.mark.parametrize("first", ["a", "b"])
def test_a_uri_of_two_servers_stays_that_of_the_server_that_had_it_first(first: str) -> None:
    names, other = Names([A, B], first=first), "b" if first == "a" else "a"
    of_both = {A: resources("u:1"), B: resources("u:1")}
    made = merge(of_both, names=names)
    assert leads_to(made.resource("u:1")) == (first, "u:1")
    assert leads_to(made.resource(wrapped(ServerName(other), "u:1"))) == (other, "u:1")
    made = merge({A: templates("u:{x}"), B: templates("u:{x}")}, names=names)
    assert leads_to(made.resource("u:7")) == (first, "u:7")


FILES, GIT = ServerName("files"), ServerName("git")


def test_the_text_of_a_single_server_is_unchanged() -> None:
    assert (
        merged_instructions({FILES: " Read first.\n"}, preface=None, several=False)
        == " Read first.\n"
    )


def test_several_servers_have_a_heading_each_in_their_order() -> None:
    texts = {GIT: "Commit often.", FILES: "Read first."}
    assert merged_instructions(texts, preface=None, several=True) == (
        "# git\n\nCommit often.\n\n# files\n\nRead first."
    )


def test_the_operators_text_comes_first() -> None:
    assert merged_instructions({FILES: "Read."}, preface="Ours.", several=False) == "Ours.\n\nRead."
    assert merged_instructions({}, preface="Ours.", several=True) == "Ours."


@pytest.mark.parametrize("several", [True, False])
def test_nothing_in_a_servers_text_is_hidden(several: bool) -> None:
    told = merged_instructions(
        {FILES: "Read\x1b[8m, then\u202e write\x07.\n"}, preface=None, several=several
    )
    assert told is not None
    assert told.endswith("Read\\x1b[8m, then\\u202e write\\x07.\n")


@pytest.mark.parametrize("several", [True, False])
def test_a_server_without_instructions_has_no_heading(several: bool) -> None:
    assert merged_instructions({FILES: "", GIT: " \n"}, preface=None, several=several) is None


def test_a_text_that_names_a_root_is_not_for_all() -> None:
    roots = share("/home/user/project", links=Directories())
    assert is_for_all("Reads files.", roots)
    assert is_for_all("/home/user/project", EMPTY)
    assert not is_for_all("Reads below /home/user/project.", roots)
    assert not is_for_all("Reads file:///home/user/project/", roots)
