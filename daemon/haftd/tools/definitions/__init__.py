"""Definitions of tools, and their sources.
- Reading: a `document` is a TOML file with line numbers; `load` makes each `definition` by its `fields`,
  `commands`, `parameters` and their `references`, the `approval_policy`, the `notice_rules`, the
  `access_fields` (to an `access` policy) and the `runtime_names`, and
  checks its `template_names`.
- Sources: `self_description` of a program and `server_tools` of an MCP server, merged over a file's tables;
  Python `functions` of tool files and packages' `entry_points`.
"""
