"""JSON-RPC, from the bytes of a connection to the reply.

`transports` accept connections, `wire` is their interface, `connection` serves a peer; `dispatch`
calls methods through `jsonrpcserver`; `replies` are unsent replies; `outbox` alone writes.
"""
