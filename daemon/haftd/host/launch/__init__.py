"""Start a program: recorded first, run second.

`program` resolves the command, `gate` is the process that waits for permission to execute,
`spawn_fds` makes the pipes, `limits` the resource limits, `landlock` and `syscall_filter` the
sandbox that the gate applies (`rule_path` opens rules' paths, `python_installation` finds an
interpreter's library, `connect_supervisor` connects sockets), `spawn` starts the child.
"""
