"""Tools of the surface `verbs`, for models: a start tool per definition, five tools for all handles.

Hosts grant permission by name and annotations, so reading and typing are separate. Schemas are
flat. A definition may show fewer parameters (`verbs`) than it accepts.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import cache
from typing import Any

import jsonschema_rs

from haft_protocol.methods import Annotations, ToolInfo
from haftd.schemas.dialects import PLAIN
from haftd.schemas.normalization import normalize
from haftd.schemas.object_root import flatten
from haftd.schemas.passthrough import PassThrough
from haftd.tools.definitions.definition import Tool, VerbForm, compile_schema

WAIT_S = 10
MAX_WAIT_S = 50
"""Some hosts end calls after 60 seconds."""

_UNSHOWN = frozenset(
    ["description", "minLength", "maxLength", "minItems", "maxItems", "uniqueItems", "pattern"]
)
"""Keywords omitted from short lists; validation errors explain them."""

_START = Annotations(read_only=False, destructive=True, idempotent=False, open_world=True)
_READ = Annotations(read_only=True, destructive=False, idempotent=True, open_world=False)
_SEND = Annotations(read_only=False, destructive=True, idempotent=False, open_world=True)
_STOP = Annotations(read_only=False, destructive=True, idempotent=True, open_world=False)

_WAIT: dict[str, Any] = {"type": "number", "maximum": MAX_WAIT_S, "default": WAIT_S}
_ID: dict[str, Any] = {"type": "string"}
_NEW_ID: dict[str, Any] = {**_ID, "description": "Name for the handle"}
_EVERY = {"id": _NEW_ID, "wait_s": _WAIT}
"""Parameters of every start."""
_BOUNDS: dict[str, dict[str, Any]] = {
    "wait_s": {"minimum": 0},
    "from": {"minimum": 0},
    "ids": {"minItems": 1, "maxItems": 64},
}
_IDS: dict[str, Any] = {"type": "array", "items": _ID}
_VIEW: dict[str, Any] = {
    "enum": ["new", "all", "tail", "screen"],
    "default": "new",
    "description": "tail: the last 4 lines",
}
_UNTIL: dict[str, Any] = {
    "enum": ["input", "stopped", "output", "quiet", "pattern", "now"],
    "description": "Return when it reads input or stops (input, default), ends, prints, pauses, matches pattern, or at once",
}
_PATTERN: dict[str, Any] = {"type": "string", "description": "Regex for new output"}


def _object(properties: Mapping[str, Any], required: list[str]) -> dict[str, Any]:
    form: dict[str, Any] = {"type": "object", "properties": dict(properties)}
    return {**form, "required": required} if required else form


def _tool(
    name: str,
    description: str,
    properties: Mapping[str, Any],
    required: list[str],
    annotations: Annotations,
) -> ToolInfo:
    return ToolInfo(
        name=name,
        description=description,
        parameters=_object(properties, required),
        stateful=False,
        actions=(),
        source="builtin",
        runtime="builtin",
        annotations=annotations,
    )


HANDLE_TOOLS: tuple[ToolInfo, ...] = (
    _tool(
        "handle_send",
        "Type into a handle, then return what it prints until it reads input again. Give exactly one of line,"
        " keys, text, answer, signal.",
        {
            "id": _ID,
            "line": {"type": "string", "description": "Text and Enter"},
            "keys": {
                "type": "array",
                "items": {"type": "string"},
                "description": "Such as C-c, C-d, Up, Enter, Escape",
            },
            "text": {"type": "string", "description": "Text without Enter"},
            "answer": {"description": "Answer to the question it asks"},
            "signal": {"type": "string", "description": "Such as INT, TERM, CONT"},
            "until": _UNTIL,
            "pattern": _PATTERN,
            "wait_s": _WAIT,
            "view": _VIEW,
        },
        ["id"],
        _SEND,
    ),
    _tool(
        "handle_read",
        "Read a handle's new output, or wait for it. Use view screen for full-screen programs.",
        {
            "id": _ID,
            "view": _VIEW,
            "until": _UNTIL,
            "pattern": _PATTERN,
            "wait_s": _WAIT,
            "from": {"type": "integer", "description": "Re-read from this offset"},
        },
        ["id"],
        _READ,
    ),
    _tool(
        "handle_wait",
        "Wait until all (or any) of the handles have stopped. Do not poll.",
        {"ids": _IDS, "any": {"type": "boolean", "default": False}, "wait_s": _WAIT},
        ["ids"],
        _READ,
    ),
    _tool(
        "handle_stop",
        "End handles and every process they started; none if an id is unknown.",
        {"ids": _IDS},
        ["ids"],
        _STOP,
    ),
    _tool("handle_list", "List handles, for example when an id is lost.", {}, [], _READ),
)
"""Tools for all handles, without a definition."""


@cache
def handle_schema(name: str) -> tuple[Mapping[str, Any], jsonschema_rs.Validator] | None:
    for tool in HANDLE_TOOLS:
        if tool.name == name:
            schema = _checked(tool.parameters)
            return schema, compile_schema(schema)
    return None


def _checked(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Add the bounds that lists omit."""
    properties = {
        name: {**form, **_BOUNDS.get(name, {})} for name, form in parameters["properties"].items()
    }
    return {**parameters, "properties": properties, "additionalProperties": False}


_START_PARAMETERS = _checked(
    _object({"id": _ID, "wait_s": _WAIT, "command": {"type": "string"}}, [])
)
START_PARAMETERS = (_START_PARAMETERS, compile_schema(_START_PARAMETERS))
"""Schema and validator of a start's additional parameters."""


def start_names(tool: Tool) -> frozenset[str]:
    """Return the names that a start adds."""
    names = {"id", "wait_s"}
    if tool.verbs is not None and tool.verbs.first_line:
        names.add("command")
    return frozenset(names - set(_own(tool).get("properties", {})))


def start_info(tool: Tool) -> ToolInfo:
    """Return the tool that starts a definition, or runs a stateless one; raises `UnsupportedSchema`."""
    form = tool.verbs or VerbForm()
    if tool.stateful or form.parameters is not None:
        parameters = _parameters(tool, form)
    else:
        parameters = copy.deepcopy(dict(tool.parameters))
    return ToolInfo(
        name=tool.name,
        description=form.summary or tool.summary.strip() or tool.description.strip(),
        parameters=parameters,
        stateful=tool.stateful,
        actions=(),
        source=tool.source,
        runtime=runtime_of(tool),
        annotations=annotations_of(tool),
    )


def runtime_of(tool: Tool) -> str:
    """Return the runtime's name; `stdio` if the arguments decide."""
    if tool.is_builtin:
        return "builtin"
    if tool.source != "local":
        return "mcp"
    return "stdio" if "{" in tool.runtime else tool.runtime


def annotations_of(tool: Tool) -> Annotations:
    return _START if tool.annotations is None else tool.annotations


def _own(tool: Tool) -> dict[str, Any]:
    return flatten(normalize(tool.parameters))[0]


def _parameters(tool: Tool, form: VerbForm) -> dict[str, Any]:
    own = PassThrough(PLAIN).root(_own(tool))
    properties = dict(own.get("properties", {}))
    if form.parameters is not None:
        shown = form.parameters
        properties = {
            name: _described(properties[name], shown[name]) for name in shown if name in properties
        }
        own = {**own, "required": [n for n in own.get("required", ()) if n in properties]}
        own.pop("additionalProperties", None)
    if form.required:
        own = {**own, "required": list(form.required)}
    if form.first_line and "command" not in properties:
        properties["command"] = {"type": "string", "description": form.first_line}
    if tool.stateful:
        properties = {**properties, **{n: w for n, w in _EVERY.items() if n not in properties}}
    if not own.get("required"):
        own.pop("required", None)
    return copy.deepcopy({**own, "properties": properties})


def start_parameters(tool: Tool) -> dict[str, Any]:
    """Return a start's parameters, described in full; raises `UnsupportedSchema`."""
    own, form = _own(tool), tool.verbs or VerbForm()
    if not tool.stateful and form.parameters is None:
        return {"properties": {}, **own}
    shown = _parameters(tool, form)
    full = own.get("properties", {})
    properties = {name: full.get(name, item) for name, item in shown["properties"].items()}
    return {**shown, "properties": properties}


def _described(form: Any, description: str) -> Any:
    plain = {key: value for key, value in form.items() if key not in _UNSHOWN}
    if isinstance(plain.get("items"), dict):
        plain["items"] = {k: value for k, value in plain["items"].items() if k not in _UNSHOWN}
    return {**plain, "description": description} if description else plain
