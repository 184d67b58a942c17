"""The HTTP proxy for sandboxed tools, which enforces their rules on the network.

`heads` reads and writes the heads of requests, `schemes` tells the scheme of a tunnel from its first bytes, `server`
connects.
"""
