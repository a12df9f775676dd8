"""Streamable HTTP: the endpoint, its sessions, its event streams and its access checks.

The ASGI application `HttpServer` runs in uvicorn. A POST has one message; its response is JSON, or
an event stream if other messages come before the answer. Only legacy clients have sessions, a GET
event stream and resumable streams. No message is parsed before Host, Origin and token are checked.

There are two paths for a POST. On the fast path `DirectHttp` gives a plain tool call to
`FastCallAcceptor`, without a task. On the general path a task runs `HttpServer`. Both must give the
same answer. Only `uvicorn_protocol` and `bounds.bounded_protocol` use uvicorn's private names.

Main types: `HttpServer`, `AccessCheck`, `HttpSession`, `PostResponse`, `EventStream`, `PlainCall`.

Read in this order: `serve`, `app`, `access`, `responses`; for the legacy era `legacy`, `sessions`,
`event_store`, `event_streams`, `resumption`; for the modern era `modern`; for the fast path
`request_heads`, `fast_calls`, `uvicorn_protocol`. The limits are in the package `bounds`.
"""
