"""From a definition to an executable call.

- Parsing: `document`, `load`, `fields`, `commands`, `parameters`, `references` and
  `template_names` build a `definition`. `functions` and `entry_points` add Python functions and
  `runtime_names`.
- Sources: the `catalogue` joins definitions with `server_tools` and `self_description` by
  `table_merge`; a root's tools come by `roots`, `trust`, `project_tools` and `trust_preview`.
- Lists: the `toolset` to a caller, `tool_list`, `verb_tools`, `full_description`, `pages`.
- Policies: `approval_policy`, `notice_rules`.
- Calls: `tool_calls`, `arguments`, `template`, `words`, `shelltext`, `resolve`, `environment`,
  `loginpath`.
- Data: `builtin/` and `toolpack/`.
"""
