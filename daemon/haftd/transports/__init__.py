"""Where connections come from: Unix socket, WebSocket, inherited sockets."""
