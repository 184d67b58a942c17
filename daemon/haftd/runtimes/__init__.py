"""Runtimes: ways of running a tool, each one coroutine behind the interface `base`.

`process` on pipes, `terminal`, `vfs` for mediated tools, `wasm` for modules of WebAssembly, `builtin` for the
daemon's own tools, `mcp`, and `fake` for tests.
`no_process` is a base class, `entry_points` loads runtimes of packages, `keys` are key names.
"""
