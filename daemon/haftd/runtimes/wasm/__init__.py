"""WebAssembly modules as tools, each in its own process.

`plan` turns a module's launch into that of a worker, `worker` is the program of that process,
`runtime` compiles a module once and runs the worker on pipes.
"""
