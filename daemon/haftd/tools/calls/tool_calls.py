"""Check of a call's arguments, and parser of a model's call of a stateful tool, where the tool's
own arguments are beside `action` and `id`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import jsonschema_rs
import msgspec

from haft_protocol.errors import RpcError, action_not_supported, escaped, invalid_arguments
from haft_protocol.methods import ID_FORM
from haftd.lazy_pattern import lazy_pattern
from haftd.redaction import Redacted
from haftd.schemas import validation
from haftd.schemas.calls import INPUT, READING
from haftd.schemas.coercion import coerce
from haftd.schemas.normalization import UnsupportedSchema, normalize
from haftd.schemas.object_root import flatten
from haftd.schemas.validation import problems
from haftd.tools.definitions.definition import NO_PARAMETERS, Action, Tool

_ID = lazy_pattern(ID_FORM)
_ACTION_FIELDS: dict[Action, dict[str, Any]] = {
    "spawn": READING,
    "fetch": READING,
    "apply": {**READING, "input": {}},
    "abort": {},
}
_SCHEMAS: dict[Action, dict[str, Any]] = {
    action: {
        "type": "object",
        "properties": {**fields},
        "required": ["input"] if "input" in fields else [],
        "additionalProperties": False,
    }
    for action, fields in _ACTION_FIELDS.items()
}
_PROTOCOL = {*READING, "input", "action", "id"}
_FORM = INPUT["anyOf"][-1]
_VALIDATORS = {action: jsonschema_rs.validator_for(form) for action, form in _SCHEMAS.items()}


def check_arguments(tool: Tool, args: Mapping[str, Any]) -> dict[str, Any]:
    """Return the coerced arguments, with defaults; raises `RpcError` (invalid_arguments)."""
    if args and tool.parameters == NO_PARAMETERS and not tool.has_parameters:
        at = tool.file if tool.line is None else f"{tool.file}:{tool.line}"
        why = f"the tool takes no arguments; to give it some, add `parameters` to its definition at {at}"
        raise invalid_arguments(
            tool.name,
            [{"path": validation.path_text([name]), "message": why} for name in list(args)[:1]],
        )
    return validation.check(tool.name, args, tool.parameters, tool.validator)


class HandleCall(Redacted, frozen=True):
    """Call of a stateful tool."""

    UNSHOWN: ClassVar[tuple[str, ...]] = ("args", "input")

    action: Action
    id: str
    args: Mapping[str, Any] = msgspec.field(default_factory=dict)
    """For `spawn`: the tool's own arguments, validated."""
    reading: Mapping[str, Any] = msgspec.field(default_factory=dict)
    """Those of `schemas.calls.READING` that the call has, such as `wait` and `view`."""
    input: Any = None
    """For `apply`."""


def read_call(tool: Tool, arguments: Mapping[str, Any]) -> HandleCall:
    """Parse the arguments of a call with an `action`. Raises `RpcError` (action_not_supported,
    invalid_arguments) with all problems."""
    action = arguments.get("action")
    if action not in tool.actions:
        has = ", ".join(f"`{name_}`" for name_ in tool.actions)
        raise action_not_supported(tool.name, escaped(str(action), 40), f"it has {has}")
    protocol = {name: item for name, item in arguments.items() if name not in ("action", "id")}
    faults = _check_id(arguments)
    args: dict[str, Any] = {}
    if action == "spawn":
        own = _drop_protocol_nulls(tool, protocol)
        # The tool's own name shadows a protocol name.
        reading = own.keys() & READING.keys() - _own_names(tool)
        protocol = {name: own.pop(name) for name in reading}
        args, more = _check(tool, own)
        faults += more
    else:
        protocol = _drop_nulls(protocol, "input" if action == "apply" else None)
    if isinstance(protocol.get("input"), dict):
        protocol["input"] = coerce(protocol["input"], _FORM)
    protocol = coerce(protocol, _SCHEMAS[action])
    faults += problems(_VALIDATORS[action], protocol, _SCHEMAS[action])
    if faults:
        raise invalid_arguments(tool.name, faults)
    value = protocol.pop("input", None)
    return HandleCall(action, arguments["id"], args=args, reading=protocol, input=value)


def read_run(tool: Tool, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tool's own arguments, not validated. Raises `RpcError` (invalid_arguments) for
    names that need an action."""
    if not tool.stateful:
        return dict(arguments)
    own = _drop_protocol_nulls(tool, arguments)
    stray = [name for name in own if name in _PROTOCOL - _own_names(tool)]
    if stray and tool.parameters.get("additionalProperties") is False:
        why = "it needs an `action` such as `spawn`; leave it out to run the tool to its end"
        faults = [{"path": name, "message": why} for name in stray]
        rest = {name: item for name, item in own.items() if name not in stray}
        raise invalid_arguments(tool.name, [*faults, *_check(tool, rest)[1]])
    return own


def _drop_protocol_nulls(tool: Tool, arguments: Mapping[str, Any]) -> dict[str, Any]:
    others = _PROTOCOL - _own_names(tool)
    return {n: item for n, item in arguments.items() if item is not None or n not in others}


def _check_id(arguments: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return the problem of a missing or malformed `id`; none for a valid one."""
    name = arguments.get("id")
    if name is None:
        return [{"path": "id", "message": "it is required"}]
    if isinstance(name, str) and _ID.fullmatch(name):
        return []
    form = "a name of 1 to 64 letters, digits or `_.:-` that begins with a letter or digit"
    return [{"path": "id", "message": f"it is {form}"}]


def _check(tool: Tool, own: Mapping[str, Any]) -> tuple[dict[str, Any], list[dict[str, str]]]:
    """Return the valid arguments, or none of them and the problems."""
    try:
        return check_arguments(tool, own), []
    except RpcError as error:
        if error.kind != "invalid_arguments":
            raise
        return {}, list(error.data["problems"])


def _own_names(tool: Tool) -> set[str]:
    """Return the names of the tool's own parameters, including parameters of branches."""
    if {"anyOf", "oneOf", "allOf", "$ref", "then", "else", "dependentSchemas"} & set(
        tool.parameters
    ):
        try:
            return set(flatten(normalize(tool.parameters))[0].get("properties", {}))
        except UnsupportedSchema:
            pass  # no arguments fit, as the check reports
    return set(tool.parameters.get("properties", {}))


def _drop_nulls(arguments: dict[str, Any], kept: str | None) -> dict[str, Any]:
    return {name: item for name, item in arguments.items() if item is not None or name == kept}
