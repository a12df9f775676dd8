"""What one session is shown: the children's listings merged, every public name with one route."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Literal

from msgspec import Struct, field
from msgspec.structs import replace

from hub.catalog.names import Names
from hub.catalog.resource_uris import UriTemplate, is_wrapped, unwrapped, wrapped
from hub.legible import legible_entry, on_one_line
from hub.values import BuiltinRoute, ChildRoute, Json, JsonObject, Route, ServerName

_Entries = Iterable[tuple[ServerName, JsonObject]]


class Listing(Struct, frozen=True):
    """What one child offers, all pages, as it sent it."""

    tools: tuple[JsonObject, ...] = ()
    resources: tuple[JsonObject, ...] = ()
    templates: tuple[JsonObject, ...] = ()
    prompts: tuple[JsonObject, ...] = ()


class ToolText(Struct, frozen=True):
    """What the operator puts in the place of a tool's own texts; None leaves them."""

    title: str | None = None
    description: str | None = None


class Offer(Struct, frozen=True):
    """Which of a child's tools clients see, by globs on its own names, and how described."""

    allow: tuple[str, ...] = ("*",)
    deny: tuple[str, ...] = ()
    texts: Mapping[str, ToolText] = field(default_factory=dict[str, ToolText])

    def includes(self, tool: str) -> bool:
        return _matches(tool, self.allow) and not _matches(tool, self.deny)

    def described(self, entry: JsonObject, tool: str) -> JsonObject:
        """Return the entry with the operator's texts in it."""
        text = self.texts.get(tool)
        if text is None:
            return entry
        changes: JsonObject = {"title": text.title, "description": text.description}
        return {**entry, **{key: value for key, value in changes.items() if value is not None}}


_ALL = Offer()


class Clash(Struct, frozen=True):
    """A name that several servers give to a tool or a prompt, where names have no prefixes."""

    kind: str
    name: str
    servers: tuple[ServerName, ...]

    @property
    def what(self) -> str:
        """Say what is wrong, on one line."""
        servers = " and ".join(self.servers)
        return (
            f"{self.kind.capitalize()} {self.name!r} is left out: {servers} have one of that name, "
            "and `names: never` leaves nothing to tell them apart by"
        )

    @property
    def fix(self) -> str:
        """Say what the operator can do."""
        return "Set names: auto, or leave it out of all of them but one with tools.deny."


class TemplateRoute(Struct, frozen=True):
    """A public URI template and the child's own that it leads to."""

    public: UriTemplate
    own: UriTemplate
    route: ChildRoute


class Catalog(Struct, frozen=True):
    """Listings with public names, in the config's order of servers and then each child's own.

    An entry is the child's own object but for what had to be renamed or the operator described.
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
    """With `expose: search`: by server and its own name, what has no public name then."""
    left_out: Mapping[str, Clash] = field(default_factory=dict[str, "Clash"])
    """What would lead to several servers, and so leads nowhere: by kind, a space and the name."""

    def tool(self, public: str) -> Route | None:
        """Return where a tool's public name leads."""
        return self.tool_routes.get(public)

    def prompt(self, public: str) -> ChildRoute | None:
        """Return where a prompt's public name leads."""
        return self.prompt_routes.get(public)

    def resource(self, uri: str) -> ChildRoute | None:
        """Return who answers for `uri`; the route's name is the URI to ask that child for.

        In this order: the child that lists it, one whose template it matches, the server named in a
        `hub+server:` URI, the only server, the only one that offers resources.
        """
        listed = self.resource_routes.get(uri)
        if listed is not None:
            return listed
        for public, template in self.template_routes.items():
            values = template.public.match(uri)
            # No child's `{+any}` may take what names another server.
            if values is not None and is_wrapped(public) == is_wrapped(uri):
                found = template.route
                return ChildRoute(found.server, template.own.filled(values), found.definition)
        if is_wrapped(uri):
            return self._wrapped_resource(uri)
        if self.resource_server is None:
            return None
        return ChildRoute(self.resource_server, uri, {})

    def completion(self, ref: Mapping[str, Json]) -> tuple[ChildRoute, JsonObject] | None:
        """Return who completes `ref` and the reference with that child's own name in it."""
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
    """Return the catalog of the children that have listings, the hub's own tools first.

    An entry without a name, and a second one of a child's with the same name, cannot be routed and
    are left out. So is, without prefixes, a tool or a prompt whose name several servers have: it is
    in `left_out`. What is hidden in names, titles and descriptions is written out.
    """
    present = {server: listings[server] for server in names.servers if server in listings}
    own = {str(tool["name"]): BuiltinRoute(str(tool["name"])) for tool in builtins}
    offers = offers or {}
    clashes: dict[str, Clash] = {}
    tools = _named("tool", _offered(present, offers), names, frozenset(own), clashes)
    prompts = _named("prompt", _entries(present, "prompts"), names, frozenset(), clashes)
    resources = _resources(_entries(present, "resources"))
    templates = _templates(_entries(present, "templates"))
    return Catalog(
        tools=(*builtins, *_described(tools, offers)),
        resources=_all_shown("uri", resources),
        templates=_all_shown("uriTemplate", {k: t.route for k, t in templates.items()}),
        prompts=_all_shown("name", prompts),
        servers=names.servers,
        resource_server=_resource_server(names, present),
        tool_routes={**own, **tools},
        prompt_routes=prompts,
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
    """Return the routes by public name; `reserved` are the hub's own names.

    What several servers have goes into `clashes`.
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
    # After all others, so that no name depends on the order of a child's own listing.
    for route in renamed:
        public = names.prefixed(route.server, route.name)
        if public in routes and routes[public].name != route.name:
            public = names.shortened(route.server, route.name)
        routes.setdefault(public, route)
    return routes


def _resources(entries: _Entries) -> dict[str, ChildRoute]:
    routes: dict[str, ChildRoute] = {}
    for server, entry in entries:
        uri = entry.get("uri")
        if isinstance(uri, str):
            route = ChildRoute(server, uri, entry)
            # The hub's own form is never taken from a child: it could pass for another server's.
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
    """Return the one server that can be asked for a resource that nobody lists."""
    if len(names.servers) == 1:
        return names.servers[0]
    offering = [server for server, one in present.items() if one.resources or one.templates]
    return offering[0] if len(offering) == 1 else None


def _all_shown(key: str, routes: Mapping[str, ChildRoute]) -> tuple[JsonObject, ...]:
    return tuple(_shown(key, public, route) for public, route in routes.items())


def _shown(key: str, public: str, route: ChildRoute) -> JsonObject:
    entry, name = legible_entry(route.definition), route.definition.get("name")
    if key != "name" and isinstance(name, str):  # a resource's is for people
        return {**entry, "name": on_one_line(name), key: public}
    return {**entry, key: public}


def _matches(name: str, globs: Sequence[str]) -> bool:
    return any(fnmatchcase(name, glob) for glob in globs)
