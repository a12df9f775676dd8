"""Streamable HTTP: the endpoint, its sessions, its event streams and its access checks.

The ASGI application `HttpServer` runs in uvicorn. A POST has one message; its response is JSON, or
an event stream if other messages come before the answer. Only legacy clients have sessions, a GET
event stream and resumable streams. No message is parsed before Host, Origin and token are checked.

A POST needs no task if it is a call whose route is cached: `DirectHttp` gives it to
`FastCallAcceptor`, and skips uvicorn's parser where a connection repeats the head of the call
before (`RepeatedHead`). For any other POST a task runs `HttpServer`. Only `uvicorn_protocol`,
`bounds.bounded_protocol` and `bounds.plain_http` use uvicorn's private names.

Main types: `HttpServer`, `AccessCheck`, `PostResponse`, `ModernPosts`, `PlainCall`,
`SessionIds`.

Read in this order: `serve`, `app`, `open_requests`, `access`, `responses`; for the modern era
`modern`; for calls without a task `request_heads`, `fast_calls`, `uvicorn_protocol`; for sessions
that outlive their process `adoption`. Packages: `legacy` (the legacy era), `bounds` (limits),
`auth` (who sends a request), `oauth_proxy` and `login_pages`.
"""
