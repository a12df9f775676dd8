"""Connections to remote children over HTTP: streamable HTTP and the older HTTP+SSE transport.

This package sends requests only to the configured origin: redirects and endpoints elsewhere are
refused, except from http to https on the same host. Its error texts contain no header and no secret
part of a URL. Imported only when a remote child is opened, because it loads the HTTP client.

Main types: `HttpLink` and `SseLink` (the `ChildConnection` of each transport), `Endpoint` and
`Exchange` (one address; one HTTP response), `HttpOutbox` and `InboundQueue` (messages out and in).

Reading order: `connect`, `http_client` (requests), `exchange` (a response), `messages` (the queue
in, the tasks out), `sse` (MCP 2024-11-05), `streamable_http`, `resumption`.
"""
