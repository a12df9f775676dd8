"""Who sends an HTTP request: bearer tokens of the config, and tokens that an issuer has made.

Tokens of the issuers in `listen.auth` are of two kinds. JSON web tokens (RFC 7519, RFC 9068) are
verified by PyJWT, which is loaded only where there is such an issuer. About all others (opaque
tokens) the hub asks the issuer (RFC 7662). The hub is a protected resource (RFC 9728; MCP
2025-11-25 and 2026-07-28, "Authorization"): it makes no tokens, and passes none on.

Main types: `Credentials` (both kinds), `BearerTokens`, `TokenVerifier`, `SignedTokens` with the
`KeySet` of each issuer, `OpaqueTokens`, `Admission` (who sent a request), `ProtectedResource` (what
clients are told).

Read in this order: `admission`, `issuer_metadata`, `signed_tokens`, `introspection`,
`token_verifier`, `credentials`.
"""
