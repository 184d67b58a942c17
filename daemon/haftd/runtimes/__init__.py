"""Runtimes: ways of running a tool, each one coroutine.

The interface is `base`. Runtimes of the daemon: `process` on pipes, `terminal`, `builtin` for its
own tools, `mcp` for the tools of MCP servers, and `fake` for tests. `no_process` is the base of a
runtime without a process, `entry_points` loads runtimes of other packages; `haftd.testing` checks
any of them. `keys` are the key names that pipes and terminals accept.
"""
