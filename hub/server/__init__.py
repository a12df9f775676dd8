"""The server side: what MCP clients connect to, over stdio and over streamable HTTP.

Both transports serve both protocol eras. A legacy client (up to 2025-11-25) begins with a
handshake, and a session follows. A modern client (2026-07-28) sends an envelope with each request,
and each request has a session of its own. A modern client's roots come with its requests.

Only here `HubError`s become JSON-RPC errors and HTTP statuses. This package decides nothing about
paths and sends nothing to a child: each call goes to `hub.calls`. No package below imports it.

Main types: `ClientConnection` (one client: its peer, its session, both eras), `ConnectionFactory`
(opens connections; `hub.app` has the real one), `Modern` (the modern requests of one connection).

Read in this order: `connection` (requests by method), `modern` (the modern era), `stdio` (the stdio
transport), then the packages `attached` and `http`.
"""
