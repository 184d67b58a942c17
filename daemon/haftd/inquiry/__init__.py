"""Finding whoever answers a tool's question."""
