"""JSON-RPC, from a connection's bytes to the reply.

`transports` accept connections behind the interface `wire`, `connection` serves a peer, with
`connection_tasks` where a call needs them, `dispatch` calls methods through `jsonrpcserver`,
`replies` are unsent, only `outbox` writes.
"""
