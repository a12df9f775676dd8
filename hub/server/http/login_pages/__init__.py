"""The pages where principals log in at servers, each for itself.

A page first finds out who uses the browser: by the principal's own token of the config, or by a
login at the principal's issuer. So a link that somebody else sent logs nobody in for the sender
(MCP 2025-11-25 and 2026-07-28, "Elicitation": phishing). Then the browser goes to the server's
authorization server and comes back here. The login is kept for the principal that was found. What
links, forms and addresses carry is sealed; `hub.logins` has the logins that are under way.

Main types: `LoginSteps` (the steps of a login), `LoginPageEndpoints` (the same over HTTP),
`KnownPeople` (who somebody is).

Read in this order: `steps`, `endpoints`.
"""
