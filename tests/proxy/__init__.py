"""The proxy for sandboxed tools."""
