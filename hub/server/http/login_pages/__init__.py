"""The pages where principals log in at servers, each for itself.

A page first has the browser show whose it is: by the principal's own token of the config, or by a
login at the principal's issuer. So whoever sends its own link to somebody else gets no login with
it (MCP 2025-11-25 and 2026-07-28, "Elicitation": phishing). Then the browser goes to the server's
authorization server and comes back here; the login is kept for the principal that was shown. What
links, forms and addresses carry is sealed; logins under way are those of `hub.logins`.

Main types: `LoginSteps` (the steps of a login), `LoginPageEndpoints` (the same over HTTP),
`KnownPeople` (who somebody is).

Read in this order: `known_people`, `steps`, `endpoints`.
"""
