"""Which actions of a tool wait for a person's word, and how what they are about is shown to the person.

Rules: pure. Without a word in the definition everything is unattended. `run` as one mode is for what
starts the tool, `spawn` and one-shot `call`; a table says it by action, its `default` for every
action that it does not name. Whoever may not do the one cannot do the other instead: of `spawn` and
`call`, one that is not named is as the other. What is shown hides nothing: what would not be
seen is escaped, and a cut is said.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from haft_protocol.approvals import PolicedAction

from .definition import RunMode, Tool

PARAMETERS = ("json", "function_call", "off")
"""What `style.parameters` may say, besides a command."""

Run = RunMode | Mapping[str, RunMode] | None
"""What a definition may say in `run`."""

_MAX_TEXT_LENGTH = 16_384
_STARTS = {"spawn": "call", "call": "spawn"}
_FREEST_FIRST: tuple[RunMode, ...] = ("unattended", "ask", "edit", "skip")
_ON_HANDLES: tuple[PolicedAction, ...] = ("fetch", "apply", "abort")


def mode_of(tool: Tool, action: PolicedAction) -> RunMode:
    """What is to happen before the action; `result` is the handing out of what it came to."""
    if action == "result":
        return tool.result or "unattended"
    return _mode(tool.run, action)


def stricter(own: Run, other: Run) -> Run:
    """A policy of which no action is freer than in either of the two."""
    if own is None or other is None or own == other:
        return own if other is None else other
    actions: tuple[PolicedAction, ...] = ("spawn", "call", *_ON_HANDLES)
    return {action: stricter_mode(_mode(own, action), _mode(other, action)) for action in actions}


def stricter_mode(own: RunMode, other: RunMode) -> RunMode:
    """The one of two that is less free."""
    return max(own, other, key=_FREEST_FIRST.index)


def _mode(run: Run, action: PolicedAction) -> RunMode:
    if run is None:
        return "unattended"
    if isinstance(run, str):
        return run if action in _STARTS else "unattended"
    other = _STARTS.get(action, action)
    return run.get(action) or run.get(other) or run.get("default", "unattended")


def policy_of(tool: Tool) -> dict[str, RunMode]:
    """The actions on a handle of the tool that are not unattended."""
    modes = {action: mode_of(tool, action) for action in _ON_HANDLES}
    return {action: mode for action, mode in modes.items() if mode != "unattended"}


def render(style: Mapping[str, Any], name: str, arguments: Mapping[str, Any]) -> str:
    """The arguments for a person to read, as the definition's `style.parameters` says; as JSON where
    it names a command, which somebody else has to run."""
    wanted = style.get("parameters")
    if wanted == "off":
        return ""
    if wanted == "function_call":
        listed = ", ".join(f"{key}={_json(value)}" for key, value in arguments.items())
        return seen(f"{name}({listed})")
    return seen(_json(dict(arguments), indent=2))


def _json(value: object, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def seen(text: str, most: int = _MAX_TEXT_LENGTH) -> str:
    """Nothing is left that is not seen or changes the order of what is; past `most` characters it is
    cut."""
    left = len(text) - most
    text = text[:most]
    if not text.isprintable():
        text = "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in text)
    return text if left <= 0 else f"{text}\n… {left} more characters are not shown"
