"""JSON-RPC: from the bytes of a connection to a decided message, and from the reply to the bytes.

`transports` accept connections and `wire` is their interface; `connection` serves one peer and holds its pending
requests; `dispatch` decodes a message and calls its method, through the adapter `jsonrpcserver`; `replies` are the forms of a reply until it is sent;
`outbox` is the only place that writes.
"""
