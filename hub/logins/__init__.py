"""Logins to remote servers: the tokens that a person has got, and new ones when they end (OAuth).

The login itself, with a browser, is in `hub.cli`, in a process of its own. Here a running hub reads
what came of it and renews the access token, and a logout has it revoked. Tokens are for one server;
a refresh token goes to the authorization server that it is from, and to no other. No error and no
log line has one.

Main types: `Login` (all that came of a login), `LoginFiles` (where logins are kept, sealed),
`AccessTokens` (the tokens for the requests to one server), `LoginRuns` (logins within
calls, each in a process of its own).

Read in this order: `login`, `login_files`, `issuer_requests`, `access_tokens`, `login_process`.
"""
