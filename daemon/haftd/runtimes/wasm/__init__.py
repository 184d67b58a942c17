"""WebAssembly modules as tools, each in its own process: `plan` makes the launch of a `worker`,
which `runtime` runs on pipes."""
