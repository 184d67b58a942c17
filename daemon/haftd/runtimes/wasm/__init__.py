"""WebAssembly modules as tools: each runs in a process of its own, never in the daemon.

`plan` turns the launch of a module into that of a worker, `worker` is the program of that process, and
`runtime` compiles a module once, then runs the worker as a tool on pipes.
"""
