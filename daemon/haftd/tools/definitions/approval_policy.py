"""Approval policy of a tool: the actions that need a person's decision.

A definition's `run` is a mode, for `spawn` and `call` (a run to the end), or a table of modes by
action, with `default` for the others. An entry of `spawn` or `call` alone is for both: the other would be a way around it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeVar

from haft_protocol.approvals import PolicedAction

from .definition import RunMode, StatedMode, Tool

PARAMETERS = ("json", "function_call", "off")
"""Forms of displayed arguments, of `style.parameters`; another value is a command."""

Run = StatedMode | Mapping[str, StatedMode] | None
"""Values of `run` in a definition."""

_MAX_TEXT_LENGTH = 16_384
"""Characters of a displayed text, before the escapes."""
_STARTS = {"spawn": "call", "call": "spawn"}
"""The two starting actions, each with the other."""
_FREEST_FIRST: tuple[StatedMode, ...] = ("unattended", "sandboxed", "ask", "edit", "skip")
"""`edit` is `ask` with editable arguments, `skip` never does the action."""
_Mode = TypeVar("_Mode", RunMode, StatedMode)
_ON_HANDLES: tuple[PolicedAction, ...] = ("fetch", "apply", "abort")


def find_mode(tool: Tool, action: PolicedAction) -> RunMode:
    """Return an action's mode, for `sandboxed` the mode that stands for this tool.

    The action `result` is the release of the tool's result.
    """
    if action == "result":
        return tool.result or "unattended"
    mode = _find_mode(tool.run, action)
    if mode == "sandboxed":
        return "unattended" if tool.is_confined else "ask"
    return mode


def combine_policies(own: Run, other: Run) -> Run:
    """Combine two policies, a project's and its user's, to the stricter mode of each action; None
    stands for no policy."""
    if own is None or other is None or own == other:
        return own if other is None else other
    actions: tuple[PolicedAction, ...] = ("spawn", "call", *_ON_HANDLES)
    return {
        action: choose_stricter(_find_mode(own, action), _find_mode(other, action))
        for action in actions
    }


def choose_stricter(own: _Mode, other: _Mode) -> _Mode:
    return max(own, other, key=_FREEST_FIRST.index)


def _find_mode(run: Run, action: PolicedAction) -> StatedMode:
    if run is None:
        return "unattended"
    if isinstance(run, str):
        return run if action in _STARTS else "unattended"
    other_start = _STARTS.get(action, action)
    return run.get(action) or run.get(other_start) or run.get("default", "unattended")


def run_modes(tool: Tool) -> dict[str, RunMode]:
    """Return the modes of `fetch`, `apply` and `abort`, without the mode `unattended`."""
    modes = {action: find_mode(tool, action) for action in _ON_HANDLES}
    return {action: mode for action, mode in modes.items() if mode != "unattended"}


def render(style: Mapping[str, Any], name: str, arguments: Mapping[str, Any]) -> str:
    """Return a tool's arguments for a person by `style.parameters`, an empty text for `off`.

    JSON where that is a command, run by `methods/approval_gate` for starts.
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
    """Cut the text after `most` characters, then escape its invisible and reordering characters except
    newlines; a last line gives the number of omitted characters."""
    omitted = len(text) - most
    text = text[:most]
    if not text.isprintable():
        # `ascii` returns the escape sequence in quotes.
        text = "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in text)
    return text if omitted <= 0 else f"{text}\n… {omitted} more characters are not shown"
