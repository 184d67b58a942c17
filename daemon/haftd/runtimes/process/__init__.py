"""A tool as a process on pipes, and the parts that a terminal's process shares.

`runtime` runs a tool on `pipes`. `child` is one started process, `control` its actions,
`resource_limits` its limits; `input_state` translates the kernel's wait state. An `interpreter`
parses structured output: at the end (`oneshot`) or line by line (`events`). A `helper` is run for
its output only.
"""
