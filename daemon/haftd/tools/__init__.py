"""From a definition to an executable call.
- `definitions` reads TOML, Python functions and descriptions by programs and MCP servers.
- `templates` fills variables into commands.
- `projects` adds a root's trusted definitions.
- `lists` shows tools to callers.
- `calls` resolves a call.
The `catalogue` has all tools by name; the daemon's own are in `builtin/` and `toolpack/`.
"""
