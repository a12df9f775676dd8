"""The hub's side of attached clients: its socket, who may use it, and the clients' own descriptors.

A client's process hands its stdin and stdout over (`attach` has its side), and stays as the
lifeline. The hub then reads and writes these descriptors itself, as it does with its own under
`run --stdio`. What one client sends, or does not read, must not reach or hold up another. Not on
Windows.

Main types: `SharedHub` (what is served), `AttachServer` (the socket, until the hub is not needed).

Read in this order:
- `admission`: who connects, that it is no process of the hub's own, and what a hello must say;
- `client_streams`: a client's descriptors, and its lifeline (log and exit code for its process);
- `server`: accept, serve, answer inquiries, end.
"""
