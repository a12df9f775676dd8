"""Launch templates and plans: from a server's config and a client's roots to argv, env and cwd.

Pure: no await, no clock, no disk, no process. What depends on the disk is passed in as a function
(`argv_directories`). A root is always one argv element or part of one: no shell is involved.

Main types: `Template` (a text with placeholders), `LaunchTemplate` (a stdio server as configured),
`LaunchPlan` (argv, environment, working directory and roots of one child process). Equal plans mean
the same child: clients with the same roots can share it.

Read in this order:
- `templates`: placeholders such as `${root}`, `${NAME:-default}` and `${file:PATH}`;
- `plan`: fills a template for a client's effective roots;
- `known_servers`: recognises servers that take their directories as arguments or keep nothing;
- `environments`: which variables of the hub's environment a child inherits. In a shared hub these
  are the ones that all sessions of a user have in common.
"""
