"""Commands with which a person logs in at remote servers: `login`, `logout`.

A login is a process of its own, with the SDK's OAuth client, which a hub does not load. What comes
of it is kept by `hub.logins`, where a running hub finds it at the server's next start.

Main types: `ServerLogin` (the flow, with what the SDK's client does not refuse by itself), with the
grants `BrowserLogin` and `DeviceLogin`; `Redirect` (where the browser comes back to).

Read in this order: `flow`, `redirect`, `logging_in`, `for_hub`, `command`.
"""
