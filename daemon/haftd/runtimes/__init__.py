"""Runtimes: one way of running a tool a file, all behind one coroutine.

The seam is `base`; behind it `process`, on `pipes`; `terminal`; `builtin`, for the daemon's own; `fake`.
A third party's is `added`; one without a process has the base `no_process`. `haftd.testing` checks any of them.
A process: `child`, what can be done to it (`control`), its `resource_limits`, whether it waits for input (`wanting`).
What it says is heard by an `interpreter`: once, at its end (`oneshot`), or as it goes (`events`).
A terminal: what is shown (`screen`, on the terminal `library`, `paint`, a `transcript` drawn on a
`scratch` terminal; whole `frames`, U+FE0F by `variation`) and what is typed (`terminal_input`, `keys`, `encoders`, `read_watch`,
`keyboard_owner`). All that is drawn waits
its turn (`draw_scheduler`), in pieces by their `render_cost`.
Tools of MCP servers: `mcp/`.
A `helper` command is run for its output.
"""
