"""MCP servers as tools: a client of the Model Context Protocol, in both eras (legacy: opened by
`initialize`; modern: stateless, opened by `server/discover`).

`servers` holds every `server`; a `peer` pairs requests and replies over a `process` or `http`,
`connection` negotiates the era. `runtime` runs a call as an `exchange`; `elicitation` translates
questions, `content` results.
"""
