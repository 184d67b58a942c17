"""A tool as a process on pipes (`runtime`, `pipes`), and parts shared with terminals: `child`
supervises a process, `control` acts on it, `resource_limits` bound it; an `interpreter` parses
output (`oneshot`, `events`); `failure_hint` finds causes of a failure in the output. A `helper`
runs for its output only."""
