"""The legacy era over HTTP: sessions, their requests, and the streams of events.

MCP 2025-11-25, "Transports", "Streamable HTTP", and the revisions before it. A session is opened by
`initialize` and named by every later request. What no request waits for goes to the stream that a
GET opens. A response that was lost is resumed from the events that are kept. Whoever sends a
request was admitted before; no token is checked here.

Main types: `LegacyRequests` (answers POST, GET and DELETE), `LegacySessions` (opens, adopts, finds
and ends sessions), `HttpSession`, `SessionPost`, `NotificationStream`, `ResumableStreams`.

Read in this order: `event_store`, `event_streams`, `http_session`, `sessions`.
"""
