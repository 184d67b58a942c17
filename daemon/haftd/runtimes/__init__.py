"""Ways of running a tool, each one coroutine behind the interface `base`: `process` on pipes,
`terminal`, `vfs` (mediated), `wasm`, `builtin`, `mcp`.

`no_process` is a base class, `entry_points` loads runtimes of packages, `keys` are key names.
"""
