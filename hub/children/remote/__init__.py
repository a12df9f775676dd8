"""Connections to remote children over HTTP: streamable HTTP and the older HTTP+SSE transport.

This package sends requests only to the configured origin: redirects and endpoints elsewhere are
refused, except from http to https on the same host. Its error texts contain no header and no secret
part of a URL. Imported only when a remote child is opened, because it loads the HTTP client.

Main types: `HttpLink` and `SseLink` (the `ChildConnection` of each transport), `Endpoint` and
`Exchange` (one address; one HTTP response), `HttpOutbox` and `InboundQueue` (messages out and in).

Reading order:
- `connect`: open a connection, which gives way to others
- `http_client`: requests, redirects, headers, cookies; `exchange`: a response and its body
- `messages`: the queue of received messages, and a task for each request
- `sse`: the transport of MCP 2024-11-05
- `streamable_http`, then `resumption`: sessions and streams that are resumed; falls back to `sse`
"""
