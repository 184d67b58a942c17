"""A tool's description as a page for a model to read.

Rules: pure; what the definition says stands as it was written. What is not said has no heading.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from msgspec import UNSET

from haft_protocol.methods import ParameterInfo, ToolDescription


def page(tools: Iterable[ToolDescription]) -> str:
    """The tools one below the other."""
    return "\n\n".join(map(_one, tools))


def _one(tool: ToolDescription) -> str:
    parts = [f"# {tool.name}", tool.summary, tool.description]
    if tool.stateful:
        parts.append(f"It is held: call it with `action` ({', '.join(tool.actions)}) and `id`.")
    if tool.parameters:
        parts.append("\n".join(("## Parameters", *map(_parameter, tool.parameters))))
    if tool.examples:
        parts.append(f"## Examples\n{tool.examples}")
    return "\n\n".join(dict.fromkeys(part for part in parts if part))


def _parameter(one: ParameterInfo) -> str:
    facts = [one.type, "required" if one.required else "optional"]
    if one.default is not UNSET:
        facts.append(f"default {json.dumps(one.default, ensure_ascii=False)}")
    said = " ".join(one.description.split())
    return f"- `{one.name}` ({', '.join(fact for fact in facts if fact)})" + f": {said}" * bool(
        said
    )
