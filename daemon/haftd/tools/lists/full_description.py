"""Full description of a tool, each parameter with its path, as a value or as text for a model."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import UNSET

from haft_protocol.methods import ParameterInfo, Surface, ToolDescription, ToolInfo
from haftd.schemas.descriptions import choice_sentence, joined, sentences
from haftd.schemas.normalization import UnsupportedSchema, normalize
from haftd.schemas.object_root import flatten
from haftd.tools.calls.confinement import mediated_policy
from haftd.tools.definitions.definition import Tool
from haftd.tools.definitions.runtime_names import MEDIATED

from .access_text import describe_access, describe_mediated, describe_module
from .tool_list import AWAIT
from .verb_tools import HANDLE_TOOLS, start_parameters

_MAX_DEPTH = 5
_MAX_PARAMETERS = 256
_SHOWN_ELSEWHERE = frozenset(
    ["type", "description", "title", "default", "properties", "required", "items", "enum", "anyOf"]
)


def describe(tool: Tool, surface: Surface = "actions") -> ToolDescription:
    """Describe a definition as models see it: with `actions` the tool with all its actions, with
    `verbs` the tool that starts or runs it."""
    is_start = surface == "verbs"
    verb_form = tool.verbs if is_start else None
    notes: list[str] = []
    parameters: list[ParameterInfo] = []
    if tool.runtime == "wasm" and tool.policy is not None:
        # A module always has rules, which `unsafe` leaves in force: only the sandbox around it is
        # left out.
        access = describe_module(tool.policy, is_unsafe=tool.unsafe)
    elif tool.runtime == MEDIATED:
        access = describe_mediated(mediated_policy(tool, tool.policy))
    else:
        # Elsewhere `unsafe` means nothing unless there are rules that it leaves unenforced.
        access = describe_access(tool.policy, is_unsafe=tool.unsafe and tool.access is not None)
    try:
        schema = start_parameters(tool) if is_start else tool.parameters
        root, notes = flatten(normalize(schema))
        for parameter in _parameters(root, "", 0, tool.details):
            if len(parameters) == _MAX_PARAMETERS:
                notes.append(f"Only the first {_MAX_PARAMETERS} parameters are described here.")
                break
            parameters.append(parameter)
    except UnsupportedSchema as error:
        notes = [f"It cannot be called: {error}."]
    return ToolDescription(
        name=tool.name,
        summary=(verb_form and verb_form.summary) or tool.summary.strip(),
        description=joined(
            (verb_form and verb_form.description) or tool.description.strip(), *notes
        ),
        examples=tool.examples.strip(),
        stateful=tool.stateful,
        actions=() if is_start else tool.actions,
        parameters=tuple(parameters),
        access=access or UNSET,
    )


def describe_own(name: str, surface: Surface) -> ToolDescription | None:
    """Describe one of the daemon's tools that have no definition: `await`, or with `verbs` one for
    all handles; None for another name."""
    tools = HANDLE_TOOLS if surface == "verbs" else (AWAIT,)
    return next((_described(tool) for tool in tools if tool.name == name), None)


def _described(tool: ToolInfo) -> ToolDescription:
    root, _ = flatten(normalize(tool.parameters))
    return ToolDescription(
        name=tool.name,
        summary=tool.description,
        description="",
        examples="",
        stateful=tool.stateful,
        actions=tool.actions,
        parameters=tuple(_parameters(root, "", 0, {})),
    )


def _parameters(
    node: dict[str, Any], above: str, depth: int, details: Mapping[str, str]
) -> Iterator[ParameterInfo]:
    for name, schema in node.get("properties", {}).items():
        path = f"{above}.{name}" if above else name
        texts = [schema.get("description"), details.get(path)]
        if "enum" in schema:
            texts.append(choice_sentence(schema["enum"]))
        texts.extend(sentences(schema, [word for word in schema if word not in _SHOWN_ELSEWHERE]))
        yield ParameterInfo(
            name=path,
            type=_type(schema),
            required=name in node.get("required", ()),
            description=joined(*texts),
            default=schema.get("default", UNSET),
        )
        if depth < _MAX_DEPTH:
            yield from _inside(schema, path, depth + 1, details)


def _inside(
    schema: dict[str, Any], path: str, depth: int, details: Mapping[str, str]
) -> Iterator[ParameterInfo]:
    yield from _parameters(schema, path, depth, details)
    # A `oneOf` is a sentence instead: its branches exclude each other, which a list would not show.
    for branch in schema.get("anyOf", ()):
        yield from _inside(branch, path, depth, details)
    if "items" in schema:
        yield from _inside(schema["items"], f"{path}[]", depth, details)


def _type(schema: dict[str, Any]) -> str:
    branches = schema.get("anyOf") or schema.get("oneOf")
    if branches and "type" not in schema:
        return " or ".join(dict.fromkeys(_type(branch) for branch in branches))
    types = schema.get("type") or (["object"] if "properties" in schema else ["anything"])
    inner = schema.get("items", {})
    return " or ".join(
        f"list of {_type(inner)}"
        if name == "array" and inner
        else "list"
        if name == "array"
        else name
        for name in types
    )


_START = (
    "It returns when the program ends or reads input, after `wait_s` seconds at most; a program that keeps running"
    " is a handle, for handle_send, handle_read, handle_wait and handle_stop."
)


def page(tools: Iterable[ToolDescription]) -> str:
    """Return the descriptions as one Markdown text for a model."""
    return "\n\n".join(map(_tool_text, tools))


def _tool_text(tool: ToolDescription) -> str:
    parts = [f"# {tool.name}", tool.summary, tool.description]
    if tool.actions:
        parts.append(f"It is stateful: call it with `action` ({', '.join(tool.actions)}) and `id`.")
    elif tool.stateful:
        parts.append(_START)
    if tool.parameters:
        parts.append("\n".join(("## Parameters", *map(_parameter_text, tool.parameters))))
    if tool.examples:
        parts.append(f"## Examples\n{tool.examples}")
    return "\n\n".join(dict.fromkeys(part for part in parts if part))


def _parameter_text(parameter: ParameterInfo) -> str:
    facts = [parameter.type, "required" if parameter.required else "optional"]
    if parameter.default is not UNSET:
        facts.append(f"default {json.dumps(parameter.default, ensure_ascii=False)}")
    text = " ".join(parameter.description.split())
    return (
        f"- `{parameter.name}` ({', '.join(fact for fact in facts if fact)})"
        + f": {text}" * bool(text)
    )
