"""The catalog: listings of all children merged, with public names and their routes.

Pure: no await, no clock, no disk. A catalog is made anew for each change and never modified.

Main types: `Listing` (what one child offers), `KnownCatalog` (what a server offered when it last
ran), `Names` (public names of a set of servers), `Catalog` (what one session is shown, and where
each name leads: `ChildRoute` or `BuiltinRoute`), `Offer` (which tools of a child clients see),
`UriTemplate`, `Page`, `Pattern`.

Promises: every listed name has exactly one route, a public name never means two servers, and
entries keep fields that the hub does not know.

Read in this order:
- `names`: prefixes, separators and shortened names; the same for the URIs of resources;
- `merge`: listings in, catalog out; the servers' instructions as one text;
- `pages`: pages of a listing, by cursor;
- `search` and `search_tools`: `expose: search`, a few tools to find and call all others.
"""
