"""Who sends an HTTP request: bearer tokens of the config, and tokens that an issuer has signed.

Signed tokens are JSON web tokens (RFC 7519, RFC 9068) of the issuers in `listen.auth`, verified by
PyJWT, which is loaded only where there is such an issuer. The hub is a protected resource (RFC
9728; MCP 2025-11-25 and 2026-07-28, "Authorization"): it makes no tokens, and passes none on.

Main types: `Credentials` (both kinds), `BearerTokens`, `TokenVerifier`, `KeySet` (the keys of one
issuer), `Admission` (who sent a request), `ProtectedResource` (what clients are told).

Read in this order: `admission`, `bearer_tokens`, `protected_resource`, `signed_tokens`, `key_set`,
`key_source`, `credentials`.
"""
