"""JSON-RPC, from the bytes of a connection to the reply.

`transports` accept connections through the interface `wire`, `connection` serves a peer, `dispatch`
calls methods through `jsonrpcserver`, `replies` are unsent replies, and only `outbox` writes.
"""
