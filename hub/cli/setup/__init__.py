"""Commands that set the hub up: a config of what clients have, and the hub in clients' configs.

They read and write files of the user and of other programs, ask first, and show what they do. What
the texts become is decided in `hub.config.carrying` and `hub.config.editing`.

Read in this order:
- `importing` (`import`): clients' servers, written into a hub.yaml;
- `installing` (`install`, `uninstall`): the hub's entry in clients' configs, with
  `client_changes` (what changes in a file and in the hub.yaml behind it, and writing both);
- `starting` (`init`): a first hub.yaml;
- `showing`: tables and differences.
"""
