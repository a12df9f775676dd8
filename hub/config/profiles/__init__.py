"""What is left of a config for the clients of a profile, and whether profiles name what is there.

A profile only takes away: no key of it gives a client more than it would have without profiles. The
keys are in `hub.config.listening.profile`; which profile a request has is decided where it comes in
(`ProfileRules` in `hub.server.http.auth`).

Main functions: `narrowed`, `check_profiles`.

Read in this order: `narrowing`, `references`.
"""
