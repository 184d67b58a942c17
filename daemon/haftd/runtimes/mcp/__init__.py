"""MCP servers as tools: a client of the Model Context Protocol without an SDK, in both eras
(legacy: opened by `initialize`; modern: stateless, opened by `server/discover`).

`servers` holds the configured servers; a `server` starts on first use and is shared by all
sessions, on services of an `environment`. A `peer` pairs requests and replies over a `process` on
pipes or `http` (with `event_stream` and `header_marks`); `connection` negotiates the era and lists
the tools. The `runtime` runs a call as an `exchange`; `elicitation` translates the server's
questions, `content` its results. `shapes` are the messages.
"""
