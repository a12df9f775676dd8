"""Logins to remote servers: the tokens that a person has got, and their renewal (OAuth).

The login itself, with a browser, is in `hub.cli`, in a process of its own. Here a running hub reads
the tokens that the login brought and renews the access token, and a logout has them revoked. Tokens
are for one server. A refresh token goes to the authorization server that it is from, and to no
other. No error and no log line has a token.

Main types: `Login` (all that came of a login), `LoginFiles` (where logins are kept, sealed),
`AccessTokens` (the tokens for the requests to one server), `LoginRuns` (logins within
calls, each in a process of its own).

Read in this order: `login`, `login_files`, `issuer_requests`, `access_tokens`, `login_process`.
"""
