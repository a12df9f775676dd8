"""The catalog: listings of all children merged, with public names and their routes.

Pure: no await, no clock, no disk. A catalog is made anew for each change and never modified.

Main types: `Listing` (what one child offers), `KnownCatalog` (what a server offered when it last
ran), `Names` (public names of a set of servers), `Catalog` (what one session is shown, and where
each name leads: `ChildRoute` or `BuiltinRoute`), `Offer` (which tools of a child clients see),
`UriTemplate`, `Page`, `Pattern`.

Promises: every listed name has exactly one route, a public name never means two servers, and
entries keep fields that the hub does not know.

Read in this order: `names`, `merge`, `pages`, `search`, `search_tools`.
"""
