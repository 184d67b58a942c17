"""The tool of docs/tools.md as an MCP server, written from the specification alone."""

from __future__ import annotations

import json
import sys
from typing import Any

RELEASE = {
    "name": "release",
    "description": "Release a package.",
    "inputSchema": {
        "type": "object",
        "properties": {
            "package": {"type": "string", "pattern": "^[a-z]+$", "description": "Its name."},
            "copies": {"type": "integer", "default": 1, "description": "How many are made."},
        },
        "required": ["package"],
        "additionalProperties": False,
    },
}


def send(**message: Any) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def receive() -> dict[str, Any]:
    line = sys.stdin.readline()
    if not line:
        raise SystemExit(0)
    message: dict[str, Any] = json.loads(line)
    return message


def call(number: object, params: dict[str, Any]) -> dict[str, Any] | None:
    """Ask, and return the result; None where the call was cancelled."""
    package = params["arguments"]["package"]
    schema = {"type": "object", "properties": {"sure": {"type": "boolean"}}, "required": ["sure"]}
    form = {"message": f"Release {package}?", "requestedSchema": schema}
    send(id="ask", method="elicitation/create", params=form)
    while (reply := receive()).get("id") != "ask":
        if reply.get("method") == "notifications/cancelled":
            return None
    content = reply.get("result", {}).get("content", {})
    if not content.get("sure"):
        text = "the release was not confirmed"
        return {"isError": True, "content": [{"type": "text", "text": text}]}
    token = params.get("_meta", {}).get("progressToken")
    for copy in range(1, params["arguments"]["copies"] + 1):
        progress = {"progressToken": token, "progress": copy, "message": f"copy {copy}"}
        send(method="notifications/progress", params=progress)
    return {"content": [{"type": "text", "text": f"released {package}"}]}


def main() -> None:
    while True:
        message = receive()
        number, method = message.get("id"), message.get("method")
        if number is None:
            continue
        match method:
            case "initialize":
                server = {"name": "acme", "version": "1"}
                capabilities: dict[str, Any] = {"tools": {}}
                send(
                    id=number,
                    result={
                        "protocolVersion": "2025-11-25",
                        "capabilities": capabilities,
                        "serverInfo": server,
                    },
                )
            case "tools/list":
                send(id=number, result={"tools": [RELEASE]})
            case "tools/call":
                if (result := call(number, message["params"])) is not None:
                    send(id=number, result=result)
            case _:
                send(id=number, error={"code": -32601, "message": f"There is no method {method}."})


if __name__ == "__main__":
    main()
