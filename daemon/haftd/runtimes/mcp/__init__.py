"""MCP servers as tools: the daemon as a client of the Model Context Protocol, both eras, no SDK.

`servers` holds all configured servers, each a `server`: started when first needed, shared by all sessions, started
again after its end; what they need of the daemon is their `environment`. A `process` on pipes and an `http` endpoint (with `header_marks`) are transports of one `peer`, which pairs requests
and replies (in an `event_stream`, where the server answers so); `connection` opens it in the era that the server speaks and lists its tools. A call of a tool is an
`exchange` over the connection, run by the `runtime`; `elicitation` turns the server's questions into the daemon's,
`content` what comes back into a text and files. The messages are `shapes`.
"""
