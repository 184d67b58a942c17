"""The conformance suite of MCP against `haft mcp --http`: `make conformance`."""
