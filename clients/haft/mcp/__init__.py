"""`haft mcp`: a server of the Model Context Protocol, a client of the daemon.

Hosts restart this process and open several, so it keeps no state, and imports on demand. `bridge`
decides without I/O; `stdio` or `http` moves the bytes. `messages` has the shapes, `questions`
converts questions and forms, `request_state` signs the state that a client returns, `roots` finds
folder and session. `steps` has the steps of a request, which `tools` and `resources` serve. `hosts`
and `jsonc` change the configuration of hosts, `server_import` takes servers over from it.
"""
