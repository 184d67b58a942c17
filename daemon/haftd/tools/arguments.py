"""A call's arguments, held against the tool's parameters.

Rules: the caller's object is never changed. A text that is JSON of the wanted type is taken for it
where a text is not wanted (models write `"[1, 2]"` and `"5"`); nothing else is coerced. Defaults are
filled in, then all is checked, and everything that is wrong is said at once, each with its path.
"""

from __future__ import annotations

import copy
import difflib
from collections.abc import Mapping, Sequence
from typing import Any

import jsonschema_rs
import msgspec

from haft_protocol.errors import RpcError, invalid_arguments, shown

from .definition import Tool

__all__ = ["check"]

_MOST_PROBLEMS = 50
_DEEPEST_REF = 16
_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "null": (type(None),),
    "number": (int, float),
    "integer": (int,),
}


def check(tool: Tool, args: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments as the tool gets them; raises `RpcError` (invalid_arguments)."""
    fitted = _fit(dict(args), tool.parameters, tool.parameters)
    if not isinstance(fitted, dict):
        raise AssertionError("an object was fitted into something else")
    problems = _problems(tool.validator, fitted, tool.parameters)
    if problems:
        raise _error(tool, problems)
    return fitted


def _error(tool: Tool, problems: Sequence[dict[str, str]]) -> RpcError:
    shortened = list(problems[:_MOST_PROBLEMS])
    if len(problems) > _MOST_PROBLEMS:
        shortened.append({"path": "", "message": "and more"})
    return invalid_arguments(tool.name, shortened)


def _resolved(schema: Any, whole: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema that a local `$ref` names; an empty one where it cannot be followed."""
    for _ in range(_DEEPEST_REF):
        if not isinstance(schema, Mapping):
            return {}
        reference = schema.get("$ref")
        if not isinstance(reference, str) or not reference.startswith("#"):
            return schema
        schema = whole
        for key in reference[1:].split("/")[1:]:
            key = key.replace("~1", "/").replace("~0", "~")
            schema = schema.get(key) if isinstance(schema, Mapping) else None
    return {}


def _types(
    schema: Mapping[str, Any], whole: Mapping[str, Any], depth: int = 0
) -> frozenset[str] | None:
    """The JSON types that the schema takes; None when it does not say."""
    if depth > _DEEPEST_REF:
        return None
    said = schema.get("type")
    if isinstance(said, str):
        return frozenset((said, "null")) if schema.get("nullable") is True else frozenset((said,))
    if isinstance(said, Sequence):
        return frozenset(said)
    if "const" in schema or isinstance(schema.get("enum"), list):
        values = [schema["const"]] if "const" in schema else schema["enum"]
        return frozenset(
            name for value in values for name, types in _TYPES.items() if type(value) in types
        )
    for word in ("anyOf", "oneOf"):
        if isinstance(branches := schema.get(word), Sequence):
            found: set[str] = set()
            for branch in branches:
                types = _types(_resolved(branch, whole), whole, depth + 1)
                if types is None:
                    return None
                found |= types
            return frozenset(found)
    return None


def _is(value: object, types: frozenset[str]) -> bool:
    return any(type(value) in _TYPES.get(name, ()) for name in types)


def _fit(value: Any, schema: Any, whole: Mapping[str, Any]) -> Any:
    schema = _resolved(schema, whole)
    types = _types(schema, whole)
    if types is not None:
        if isinstance(value, str) and "string" not in types:
            value = _unwrap(value, types)
        if (
            isinstance(value, float)
            and "integer" in types
            and "number" not in types
            and value.is_integer()
        ):
            value = int(value)
    if isinstance(value, dict):
        return _fit_object(value, schema, whole)
    if isinstance(value, list):
        first = schema.get("prefixItems")
        first = first if isinstance(first, list) else []
        rest = schema.get("items", {})
        if not first and _are_plain(value, rest, whole):
            return value
        return [
            _fit(item, first[at] if at < len(first) else rest, whole)
            for at, item in enumerate(value)
        ]
    return value


def _are_plain(items: list[Any], schema: Any, whole: Mapping[str, Any]) -> bool:
    """Whether all items are texts, numbers or the like of the types that are wanted: then there
    is nothing to fit, however many they are."""
    types = _types(_resolved(schema, whole), whole) or frozenset()
    plain = {kind for name in types - {"object", "array"} for kind in _TYPES.get(name, ())}
    return bool(plain) and {type(item) for item in items} <= plain


def _unwrap(text: str, types: frozenset[str]) -> Any:
    """What the text is as JSON, if that is of a wanted type; else the text."""
    try:
        value = msgspec.json.decode(text.strip().encode())
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return text
    if isinstance(value, float) and "number" not in types and value.is_integer():
        value = int(value)
    return value if _is(value, types) else text


def _fit_object(
    value: dict[str, Any], schema: Mapping[str, Any], whole: Mapping[str, Any]
) -> dict[str, Any]:
    properties = schema.get("properties")
    properties = properties if isinstance(properties, Mapping) else {}
    others = schema.get("additionalProperties")
    fitted = dict(value)
    for name, item in value.items():
        if name in properties:
            fitted[name] = _fit(item, properties[name], whole)
        elif isinstance(others, Mapping):
            fitted[name] = _fit(item, others, whole)
    for name, known in properties.items():
        known = _resolved(known, whole)
        if name in fitted or "default" not in known:
            continue
        types = _types(known, whole)
        if known["default"] is None and types is not None and "null" not in types:
            continue  # "no default", as some generators write it
        fitted[name] = copy.deepcopy(known["default"])
    return fitted


def _path(parts: Sequence[str | int]) -> str:
    text = ""
    for part in parts:
        text += f"[{part}]" if isinstance(part, int) else (f".{part}" if text else part)
    return text


def _problems(
    validator: jsonschema_rs.Validator, value: Any, schema: Mapping[str, Any]
) -> list[dict[str, str]]:
    found: dict[tuple[str, str], None] = {}
    for error in validator.iter_errors(value):
        for path, message in _explain(error, schema):
            found[_path(path) or "arguments", message] = None
        if len(found) > _MOST_PROBLEMS:
            break  # a list of a million wrong items is wrong enough
    return [{"path": path, "message": message} for path, message in found]


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
