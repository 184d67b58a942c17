"""The program of the small MCP server; the module beside it is compiled once, and not at each start."""

from __future__ import annotations

from small_server import main  # type: ignore[import-not-found]

main()
