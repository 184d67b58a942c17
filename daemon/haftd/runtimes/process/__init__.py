"""A tool as a process on pipes, and parts shared with terminals.

`runtime` runs a tool on `pipes`; `child` supervises a process, `control` acts on it and translates
its wait state, `resource_limits` bound it. An `interpreter` parses output (`oneshot`, `events`),
`failure_hint` finds causes of a failure in the output; a `helper` runs for its output only.
"""
