"""The keys below `listen`: where the hub serves over HTTP, and whom it lets in.

What may be reached by others needs a token of some kind; `check_access` says so for public names
and proxies, the server itself for addresses. Keys come over https, or from this machine.

Main types: `Listen`, `NamedToken` (a token of the config), `Auth` and `TrustedIssuer` (tokens that
others have signed), `PrincipalLimits` (how much each of them may use).

Read in this order: `listen`, `auth`, `limits`.
"""
