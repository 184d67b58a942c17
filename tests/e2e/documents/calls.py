"""Tool calls as the documents write them, `call(git, { action: … })`, over the wire."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.wire import Wire

Called = tuple[str, dict[str, Any]]


def called(host: Wire, tool: str, arguments: dict[str, Any], root: Path | None = None) -> Any:
    """Return the reply of a call."""
    where = {} if root is None else {"root": str(root)}
    return host.call("tools/call", tool=tool, arguments=arguments, **where)


def batch_of(*calls: Called) -> list[dict[str, Any]]:
    """Return parallel calls as a batch."""
    return [
        {
            "jsonrpc": "2.0",
            "id": f"call-{number}",
            "method": "tools/call",
            "params": {"tool": tool, "arguments": arguments},
        }
        for number, (tool, arguments) in enumerate(calls)
    ]


def replies_of(host: Wire, count: int) -> list[Any]:
    """Return the replies to a batch, as an ordered list."""
    replies = host.receive()
    assert isinstance(replies, list)
    assert [reply["id"] for reply in replies] == [f"call-{number}" for number in range(count)]
    return [reply["result"] for reply in replies]


def batched(host: Wire, *calls: Called) -> list[Any]:
    """Send parallel calls as a batch and return the replies."""
    host.send(batch_of(*calls))
    return replies_of(host, len(calls))
