"""`haft mcp`: a server of the Model Context Protocol on standard input and output, a client of the daemon.

Rules: hosts restart this process and open several, so it keeps no state for later calls. `bridge` decides without
I/O: a message comes in, messages to the host and requests to the daemon go out. `stdio` moves the bytes, `http` does
so for HTTP. `messages` has the shapes, `questions` converts questions and forms, `request_state` signs the state that
a client returns, `roots` finds the folder and the session. `steps` has the steps of a request, which `tools` and
`resources` serve. `hosts` and `jsonc` change the configuration of hosts,
`server_import` takes servers over from it.
Each host pays for the start, so modules are imported on demand.
"""
