"""Approval policy of a tool: the actions that need a person's decision.

`run` in a definition is a mode, or a table of modes by action. A single mode is for the two actions
that start the tool, `spawn` and `call` (a run to the end). In a table `default` is for the actions
without an entry; but if only one of `spawn` and `call` has an entry, this entry is for both, since
the other would be a way around it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeVar

from haft_protocol.approvals import PolicedAction

from .definition import RunMode, StatedMode, Tool

PARAMETERS = ("json", "function_call", "off")
"""Forms in which arguments are shown to a person, of `style.parameters`; besides, a command."""

Run = StatedMode | Mapping[str, StatedMode] | None
"""Values of `run` in a definition."""

_MAX_TEXT_LENGTH = 16_384
"""Of a text that is shown to a person, in characters."""
_STARTS = {"spawn": "call", "call": "spawn"}
"""Each of the two actions that start a tool, with the other one."""
_FREEST_FIRST: tuple[StatedMode, ...] = ("unattended", "sandboxed", "ask", "edit", "skip")
"""The modes by strictness: `edit` is `ask` with arguments to edit, `skip` never does the action."""
_Mode = TypeVar("_Mode", RunMode, StatedMode)
_ON_HANDLES: tuple[PolicedAction, ...] = ("fetch", "apply", "abort")


def mode_of(tool: Tool, action: PolicedAction) -> RunMode:
    """Return the mode of an action, for `sandboxed` the one that it means for this tool.

    The action `result` is the release of the tool's result.
    """
    if action == "result":
        return tool.result or "unattended"
    mode = _mode(tool.run, action)
    if mode == "sandboxed":
        return "unattended" if tool.is_confined else "ask"
    return mode


def combine_policies(own: Run, other: Run) -> Run:
    """Combine two policies, such as a project's and its user's; None is no policy.

    The stricter mode of each action wins.
    """
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
    other_start = _STARTS.get(action, action)
    return run.get(action) or run.get(other_start) or run.get("default", "unattended")


def policy_of(tool: Tool) -> dict[str, RunMode]:
    """Return the modes of `fetch`, `apply` and `abort`, leaving out those that are `unattended`."""
    modes = {action: mode_of(tool, action) for action in _ON_HANDLES}
    return {action: mode for action, mode in modes.items() if mode != "unattended"}


def render(style: Mapping[str, Any], name: str, arguments: Mapping[str, Any]) -> str:
    """Format the arguments of the tool `name` for a person, in the form of `style.parameters`.

    Where that is a command, the form is JSON: for actions on a handle, and for a start whose
    command fails. The command itself is run by `methods/argument_display`.
    """
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
    """Escape invisible and reordering characters except newlines; cut after `most` characters."""
    omitted = len(text) - most
    text = text[:most]
    if not text.isprintable():
        # `ascii` returns the escape sequence in quotation marks, which the slice removes.
        text = "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in text)
    return text if omitted <= 0 else f"{text}\n… {omitted} more characters are not shown"
