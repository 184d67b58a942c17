"""A call of a tool as the documents write it, `call(git, { action: … })`, over the wire."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.wire import Wire

Called = tuple[str, dict[str, Any]]


def called(host: Wire, tool: str, arguments: dict[str, Any], root: Path | None = None) -> Any:
    """The reply of one call."""
    where = {} if root is None else {"root": str(root)}
    return host.call("tools/call", tool=tool, arguments=arguments, **where)


def batch_of(*calls: Called) -> list[dict[str, Any]]:
    """Parallel calls as one batch."""
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
    """The replies to a batch of so many: one list, in its order."""
    replies = host.receive()
    assert isinstance(replies, list)
    assert [one["id"] for one in replies] == [f"call-{number}" for number in range(count)]
    return [one["result"] for one in replies]


def batched(host: Wire, *calls: Called) -> list[Any]:
    """The replies of parallel calls, sent as one batch."""
    host.send(batch_of(*calls))
    return replies_of(host, len(calls))
