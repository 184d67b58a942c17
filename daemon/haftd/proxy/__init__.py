"""HTTP proxy that enforces sandboxed tools' rules on the network.

`heads` reads and writes heads of requests, `schemes` finds a tunnel's scheme, `server` connects.
"""
