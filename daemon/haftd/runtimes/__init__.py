"""Runtimes: ways of running a tool, all behind one coroutine.

The interface is `base`. Runtimes of the daemon: `process` on pipes, `terminal`, `builtin` for its own tools, `mcp` for the
tools of MCP servers, and `fake`, which plays a script. `no_process` is the base of a runtime without a process, and
`added` loads those of other packages; `haftd.testing` checks any of them. `keys` are the names of keys that pipes and
terminals take.
"""
