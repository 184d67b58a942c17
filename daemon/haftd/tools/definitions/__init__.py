"""Definitions of tools.

From a `document` of TOML, `load` makes each `definition`, by `fields`, `commands`, `parameters`
(`references`), `approval_policy`, `notice_rules`, `access_fields` (to `access`) and
`runtime_names`, with checked `template_names`. Other sources: `self_description` of programs,
`server_tools` of MCP servers, Python `functions`, packages' `entry_points`.
"""
