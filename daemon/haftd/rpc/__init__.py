"""JSON-RPC: from the bytes of a connection to a decided message, and from the reply to the bytes.

`transports` accept connections, `wire` is their interface; `connection` serves a peer and holds its
pending requests; `dispatch` decodes a message and calls its method, through the adapter
`jsonrpcserver`; `replies` are replies until they are sent; `outbox` alone writes.
"""
