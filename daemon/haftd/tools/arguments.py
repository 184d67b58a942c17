"""A call's arguments, held against the tool's parameters.

Rules: the caller's object is never changed. What can be taken for what is wanted is (`fitting`),
defaults are filled in, then all is checked, and everything that is wrong is said at once, each with
its path.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

import jsonschema_rs
import msgspec

from haft_protocol.errors import invalid_arguments, shown

from .definition import Tool
from .fitting import fit

__all__ = ["check", "check_against", "problems"]

_MOST_PROBLEMS = 50


def check(tool: Tool, args: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments as the tool gets them; raises `RpcError` (invalid_arguments)."""
    return check_against(tool.name, args, tool.parameters, tool.validator)


def check_against(
    name: str,
    args: Mapping[str, Any],
    schema: Mapping[str, Any],
    validator: jsonschema_rs.Validator,
) -> dict[str, Any]:
    """As `check`, for what the tool `name` takes by this schema."""
    fitted = fit(dict(args), schema)
    if not isinstance(fitted, dict):
        raise AssertionError("an object was fitted into something else")
    found = problems(validator, fitted, schema)
    if found:
        raise invalid_arguments(name, found)
    return fitted


def _path(parts: Sequence[str | int]) -> str:
    text = ""
    for part in parts:
        text += f"[{part}]" if isinstance(part, int) else (f".{part}" if text else part)
    return text


def problems(
    validator: jsonschema_rs.Validator, value: Any, schema: Mapping[str, Any]
) -> list[dict[str, str]]:
    """What is wrong with the value, each with its path; past fifty only that there is more."""
    found: dict[tuple[str, str], None] = {}
    for error in validator.iter_errors(value):
        for path, message in _explain(error, schema):
            found[_path(path) or "arguments", message] = None
        if len(found) > _MOST_PROBLEMS:
            break  # a list of a million wrong items is wrong enough
    listed = [{"path": path, "message": message} for path, message in found]
    if len(listed) > _MOST_PROBLEMS:
        listed[_MOST_PROBLEMS:] = [{"path": "", "message": "and more"}]
    return listed


def _explain(
    error: jsonschema_rs.ValidationError, schema: Mapping[str, Any]
) -> list[tuple[list[str | int], str]]:
    """What one finding of the validator means, in our words where it is a common one."""
    path = list(error.instance_path)
    about = error.kind.as_dict()
    kind = str(error.kind.name)
    if kind == "required":
        return [([*path, str(about["property"])], "it is required")]
    if kind in ("additionalProperties", "unevaluatedProperties"):
        inside = _at(schema, list(error.schema_path)[:-1])
        known = list(inside.get("properties", {}))
        return [([*path, name], _unknown(name, known)) for name in about["unexpected"]]
    if kind == "oneOf" and (
        names := _alternatives(_at(schema, list(error.schema_path)[:-1]).get("oneOf"))
    ):
        return [(path, f"give exactly one of {', '.join(f'`{name}`' for name in names)}")]
    if kind == "anyOf" and (
        names := _alternatives(_at(schema, list(error.schema_path)[:-1]).get("anyOf"))
    ):
        return [(path, f"give at least one of {', '.join(f'`{name}`' for name in names)}")]
    given = shown(_short(error.instance), 80)
    if kind == "type":
        wanted = _at(schema, list(error.schema_path)[:-1]).get("type", "another type")
        wanted = wanted if isinstance(wanted, str) else " or ".join(map(str, wanted))
        return [(path, f"it must be {wanted}, not {_short(error.instance)}")]
    message = error.message if len(error.message) <= 200 else f"{given} does not fit `{kind}`"
    return [(path, message)]


def _at(schema: Any, path: Sequence[str | int]) -> Mapping[str, Any]:
    """The part of the schema that a path leads to; an empty one when it leads through a `$ref`."""
    for key in path:
        try:
            schema = schema[key]
        except (KeyError, IndexError, TypeError):
            return {}
    return schema if isinstance(schema, Mapping) else {}


def _alternatives(branches: object) -> list[str]:
    """The names, when a choice only says which of them have to be there."""
    if not isinstance(branches, list):
        return []
    if all(
        isinstance(b, Mapping) and set(b) == {"required"} and len(b["required"]) == 1
        for b in branches
    ):
        return [str(b["required"][0]) for b in branches]
    return []


def _short(value: object) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 60 else f"{text[:59]}…"


def _unknown(name: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    if near:
        return f"it is not known; did you mean `{near[0]}`?"
    return f"it is not known; known are {', '.join(known[:12]) or 'none'}"
