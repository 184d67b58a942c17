"""Start a program: record it first, run it second.

`program` resolves the command; `spawn` starts the child with `spawn_fds`, at a `gate`, which
applies `limits` and the sandbox: `landlock` (its paths: `rule_path`, `python_installation`),
`syscall_filter`, and `connect_supervisor`.
"""
