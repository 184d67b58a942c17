"""Parameters of a definition, as a JSON Schema: from a table of parameters with `summary` and a
boolean `required`, or a whole schema.

An object with `properties` is closed unless `additionalProperties` is given; a branch, as of `anyOf` or
`if`, only where no sibling can have further properties.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from typing import Any

from haft_protocol.errors import shown

from .references import find_endless

_WORDS = frozenset(
    [
        "type",
        "default",
        "enum",
        "const",
        "items",
        "prefixItems",
        "properties",
        "required",
        "additionalProperties",
        "patternProperties",
        "propertyNames",
        "minProperties",
        "maxProperties",
        "minItems",
        "maxItems",
        "uniqueItems",
        "contains",
        "minContains",
        "maxContains",
        "minLength",
        "maxLength",
        "pattern",
        "format",
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "anyOf",
        "oneOf",
        "allOf",
        "not",
        "if",
        "then",
        "else",
        "dependentRequired",
        "dependentSchemas",
        "title",
        "description",
        "examples",
        "deprecated",
        "readOnly",
        "writeOnly",
        "nullable",
        "$ref",
        "$defs",
        "definitions",
        "$schema",
        "$id",
        "$comment",
        "summary",
    ]
)
_TYPES = ("string", "integer", "number", "boolean", "array", "object", "null")
_CHOICES = ("anyOf", "oneOf", "allOf")
_CONDITIONS = ("not", "if", "then", "else")
_ONE = ("items", "contains", "additionalProperties", "propertyNames")
_NAMED = ("$defs", "definitions", "patternProperties")
_MAX_DEPTH = 32
"""Levels of a schema; the parser and later stages recurse."""


class InvalidField(ValueError):
    """Invalid field: the path inside it, and the remedy."""

    def __init__(self, path: tuple[str, ...], message: str) -> None:
        super().__init__(message)
        self.path = path
        self.message = message


def invalid_field(message: str, *path: str) -> InvalidField:
    return InvalidField(path, message)


def read_flag(value: object, *path: str) -> bool:
    """Return a boolean; raises `InvalidField` at `path` for any other value."""
    if isinstance(value, bool):
        return value
    raise invalid_field("it must be true or false", *path)


def read_parameters(value: object) -> dict[str, Any]:
    """Return the JSON Schema of either form; raises `InvalidField`."""
    schema = _parse(value)
    if (reference := find_endless(schema)) is not None:
        raise InvalidField(
            (), f"the `$ref` to `{reference}` leads back to itself and describes nothing"
        )
    return schema


def read_details(value: object) -> dict[str, str]:
    """Return the descriptions of parameters that also have another `summary`, by path (`a.b`, `a[].c`)."""
    if not isinstance(value, dict):
        return {}
    form = value if value.get("type") == "object" else {"properties": value}
    return dict(_list_details(form, ""))


def _list_details(form: dict[str, Any], path: str) -> Iterator[tuple[str, str]]:
    summary, text = ((form.get(key) or "").strip() for key in ("summary", "description"))
    if path and summary and text and text != summary:
        yield path, text
    inner = [(f"{path}[]", form.get("items"))]
    inner += [(path, subschema) for key in _CHOICES for subschema in _list_items(form.get(key))]
    properties = form.get("properties")
    if isinstance(properties, dict):
        inner += [
            (f"{path}.{name}".lstrip("."), subschema) for name, subschema in properties.items()
        ]
    for place, subschema in inner:
        if isinstance(subschema, dict):
            yield from _list_details(subschema, place)


def _list_items(value: object) -> Iterable[object]:
    return value if isinstance(value, list) else ()


def _parse(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidField((), "it must be a table of parameters")
    if value.get("type") == "object":
        return _make_schema(value, (), 0)
    for name, parameter in value.items():
        if not isinstance(parameter, dict):
            raise InvalidField((name,), "a parameter must be a table")
    return _make_schema({"type": "object", "properties": value}, (), 0, is_short=True)


def _choose_description(form: dict[str, Any], path: tuple[str, ...]) -> str | None:
    """Return the parameter's text for models: `summary`, else `description`; None without either."""
    for key in ("summary", "description"):
        text = form.get(key)
        if text is not None and not isinstance(text, str):
            raise InvalidField((*path, key), "it must be a string")
    return (form.get("summary") or "").strip() or (form.get("description") or "").strip() or None


def _make_schema(
    form: object, path: tuple[str, ...], depth: int, *, is_short: bool = False
) -> dict[str, Any]:
    """Return the JSON Schema of a parameter or of an object with parameters. Raises `InvalidField`."""
    if not isinstance(form, dict):
        raise InvalidField(path, "it must be a table")
    if depth > _MAX_DEPTH:
        raise InvalidField(path, f"it is nested deeper than {_MAX_DEPTH}")
    schema: dict[str, Any] = {}
    for key, value in form.items():
        if key not in _WORDS and not key.startswith("x-"):
            raise InvalidField((*path, key), f"{shown(key)} is not a keyword of a parameter")
        if key in ("summary", "description", "properties", "required"):
            continue
        inner = (*path, key)
        if key == "type":
            _check_type(value, inner)
        if key in (*_CHOICES, "prefixItems") and isinstance(value, list):
            closed = key == "prefixItems" or "properties" not in form
            schema[key] = [
                _make_branch(item, (*inner, str(at)), depth, closed=closed)
                for at, item in enumerate(value)
            ]
        elif key in _CONDITIONS and isinstance(value, dict):
            schema[key] = _make_branch(value, inner, depth, closed=False)
        elif key == "dependentSchemas" and isinstance(value, dict):
            schema[key] = {
                n: _make_branch(v, (*inner, n), depth, closed=False) for n, v in value.items()
            }
        elif key in _ONE and isinstance(value, dict):
            schema[key] = _make_schema(value, inner, depth + 1)
        elif key in _NAMED and isinstance(value, dict):
            schema[key] = {n: _make_schema(v, (*inner, n), depth + 1) for n, v in value.items()}
        else:
            schema[key] = value
    if (text := _choose_description(form, path)) is not None:
        schema["description"] = text
    required = form.get("required")
    names = list(required) if isinstance(required, list) else []
    if required is not None and not isinstance(required, list | bool):
        raise InvalidField((*path, "required"), "it must be true, false, or an array of names")
    if (properties := form.get("properties")) is not None:
        if not isinstance(properties, dict):
            raise InvalidField((*path, "properties"), "it must be a table")
        schema["properties"] = {}
        for name, item in properties.items():
            # The short form has no `properties` in its paths.
            inner = (*path, name) if is_short else (*path, "properties", name)
            schema["properties"][name] = _make_schema(item, inner, depth + 1)
            if isinstance(item, dict) and item.get("required") is True:
                names.append(name)
        schema.setdefault("additionalProperties", False)
    if names:
        schema["required"] = list(dict.fromkeys(names))
    return schema


def _check_type(value: object, path: tuple[str, ...]) -> None:
    for name in value if isinstance(value, list) else [value]:
        if name not in _TYPES:
            near = get_close_matches(name, _TYPES, n=1) if isinstance(name, str) else []
            hint = f"; did you mean `{near[0]}`?" if near else ""
            raise InvalidField(
                path, f"it is {shown(name)}; a type must be one of {', '.join(_TYPES)}{hint}"
            )


def _make_branch(item: object, path: tuple[str, ...], depth: int, *, closed: bool) -> Any:
    """Parse a subschema; unless `closed`, siblings may declare further names."""
    if isinstance(item, bool):
        return item
    branch = _make_schema(item, path, depth + 1)
    if not closed and isinstance(item, dict) and "additionalProperties" not in item:
        branch.pop("additionalProperties", None)
    return branch
