"""Tools as a client sees them: names, texts, and one JSON Schema each.

Rules: pure; the schema is the generic one (each provider's is another room's). A stateful tool has
one `oneOf` variant per action it supports: its own parameters stand beside `action` and `id` for
spawn, fetch and apply also take what bounds a wait. Section 5.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

from haft_protocol.methods import ID_FORM, ToolInfo

from .definition import Tool

__all__ = ["AWAIT", "info", "listing", "stateful_schema"]

_ID_PATTERN = f"^{ID_FORM}$"
_NEW_ID = {
    "type": "string",
    "pattern": _ID_PATTERN,
    "description": "A name of your choice for this run, unique among those that have not stopped.",
}
_ID = {"type": "string", "pattern": _ID_PATTERN, "description": "The name given to spawn."}
_READING: dict[str, Any] = {
    "wait": {
        "type": "string",
        "enum": ["none", "output", "input", "pattern", "quiet", "stopped"],
        "description": (
            "When to answer: none: now; output: when there is something new; input: when the program"
            " reads its input, or has stopped; pattern: when new output matches `pattern`; quiet:"
            " when nothing came for a while; stopped: when it has ended."
        ),
    },
    "pattern": {"type": "string", "description": "A regular expression, for wait = pattern."},
    "timeout_ms": {
        "type": "integer",
        "minimum": 0,
        "description": "How long to wait at most; then the state as it is, and nothing is ended.",
    },
    "view": {
        "type": "string",
        "enum": ["delta", "all", "tail", "screen"],
        "description": "What to return: delta: what is new; all; tail: the end; screen: the terminal's.",
    },
}
_INPUT: dict[str, Any] = {
    "description": (
        "A text is written as it is, without a line end. An object is one of {line}: a text and the"
        " line end; {keys}: names such as C-c, Up, Enter; {paste}; {eof: true}; {signal: INT};"
        " {resize: {rows, cols}}. While a question waits, the answer to it."
    )
}
_OWN_WORDS = ("type", "properties", "required", "additionalProperties", "$defs", "definitions")

AWAIT = ToolInfo(
    name="await",
    description="Wait until runs of stateful tools have stopped: all of `all`, and one of `any`.",
    parameters={
        "type": "object",
        "properties": {
            "any": {"type": "array", "items": _ID, "description": "One of these is enough."},
            "all": {"type": "array", "items": _ID, "description": "All of these have to stop."},
            "timeout_secs": {
                "type": "number",
                "minimum": 0,
                "description": "How long to wait at most.",
            },
        },
        "additionalProperties": False,
    },
    stateful=False,
    actions=(),
    source="builtin",
    runtime="builtin",
)


def _variant(action: str, properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {"action": {"const": action}, **properties},
        "required": ["action", *required],
        "additionalProperties": False,
    }


def _spawn(tool: Tool) -> dict[str, Any]:
    own = copy.deepcopy(dict(tool.parameters))
    variant = _variant(
        "spawn", {"id": _NEW_ID, **own.get("properties", {})}, ["id", *own.get("required", ())]
    )
    if own.get("additionalProperties", True) is not False:
        variant["additionalProperties"] = own.get("additionalProperties", True)
    variant.update({key: value for key, value in own.items() if key not in _OWN_WORDS})
    return variant


def stateful_schema(tool: Tool) -> dict[str, Any]:
    """One `oneOf` variant per action; definitions that the parameters refer to stay at the top."""
    variants = {
        "spawn": lambda: _spawn(tool),
        "fetch": lambda: _variant("fetch", {"id": _ID, **_READING}, ["id"]),
        "apply": lambda: _variant(
            "apply", {"id": _ID, "input": _INPUT, **_READING}, ["id", "input"]
        ),
        "abort": lambda: _variant("abort", {"id": _ID}, ["id"]),
    }
    schema: dict[str, Any] = {
        "type": "object",
        "oneOf": [variants[action]() for action in tool.actions],
    }
    for key in ("$defs", "definitions"):
        if key in tool.parameters:
            schema[key] = tool.parameters[key]
    return schema


def info(tool: Tool) -> ToolInfo:
    """One tool for the list. A runtime that depends on the arguments shows as `stdio`."""
    texts = [text.strip() for text in (tool.summary, tool.description) if text.strip()]
    return ToolInfo(
        name=tool.name,
        description="\n\n".join(dict.fromkeys(texts)),
        parameters=stateful_schema(tool) if tool.stateful else copy.deepcopy(dict(tool.parameters)),
        stateful=tool.stateful,
        actions=tool.actions,
        source=tool.source,
        runtime="stdio" if "{" in tool.runtime else tool.runtime,
    )


def listing(tools: Iterable[Tool]) -> tuple[ToolInfo, ...]:
    """All that can be called, by name; `await` is there when a stateful one is."""
    found = [info(tool) for tool in tools if tool.enable == "on" and not tool.unserved]
    if any(tool.stateful for tool in found):
        found.append(AWAIT)
    return tuple(sorted(found, key=lambda tool: tool.name))
