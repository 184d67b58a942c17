"""Runtimes: ways of running a tool, each one coroutine behind the interface `base`.

`process` runs a tool on pipes, `terminal` on a terminal; `builtin` are the daemon's own tools,
`mcp` those of MCP servers, `fake` is for tests. `no_process` is a base class, `entry_points` loads
runtimes of other packages, `keys` are key names.
"""
