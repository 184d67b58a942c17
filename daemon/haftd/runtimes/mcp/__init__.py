"""MCP servers as tools: a client of the Model Context Protocol without an SDK, in both eras
(legacy: opened by `initialize`; modern: stateless, opened by `server/discover`).

`servers` holds the configured servers, each a `server` on services of an `environment`. A `peer`
pairs requests and replies over a `process` or `http` (`event_stream`, `header_marks`); `connection`
negotiates the era and lists tools. `runtime` runs a call as an `exchange`; `elicitation` translates
questions, `content` results. `shapes` are messages.
"""
