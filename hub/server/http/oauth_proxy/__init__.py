"""The hub as OAuth proxy, for an identity provider at which MCP clients cannot register themselves.

Clients register at the hub, and are sent on to the provider, where the hub has one client of its
own. Each login first asks the user for consent to the MCP client, and ends in the browser that it
began in. So no other client can get tokens through the hub's client (OAuth 2.1, "confused deputy";
MCP 2025-11-25, "Security Best Practices"). The hub keeps no users and no clients: what it needs to
know again is sealed, and clients carry it.

OAuth 2.1; RFC 7591 (registration), 7636 (PKCE), 8252 (native apps), 8414 (metadata), 8707
(resource), 9207 (issuer); OpenID Connect Core.

Main types: `OAuthProxy` (the steps of a login), `OAuthEndpoints` (the same over HTTP),
`IdentityProvider` (where people log in), `Tickets` (what is sealed), `HubTokens` (the tokens that
clients get).

Read in this order: `errors`, `tickets`, `identity_provider`, `proxy`, `browsers`, `endpoints`.
"""
