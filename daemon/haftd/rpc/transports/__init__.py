"""Where connections come from: Unix socket, WebSocket, inherited sockets.

`unix` `websocket` `inherited`, with `accept`, and what a browser has to pass: `handshake` and `token`.
"""
