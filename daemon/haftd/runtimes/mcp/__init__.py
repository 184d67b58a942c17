"""MCP servers as tools: a client of the Model Context Protocol, in both eras (legacy: opened by
`initialize`; modern: stateless, opened by `server/discover`).

`servers` holds every `server`, on services of an `environment`; a `peer` pairs requests and replies
over a `process` or `http` (with `event_stream` and `header_marks`), `connection` negotiates the era.
`runtime` runs a call as an `exchange`; `elicitation` translates questions, `content` results, and
`shapes` are the messages.
"""
