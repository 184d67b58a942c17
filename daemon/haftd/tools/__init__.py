"""From a definition to a tool that can run.

Read: `document` `load` `fields` `commands` `parameters` make a `definition`, with its `references`, whose
templates name only what is `declared`; by
`merging` over what an MCP server lists (`served`), or over what a program says of itself (`selfdescribed`) the `catalogue` comes about.
Python `functions` become definitions by their source, or by the `entry_points` of packages, which add `runtime_names`.
A root's own: `roots` `trust` `rooted` `showing`.
Told: the `offer` to a caller, `listing` `verbtools` `describing` `pages`.
What it wants of the daemon: `approving` `noticing`.
Called: `calling` `arguments`, `template` `words` `shelltext`,
`resolve`, `environment` with `loginpath`.
Brought along: `builtin`, and the `toolpack`.
"""
