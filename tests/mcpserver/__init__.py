"""A small MCP server, and its configuration."""

from __future__ import annotations

import json
import sys
from pathlib import Path

SERVER = Path(__file__).with_name("server.py")


def server(
    name: str = "small", *flags: str, more: str = "", env: dict[str, str] | None = None
) -> str:
    """Return the table of a server that runs with these flags."""
    table = "".join(f"{key} = {json.dumps(value)}\n" for key, value in (env or {}).items())
    argv = json.dumps([sys.executable, "-S", str(SERVER), *flags])
    return f"[mcp.{json.dumps(name)}]\ncommand = {argv}\n{more}\n" + (
        f"[mcp.{json.dumps(name)}.env]\n{table}\n" if table else ""
    )
