"""Results of the daemon as JSON, without the protocol's types, checked for the members that are shown."""

from __future__ import annotations

import json

from ..errors import ProtocolFault

TYPE_CHECKING = False  # `typing` takes 3 ms
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from .show import Json

_STATES: dict[str, dict[str, type]] = {
    "pending": {"content": str},
    "running": {"content": str},
    "waiting": {"content": str, "question": dict},
    "stopped": {"ended_by": dict},
}
_ALWAYS = {"id": str, "tool": str, "session": str, "generation": int, "elapsed_ms": int}
_OPTIONAL = {
    "content": str,
    "result": str,
    "output": str,
    "error": dict,
    "exit": dict,
    "screen": dict,
    "truncated": dict,
    "needs": str,
}
_LISTED = {"age_s": (int, float), "bytes": int, "command": str}


def checked_state(encoded: bytes) -> Json:
    """Decode a handle's state; raise `ProtocolFault`."""
    state = _decoded(encoded)
    _check_state(state, with_output=True)
    return state


def handle_entries(encoded: bytes) -> list[Json]:
    """Decode the result of `handles/list`; raise `ProtocolFault`."""
    handles = _decoded(encoded).get("handles")
    if not isinstance(handles, list):
        raise _fault("handles")
    for entry in handles:
        _check_state(entry, with_output=False)
        _check(entry, _LISTED.items())
    return handles


def _check_state(state: Any, *, with_output: bool) -> None:
    name = state.get("state") if isinstance(state, dict) else None
    needed = _STATES.get(name) if isinstance(name, str) else None
    if needed is None:
        raise _fault("state")
    _check(state, _ALWAYS.items())
    _check(state, ((n, kind) for n, kind in needed.items() if n != "content" or with_output))
    _check(state, ((n, kind) for n, kind in _OPTIONAL.items() if n in state))


def _check(members: Json, kinds: Iterable[tuple[str, Any]]) -> None:
    for name, kind in kinds:
        if not isinstance(members.get(name), kind):
            raise _fault(name)


def _decoded(encoded: bytes) -> dict[str, Any]:
    value = json.loads(encoded)
    if not isinstance(value, dict):
        raise ProtocolFault("the reply of haftd is invalid: it is not an object")
    return value


def _fault(name: str) -> ProtocolFault:
    return ProtocolFault(f"the reply of haftd is invalid: `{name}` is missing or wrong")
