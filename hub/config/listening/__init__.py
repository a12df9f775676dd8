"""The keys of `listen` and `profiles`: where the hub serves over HTTP, and what for whom.

What may be reached by others needs a token of some kind; `check_access` says so for public names
and proxies, the server itself for addresses. Keys come over https, or from this machine.

Main types: `Listen`, `NamedToken` (a token of the config), `Auth` and `TrustedIssuer` (tokens that
others have signed), `PrincipalLimits` (how much each of them may use), `Profile` (what some clients
get of the config).

Read in this order: `listen`, `auth`, `profile`.
"""
