"""Sources of connections: `unix`, `websocket`, `socket_activation`, with `accept`; a browser's
checks: `handshake`, `credentials`."""
