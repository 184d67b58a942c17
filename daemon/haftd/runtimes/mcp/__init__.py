"""MCP servers as tools: a client of both eras (legacy: opened by `initialize`; modern: stateless,
opened by `server/discover`).

`servers` holds every `server` (services: `environment`); a `peer` pairs requests and replies over a
`process` or `http` (`event_stream`, `header_marks`), `connection` negotiates the era. `runtime`
runs a call as an `exchange`; `elicitation` translates questions, `shapes` are the messages.
"""
