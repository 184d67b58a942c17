"""`haft mcp`: a server of the Model Context Protocol on standard input and output, a client of the daemon.

Rules: the process is no conversation: hosts restart it and open several, so nothing that a later call needs is
kept here. `bridge` decides without I/O: a message comes in, messages to the host and requests to the daemon go
out. `stdio` moves the bytes. `messages` has the shapes, `questions` turns a tool's question into a form and back,
`request_state` keeps what a client is to bring back from being changed, `roots` finds the folder and the session.
`steps` is what a served request waits for, `tools` and `resources` serve; `http` is another edge. `hosts` and
`jsonc` change the configuration of hosts.
A start costs every host's user time, so a module is imported where it is needed.
"""
