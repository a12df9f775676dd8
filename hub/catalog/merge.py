"""Merge what children offer: their listings to a `Catalog`, their instructions to one text.

A catalog has public names, each with exactly one route.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Final, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from hub.catalog.names import Names, UriTemplate, is_wrapped, possible_values, unwrapped, wrapped
from hub.legible import legible, legible_entry, on_one_line
from hub.roots.roots import RootSet
from hub.values import BuiltinRoute, ChildRoute, Json, JsonObject, Route, ServerName

LONGEST_MATCHED: Final = 8000
"""Characters of a URI that templates are tried on: as long as HTTP asks servers to take them (RFC
9110, section 4.1). A server may list 20,000 templates, and each looks through the whole URI."""
_Entries = Iterable[tuple[ServerName, JsonObject]]


class Listing(Struct, frozen=True):
    """Everything that one child lists (all pages), unchanged."""

    tools: tuple[JsonObject, ...] = ()
    resources: tuple[JsonObject, ...] = ()
    templates: tuple[JsonObject, ...] = ()
    prompts: tuple[JsonObject, ...] = ()


class KnownCatalog(Struct, frozen=True):
    """What a server offered and said of itself when it last ran; never used to judge a call.

    `info` is the `serverInfo`, with name and version. `listing` None: a list has waited for the
    server in vain, and it has not answered since. `edition` is another one after each start at
    which the server was found changed.
    """

    listing: Listing | None
    era: str = ""
    version: str = ""
    info: JsonObject = field(default_factory=dict[str, "Json"])
    capabilities: JsonObject = field(default_factory=dict[str, "Json"])
    instructions: str = ""
    edition: str = ""


class ToolText(Struct, frozen=True):
    """The operator's texts for a tool; None keeps the tool's own text."""

    title: str | None = None
    description: str | None = None


class Offer(Struct, frozen=True):
    """Which tools of a child clients see (globs on the child's own names), and their texts.

    A tool must match one of `allow` and one of `only`, and none of `deny`.
    """

    allow: tuple[str, ...] = ("*",)
    deny: tuple[str, ...] = ()
    texts: Mapping[str, ToolText] = field(default_factory=dict[str, ToolText])
    only: tuple[str, ...] = ("*",)

    def includes(self, tool: str) -> bool:
        is_allowed = _matches(tool, self.allow) and _matches(tool, self.only)
        return is_allowed and not _matches(tool, self.deny)

    def described(self, entry: JsonObject, tool: str) -> JsonObject:
        """Return the entry with the operator's texts for `tool`."""
        text = self.texts.get(tool)
        if text is None:
            return entry
        changes: JsonObject = {"title": text.title, "description": text.description}
        return {**entry, **{key: value for key, value in changes.items() if value is not None}}


_ALL = Offer()


class Clash(Struct, frozen=True):
    """A tool or prompt name that several servers have, while names have no prefixes."""

    kind: str
    name: str
    servers: tuple[ServerName, ...]

    @property
    def what(self) -> str:
        """The problem, as one line."""
        servers = " and ".join(self.servers)
        return (
            f"{self.kind.capitalize()} {self.name!r} is left out: {servers} have one with this "
            "name, and `names: never` adds no prefix to tell them apart"
        )

    @property
    def fix(self) -> str:
        """The remedy for the operator."""
        return "Set names: auto, or hide it on all servers but one with tools.deny."


class TemplateRoute(Struct, frozen=True):
    """A public URI template, and the child's own template that it leads to."""

    public: UriTemplate
    own: UriTemplate
    route: ChildRoute


class Catalog(Struct, frozen=True):
    """Merged listings with public names: servers in the config's order, then as each child lists.

    An entry is the child's own object except for its name, escaped texts and the operator's texts.
    Aliases have routes, but are not listed.
    `resource_server` is asked for resources that no child lists; None unless only one can be.
    """

    tools: tuple[JsonObject, ...]
    resources: tuple[JsonObject, ...]
    templates: tuple[JsonObject, ...]
    prompts: tuple[JsonObject, ...]
    servers: tuple[ServerName, ...]
    resource_server: ServerName | None
    tool_routes: Mapping[str, Route]
    prompt_routes: Mapping[str, ChildRoute]
    resource_routes: Mapping[str, ChildRoute]
    template_routes: Mapping[str, TemplateRoute]
    own_tools: Mapping[ServerName, Mapping[str, ChildRoute]] = field(
        default_factory=dict[ServerName, Mapping[str, ChildRoute]]
    )
    """With `expose: search`, the tools without a public name: by server and the tool's own name."""
    left_out: Mapping[str, Clash] = field(default_factory=dict[str, "Clash"])
    """Names without a route, as several servers have them. The key is `kind name`."""

    def tool(self, public: str) -> Route | None:
        """Return the route of a tool's public name; None if unknown."""
        return self.tool_routes.get(public)

    def prompt(self, public: str) -> ChildRoute | None:
        """Return the route of a prompt's public name; None if unknown."""
        return self.prompt_routes.get(public)

    def resource(self, uri: str) -> ChildRoute | None:
        """Return the route for `uri`; its `name` is the URI to request from the child.

        The first that applies: the child that lists `uri`, a child with a matching template, the
        server in a `hub+server:` URI, the only server, the only server that offers resources.
        Templates are tried on URIs of `LONGEST_MATCHED` characters at most.
        """
        listed = self.resource_routes.get(uri)
        if listed is not None:
            return listed
        matching = self._by_template(uri) if len(uri) <= LONGEST_MATCHED else None
        if matching is not None:
            return matching
        if is_wrapped(uri):
            return self._wrapped_resource(uri)
        if self.resource_server is None:
            return None
        return ChildRoute(self.resource_server, uri, {})

    def completion(self, ref: Mapping[str, Json]) -> tuple[ChildRoute, JsonObject] | None:
        """Return the route to complete `ref`, and `ref` with the child's own name, or None."""
        key = "name" if ref.get("type") == "ref/prompt" else "uri"
        public = ref.get(key)
        if not isinstance(public, str):
            return None
        if key == "name":
            route = self.prompt(public)
        else:
            template = self.template_routes.get(public)
            route = self.resource_routes.get(public) if template is None else template.route
        return None if route is None else (route, {**ref, key: route.name})

    def template_values(self, route: ChildRoute) -> Collection[str]:
        """Return all values that the child may read out of a resource's URI by its templates.

        Raises: RouteError if that is very much.
        """
        every = self.template_routes.values()
        own = (one.own for one in every if one.route.server == route.server)
        return possible_values(own, route.name)

    def _by_template(self, uri: str) -> ChildRoute | None:
        for public, template in self.template_routes.items():
            values = template.public.match(uri)
            # A child's `{+any}` must not match a URI that names another server.
            if values is not None and is_wrapped(public) == is_wrapped(uri):
                found = template.route
                return ChildRoute(found.server, template.own.filled(values), found.definition)
        return None

    def _wrapped_resource(self, uri: str) -> ChildRoute | None:
        for server in self.servers:
            own = unwrapped(server, uri)
            if own is not None:
                return ChildRoute(server, own, {})
        return None


def merge(
    listings: Mapping[ServerName, Listing],
    *,
    names: Names,
    offers: Mapping[ServerName, Offer] | None = None,
    builtins: Sequence[JsonObject] = (),
) -> Catalog:
    """Return the catalog of all children with listings; the hub's own tools come first.

    Left out are entries without a name and repeated names of the same child, as they cannot be
    routed. Without prefixes, names of tools and prompts that several servers have are in `left_out`
    instead. Hidden characters in names, titles and descriptions are escaped.
    """
    present = {server: listings[server] for server in names.servers if server in listings}
    own = {str(tool["name"]): BuiltinRoute(str(tool["name"])) for tool in builtins}
    offers = offers or {}
    clashes: dict[str, Clash] = {}
    tools = _named("tool", _offered(present, offers), names, frozenset(own), clashes)
    prompts = _named("prompt", _entries(present, "prompts"), names, frozenset(), clashes)
    resources = _resources(_first_of_all(names, _entries(present, "resources")))
    templates = _templates(_first_of_all(names, _entries(present, "templates")))
    return Catalog(
        tools=(*builtins, *_described(tools, offers)),
        resources=_all_shown("uri", resources),
        templates=_all_shown("uriTemplate", {k: t.route for k, t in templates.items()}),
        prompts=_all_shown("name", prompts),
        servers=names.servers,
        resource_server=_resource_server(names, present),
        tool_routes={**_aliases(tools, names), **tools, **own},
        prompt_routes={**_aliases(prompts, names), **prompts},
        resource_routes=resources,
        template_routes=templates,
        left_out=clashes,
    )


def _offered(present: Mapping[ServerName, Listing], offers: Mapping[ServerName, Offer]) -> _Entries:
    return [
        (server, tool)
        for server, listing in present.items()
        for tool in listing.tools
        if offers.get(server, _ALL).includes(str(tool.get("name")))
    ]


def _described(
    routes: Mapping[str, ChildRoute], offers: Mapping[ServerName, Offer]
) -> Iterator[JsonObject]:
    for public, route in routes.items():
        entry = _shown("name", public, route)
        yield offers.get(route.server, _ALL).described(entry, route.name)


def _entries(
    present: Mapping[ServerName, Listing], kind: Literal["resources", "templates", "prompts"]
) -> _Entries:
    return [(server, entry) for server, one in present.items() for entry in getattr(one, kind)]


def _named(
    kind: str, entries: _Entries, names: Names, reserved: frozenset[str], clashes: dict[str, Clash]
) -> dict[str, ChildRoute]:
    """Return the routes by public name; `reserved` are names of the hub's own tools.

    Names that several servers have are added to `clashes` and get no route.
    """
    sharing: dict[str, dict[ServerName, None]] = {}
    routes: dict[str, ChildRoute] = {}
    renamed: list[ChildRoute] = []
    for server, entry in entries:
        name = entry.get("name")
        if not isinstance(name, str):
            continue
        route = ChildRoute(server, name, entry)
        public = names.public(server, name)
        if public in reserved:
            renamed.append(route)
        elif routes.setdefault(public, route).server != server:
            sharing.setdefault(public, {routes[public].server: None})[server] = None
    for public, servers in sharing.items():
        del routes[public]
        clashes[f"{kind} {public}"] = Clash(kind, public, tuple(servers))
    # Last, so that names do not depend on the order of a child's listing.
    for route in renamed:
        public = names.prefixed(route.server, route.name)
        if public in routes and routes[public].name != route.name:
            public = names.shortened(route.server, route.name)
        routes.setdefault(public, route)
    return routes


def _aliases(routes: Mapping[str, ChildRoute], names: Names) -> dict[str, ChildRoute]:
    """Return the routes by alias. The caller lets every listed name win over an alias."""
    aliases = ((names.alias(route.server, route.name), route) for route in routes.values())
    return {alias: route for alias, route in aliases if alias is not None}


def _first_of_all(names: Names, entries: _Entries) -> _Entries:
    """Return the entries, those of the server with aliases first: its URIs win, too."""
    return sorted(entries, key=lambda entry: entry[0] != names.alias_server)


def _resources(entries: _Entries) -> dict[str, ChildRoute]:
    routes: dict[str, ChildRoute] = {}
    for server, entry in entries:
        uri = entry.get("uri")
        if isinstance(uri, str):
            route = ChildRoute(server, uri, entry)
            # A child's own `hub+` URI is wrapped again: it could look like another server's.
            first = route if is_wrapped(uri) else routes.setdefault(uri, route)
            if first.server != server or is_wrapped(uri):
                routes.setdefault(wrapped(server, uri), route)
    return routes


def _templates(entries: _Entries) -> dict[str, TemplateRoute]:
    routes: dict[str, TemplateRoute] = {}
    for server, entry in entries:
        text = entry.get("uriTemplate")
        if isinstance(text, str):
            own = UriTemplate.parse(text)
            route = TemplateRoute(own, own, ChildRoute(server, text, entry))
            first = routes.get(text)
            if is_wrapped(text) or (first is not None and first.route.server != server):
                route = replace(route, public=own.wrapped(server))
            routes.setdefault(route.public.text(), route)
    return routes


def _resource_server(names: Names, present: Mapping[ServerName, Listing]) -> ServerName | None:
    """Return the server to ask for resources that nobody lists; None unless only one can be."""
    if len(names.servers) == 1:
        return names.servers[0]
    offering = [server for server, one in present.items() if one.resources or one.templates]
    return offering[0] if len(offering) == 1 else None


def _all_shown(key: str, routes: Mapping[str, ChildRoute]) -> tuple[JsonObject, ...]:
    return tuple(_shown(key, public, route) for public, route in routes.items())


def _shown(key: str, public: str, route: ChildRoute) -> JsonObject:
    entry, name = legible_entry(route.definition), route.definition.get("name")
    if key != "name" and isinstance(name, str):  # a resource's name is for people
        return {**entry, "name": on_one_line(name), key: public}
    return {**entry, key: public}


def _matches(name: str, globs: Sequence[str]) -> bool:
    return "*" in globs or any(fnmatchcase(name, glob) for glob in globs)


def merged_instructions(
    texts: Mapping[ServerName, str], *, preface: str | None, several: bool
) -> str | None:
    """Return the operator's `preface` and the servers' texts, in order; None if all are empty.

    If `several`, each server's text gets a heading with the server's name. Hidden characters in the
    servers' texts are escaped.
    """
    parts = [] if preface is None else [preface]
    for server, text in texts.items():
        if text.strip():
            shown = legible(text)
            parts.append(f"# {server}\n\n{shown}" if several else shown)
    return "\n\n".join(parts) or None


def is_for_all(text: str, roots: RootSet) -> bool:
    """Return whether a child's text names none of its `roots`, so that any client may read it."""
    return not any(root.path in text or root.uri in text for root in roots.roots)
