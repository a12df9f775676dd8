"""The parts of the MCP specification that the hub implements itself, as data and pure functions.

Protocol versions, method names, error codes, HTTP headers, input requests, the state that a client
returns with a retry, subscription filters, server-sent events, host names and web origins. Two
eras: the handshake or legacy era begins with `initialize`; in the modern era (2026-07-28) each
request has its own envelope in `_meta`.

Pure: no await, clock, disk or SDK. Imports only `values` and other files of this package. It
decides no policy: what a call may reach is up to `guard`.

Main types: `ParamHeader`, `ListenFilter`, `CallState`, `RetryInput`, `ChildInputRound`,
`EventParser`, `ServerSentEvent`.

Reading order: `constants`, `http_headers` (with bearer tokens, host names and origins),
`input_requests` (with the state between rounds), `listen_filter`, `sse_parser`.
"""
