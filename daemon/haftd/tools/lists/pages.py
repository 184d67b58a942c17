"""Page for a model from descriptions of tools, texts verbatim."""

from __future__ import annotations

import json
from collections.abc import Iterable

from msgspec import UNSET

from haft_protocol.methods import ParameterInfo, ToolDescription

_HELD = (
    "It returns when the program ends or reads input, after `wait_s` seconds at most; a program that goes on"
    " is a handle, for handle_send, handle_read, handle_wait and handle_stop."
)


def page(tools: Iterable[ToolDescription]) -> str:
    return "\n\n".join(map(_tool, tools))


def _tool(tool: ToolDescription) -> str:
    parts = [f"# {tool.name}", tool.summary, tool.description]
    if tool.actions:
        parts.append(f"It is held: call it with `action` ({', '.join(tool.actions)}) and `id`.")
    elif tool.stateful:
        parts.append(_HELD)
    if tool.parameters:
        parts.append("\n".join(("## Parameters", *map(_parameter, tool.parameters))))
    if tool.examples:
        parts.append(f"## Examples\n{tool.examples}")
    return "\n\n".join(dict.fromkeys(part for part in parts if part))


def _parameter(parameter: ParameterInfo) -> str:
    facts = [parameter.type, "required" if parameter.required else "optional"]
    if parameter.default is not UNSET:
        facts.append(f"default {json.dumps(parameter.default, ensure_ascii=False)}")
    text = " ".join(parameter.description.split())
    return (
        f"- `{parameter.name}` ({', '.join(fact for fact in facts if fact)})"
        + f": {text}" * bool(text)
    )
