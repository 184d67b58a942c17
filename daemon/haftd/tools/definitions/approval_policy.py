"""Approval policy of a tool: the actions that need a person's decision.

`run` as a string covers starts (`spawn` and one-shot `call`); as a table it covers the named
actions, and `default` the others. Of `spawn` and `call`, an unnamed one inherits the mode of the
other, else a policy could be bypassed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeVar

from haft_protocol.approvals import PolicedAction

from .definition import RunMode, StatedMode, Tool

PARAMETERS = ("json", "function_call", "off")
"""Values of `style.parameters`, besides a command."""

Run = StatedMode | Mapping[str, StatedMode] | None
"""Values of `run` in a definition."""

_MAX_TEXT_LENGTH = 16_384
_STARTS = {"spawn": "call", "call": "spawn"}
_FREEST_FIRST: tuple[StatedMode, ...] = ("unattended", "sandboxed", "ask", "edit", "skip")
_Mode = TypeVar("_Mode", RunMode, StatedMode)
_ON_HANDLES: tuple[PolicedAction, ...] = ("fetch", "apply", "abort")


def mode_of(tool: Tool, action: PolicedAction) -> RunMode:
    """Return the mode of an action; `result` stands for the release of the result."""
    if action == "result":
        return tool.result or "unattended"
    mode = _mode(tool.run, action)
    if mode == "sandboxed":
        return "unattended" if tool.is_confined else "ask"
    return mode


def combine_policies(own: Run, other: Run) -> Run:
    """Combine two policies; no action is freer than in either."""
    if own is None or other is None or own == other:
        return own if other is None else other
    actions: tuple[PolicedAction, ...] = ("spawn", "call", *_ON_HANDLES)
    return {action: stricter_of(_mode(own, action), _mode(other, action)) for action in actions}


def stricter_of(own: _Mode, other: _Mode) -> _Mode:
    return max(own, other, key=_FREEST_FIRST.index)


def _mode(run: Run, action: PolicedAction) -> StatedMode:
    if run is None:
        return "unattended"
    if isinstance(run, str):
        return run if action in _STARTS else "unattended"
    other = _STARTS.get(action, action)
    return run.get(action) or run.get(other) or run.get("default", "unattended")


def policy_of(tool: Tool) -> dict[str, RunMode]:
    """Return the modes of the actions on a handle that are not unattended."""
    modes = {action: mode_of(tool, action) for action in _ON_HANDLES}
    return {action: mode for action, mode in modes.items() if mode != "unattended"}


def render(style: Mapping[str, Any], name: str, arguments: Mapping[str, Any]) -> str:
    """Format the arguments as `style.parameters` demands; as JSON for a command."""
    form = style.get("parameters")
    if form == "off":
        return ""
    if form == "function_call":
        listed = ", ".join(f"{key}={_json(value)}" for key, value in arguments.items())
        return escape_invisible(f"{name}({listed})")
    return escape_invisible(_json(dict(arguments), indent=2))


def _json(value: object, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def escape_invisible(text: str, most: int = _MAX_TEXT_LENGTH) -> str:
    """Escape invisible and reordering characters; cut after `most` characters."""
    left = len(text) - most
    text = text[:most]
    if not text.isprintable():
        text = "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in text)
    return text if left <= 0 else f"{text}\n… {left} more characters are not shown"
