"""A tool as a process on pipes, and the parts that a terminal's process shares.

`runtime` runs a tool on `pipes`; `child` supervises a process, `control` acts on it,
`resource_limits` bound it, `input_state` translates its wait state. An `interpreter` parses
structured output (`oneshot`, `events`), `denials` finds what a sandbox has refused; a `helper` runs for its output only.
"""
