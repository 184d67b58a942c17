"""A tool as a process on pipes, and all that a terminal's process needs as well.

`runtime` runs a tool on `pipes`. `child` is one started process, `control` the actions on it, `resource_limits` its
bounds; `input_wanted` translates the kernel's wait state. An `interpreter` reads what the process prints: at its end
(`oneshot`) or line by line (`events`). A `helper` is run for its output only.
"""
