"""The composition root: the only package that builds the hub's objects and connects them.

Nothing below it knows it. It decides nothing about calls: it hands each part the others it needs,
and replaces what a changed config changes.

Read in this order:
- `machine`: what the command line (`Setting`) and this machine add to a config;
- `hub` (`configured`, `Hub`, `View`): from a config to the values that serve its clients; what
  these share; a changed config is taken over here;
- `running` (`open_hub`, `running_hub`): owns children and tasks, and ends them; opens clients'
  connections;
- `client_access`, `issuers`, `login_pages`: who is let in over HTTP, and how much it may use.
"""
