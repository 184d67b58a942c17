"""Start a program: record it first, run it second.

`program` resolves the command; `spawn` starts it with `spawn_fds` and `limits` in a `gate_child`, a
process at a `gate`, which applies the sandbox: `landlock` (its paths: `rule_path`, `python_installation`),
`syscall_filter`, and `connect_supervisor`. A `launched_process` has the leader from then on to its exit.
"""
