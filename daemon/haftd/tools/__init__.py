"""From a definition to an executable call.

- `definitions` reads TOML, Python functions and the descriptions of programs and MCP servers.
- `templates` fills variables into commands.
- `projects` adds the trusted definitions of a root.
- `lists` shows tools to callers.
- `calls` resolves a call.

The `catalogue` has all tools by name. The daemon's own definitions are in `builtin/` and
`toolpack/`.
"""
