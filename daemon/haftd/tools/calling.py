"""What a model's arguments for a stateful tool ask: which action, on which run, with what.

Rules: pure. The arguments are those of the schema in `haft_protocol.schema`, in either style: the tool's
own stand beside `action` and `id`, and with a provider that wants every property given, `null` stands
for one that was not. What is wrong is said at once, each with its path. Section 5.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import jsonschema_rs

from haft_protocol.dialects.flattening import flatten
from haft_protocol.dialects.reading import read
from haft_protocol.errors import RpcError, action_not_supported, invalid_arguments, shown
from haft_protocol.methods import ID_FORM
from haft_protocol.schema import INPUT, READING

from .arguments import check, problems
from .definition import Action, Tool
from .fitting import fit

__all__ = ["HandleCall", "read_call"]

_ID = re.compile(ID_FORM)
_WORDS: dict[Action, dict[str, Any]] = {
    "fetch": READING,
    "apply": {**READING, "input": {}},
    "abort": {},
}
_SCHEMAS: dict[Action, dict[str, Any]] = {
    action: {
        "type": "object",
        "properties": {**words},
        "required": ["input"] if "input" in words else [],
        "additionalProperties": False,
    }
    for action, words in _WORDS.items()
}
_FORM = INPUT["anyOf"][-1]
_VALIDATORS = {action: jsonschema_rs.validator_for(form) for action, form in _SCHEMAS.items()}


@dataclass(frozen=True, slots=True)
class HandleCall:
    """One call of a stateful tool. `args` are the tool's own, checked, for spawn; `reading` holds
    those of `wait`, `pattern`, `timeout_ms` and `view` that were given; `input` is set for apply."""

    action: Action
    id: str
    args: Mapping[str, Any] = field(default_factory=dict, repr=False)
    reading: Mapping[str, Any] = field(default_factory=dict)
    input: Any = field(default=None, repr=False)


def read_call(tool: Tool, arguments: Mapping[str, Any]) -> HandleCall:
    """Read the arguments of a call that has an `action`; raises `RpcError` (action_not_supported,
    invalid_arguments)."""
    action = arguments.get("action")
    if action not in tool.actions:
        has = ", ".join(f"`{one}`" for one in tool.actions)
        raise action_not_supported(tool.name, shown(action, 40).strip("'"), f"it has {has}")
    given = {name: item for name, item in arguments.items() if name not in ("action", "id")}
    found = _wrong_id(arguments)
    if action == "spawn":
        own, more = _spawn(tool, given)
        if found or more:
            raise invalid_arguments(tool.name, [*found, *more])
        return HandleCall(action, arguments["id"], args=own)
    given = _without_nulls(given, "input" if action == "apply" else None)
    if isinstance(given.get("input"), dict):
        given["input"] = fit(given["input"], _FORM)
    given = fit(given, _SCHEMAS[action])
    found += problems(_VALIDATORS[action], given, _SCHEMAS[action])
    if found:
        raise invalid_arguments(tool.name, found)
    value = given.pop("input", None)
    return HandleCall(action, arguments["id"], reading=given, input=value)


def _wrong_id(arguments: Mapping[str, Any]) -> list[dict[str, str]]:
    name = arguments.get("id")
    if name is None:
        return [{"path": "id", "message": "it is required"}]
    if isinstance(name, str) and _ID.fullmatch(name):
        return []
    wanted = "a name of 1 to 64 letters, digits or `_.:-` that begins with a letter or digit"
    return [{"path": "id", "message": f"it is {wanted}"}]


def _spawn(tool: Tool, given: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, str]]]:
    """The tool's own arguments; `null` for what belongs to other actions was not given."""
    others = {*READING, "input"} - _own_names(tool)
    mine = {name: item for name, item in given.items() if item is not None or name not in others}
    try:
        return check(tool, mine), []
    except RpcError as error:
        if error.kind != "invalid_arguments":
            raise
        return {}, list(error.data["problems"])


def _own_names(tool: Tool) -> set[str]:
    if {"anyOf", "oneOf", "allOf", "$ref", "then", "else", "dependentSchemas"} & set(
        tool.parameters
    ):
        return set(flatten(read(tool.parameters))[0].get("properties", {}))
    return set(tool.parameters.get("properties", {}))


def _without_nulls(given: dict[str, Any], kept: str | None) -> dict[str, Any]:
    return {name: item for name, item in given.items() if item is not None or name == kept}
