"""JSON-RPC 2.0: exact JSON, messages, one connection's requests and responses, lines over pipes.

Used on both sides of the hub: for the connection of a client and for the connection to a child.
A child's payload stays bytes (`msgspec.Raw`) where the hub need not read it, so numbers, unknown
fields and key order reach the client unchanged. This package does not know what the methods mean.
It may import only `protocol`, `values` and other packages below it.

Main types: `Message` (`Request`, `Notification`, `Response`, `Failure`), `WireError`, `Peer` (one
side of a connection), `Outlet` (where messages are sent), `Lines` (reads a pipe), `SendQueue`,
`PeerConduct` (limits on a misbehaving child).

Reading order:
- `exact_json`, `messages`, `parsing`, `raw_objects`: from bytes to messages and back.
- `errors`, `requests`, `peer`: what a connection answers, the requests under way, and the peer.
- `pipes`, `lines`, `send_queue`: transport over pipes.
- `rated_log`, `peer_conduct`, `deadlines`: limits on time, log and misbehaviour.
"""
