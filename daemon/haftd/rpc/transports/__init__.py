"""Sources of connections: `unix`, `websocket` and `socket_activation`, with `accept`; `handshake`
and `credentials` check a browser."""
