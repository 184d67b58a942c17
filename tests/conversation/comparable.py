"""Make recorded replies comparable between runs. Names, order and types of fields stay. Times,
process ids, generated ids, sizes of processes and paths become their type's name; so do texts
for reading (`message`, `description`, `summary`)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

_VOLATILE = frozenset(
    [
        "elapsed_ms",
        "at",
        "age_s",
        "pid",
        "cpu_s",
        "memory",
        "started_at",
        "last_output_at",
        "approval_id",
        "digest",
        "version",
        "uptime_s",
        "open_s",
        "points",
        "inputs",
    ]
)
_WORDED = frozenset({"message", "description", "summary", "why", "help"})


_GENERATED = re.compile(r"(?<=^call\.)[0-9a-f]{16}$|(?<=^pid )\d+$|\b[0-9a-f]{32,64}\b")
"""In a text that is no name of ours: a made-up handle's, a client's that named none, a digest."""


def comparable(message: Any, folder: str, key: str = "") -> Any:
    """Return a message with run-dependent values replaced."""
    if isinstance(message, dict):
        return {name: comparable(value, folder, name) for name, value in message.items()}
    if isinstance(message, list):
        return [comparable(one, folder, key) for one in message]
    if key in _WORDED and isinstance(message, str):
        return "<text>"
    if key in _VOLATILE and message is not None:
        return f"<{type(message).__name__}>"
    if isinstance(message, str):
        message = message.replace(folder, "<folder>")
        return _GENERATED.sub("<id>", message)
    return message


def joined(messages: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Join pushed output of one handle, and put a notification before the state just before it.
    The pieces of the output depend on timing, and so does the order of a notification and a
    state, which have separate queues."""
    found: list[dict[str, Any]] = []
    for message in messages:
        last = found[-1] if found else {}
        if message.get("method") == last.get("method") == "handle/output":
            new, old = message["params"], last["params"]
            data = {"data": old["data"] + new["data"], "cursor": new["cursor"]}
            found[-1] = {**last, "params": {**old, **data}}
        elif (
            message.get("method") == "session/notification" and last.get("method") == "handle/state"
        ):
            found.insert(-1, message)
        else:
            found.append(message)
    return json.loads(json.dumps(found))  # type: ignore[no-any-return]
