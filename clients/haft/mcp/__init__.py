"""`haft mcp`: a server of the Model Context Protocol, a client of the daemon.

Hosts restart this process and open several, so it keeps no state, and imports on demand. `bridge`
decides without I/O; `stdio` or `http` moves the bytes; `tools` and `resources` serve requests in
`steps`. `hosts`, `jsonc` and `server_import` read and change the configuration of hosts.
"""
