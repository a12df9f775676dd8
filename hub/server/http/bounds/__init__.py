"""Limits on what HTTP clients may use: connections, time, memory for bodies, lines in the log.

A client that has not passed the access checks, or that sends or reads slowly, must not keep others
out. At a limit the least useful connection is closed before a new one is refused. The limits say
nothing about who may use the hub: that is `AccessCheck` in `hub.server.http.access`.

Main types: `Limits` and `Connections` (how many connections, deadlines, eviction), `PlainHttp`
(what counts as a request) and `BoundedHttp` (uvicorn's protocol with these limits), `BodyLimit` and
`BodyLoad` (bytes of bodies), `Proxies` (the client address behind trusted proxies), `FailedLogins`
(refused tokens of each address), `RefusalLog` (few lines for many refusals), `MessageReader` (time
for large messages).

Read in this order: `connections`, `plain_http`, `bounded_protocol`, `bodies`, `forwarded`,
`failed_logins`.
"""
