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

from haft_protocol.errors import RpcError, action_not_supported, invalid_arguments, shown
from haft_protocol.methods import ID_FORM
from haftd.schemas.calls import INPUT, READING
from haftd.schemas.coercion import coerce
from haftd.schemas.flattening import flatten
from haftd.schemas.normalization import normalize
from haftd.schemas.validation import problems

from .arguments import check
from .definition import Action, Tool

_ID = re.compile(ID_FORM)
_WORDS: dict[Action, dict[str, Any]] = {
    "spawn": READING,
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
_PROTOCOL = {*READING, "input", "action", "id"}
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
    args: dict[str, Any] = {}
    if action == "spawn":
        own = _given(tool, given)
        # A name that both have is the tool's own here.
        reading = own.keys() & READING.keys() - _own_names(tool)
        given = {name: own.pop(name) for name in reading}
        args, more = _checked(tool, own)
        found += more
    else:
        given = _without_nulls(given, "input" if action == "apply" else None)
    if isinstance(given.get("input"), dict):
        given["input"] = coerce(given["input"], _FORM)
    given = coerce(given, _SCHEMAS[action])
    found += problems(_VALIDATORS[action], given, _SCHEMAS[action])
    if found:
        raise invalid_arguments(tool.name, found)
    value = given.pop("input", None)
    return HandleCall(action, arguments["id"], args=args, reading=given, input=value)


def read_run(tool: Tool, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Read the arguments of a call without an action: the tool's own, still to be checked. Raises
    `RpcError` (invalid_arguments) for what goes with an action only."""
    if not tool.stateful:
        return dict(arguments)
    own = _given(tool, arguments)
    stray = [name for name in own if name in _PROTOCOL - _own_names(tool)]
    if stray and tool.parameters.get("additionalProperties") is False:
        why = "it goes with an `action`, as `spawn`; leave it out to run the tool to its end"
        found = [{"path": name, "message": why} for name in stray]
        rest = {name: item for name, item in own.items() if name not in stray}
        raise invalid_arguments(tool.name, [*found, *_checked(tool, rest)[1]])
    return own


def _given(tool: Tool, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments, less what a provider that wants every name given has put there as `null`."""
    others = _PROTOCOL - _own_names(tool)
    return {n: item for n, item in arguments.items() if item is not None or n not in others}


def _wrong_id(arguments: Mapping[str, Any]) -> list[dict[str, str]]:
    name = arguments.get("id")
    if name is None:
        return [{"path": "id", "message": "it is required"}]
    if isinstance(name, str) and _ID.fullmatch(name):
        return []
    wanted = "a name of 1 to 64 letters, digits or `_.:-` that begins with a letter or digit"
    return [{"path": "id", "message": f"it is {wanted}"}]


def _checked(tool: Tool, own: Mapping[str, Any]) -> tuple[dict[str, Any], list[dict[str, str]]]:
    """The tool's own arguments, or what is wrong with them."""
    try:
        return check(tool, own), []
    except RpcError as error:
        if error.kind != "invalid_arguments":
            raise
        return {}, list(error.data["problems"])


def _own_names(tool: Tool) -> set[str]:
    if {"anyOf", "oneOf", "allOf", "$ref", "then", "else", "dependentSchemas"} & set(
        tool.parameters
    ):
        return set(flatten(normalize(tool.parameters))[0].get("properties", {}))
    return set(tool.parameters.get("properties", {}))


def _without_nulls(given: dict[str, Any], kept: str | None) -> dict[str, Any]:
    return {name: item for name, item in given.items() if item is not None or name == kept}
