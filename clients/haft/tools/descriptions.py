"""Descriptions of tools from functions' signatures and docstrings.

The docstring's first paragraph is the summary, the rest the description. A line `name: text`, as
such or in the style of Google or Sphinx, or `Annotated[T, "text"]`, describes a parameter; a dict in
`Annotated` adds keywords of JSON Schema. A type hint for values that JSON does not have is an error.
"""

from __future__ import annotations

import inspect
import json
import re
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin, is_typeddict

_SCALARS: dict[Any, str] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    type(None): "null",
}
_SECTION = re.compile(r"(Args|Arguments|Parameters):?\s*")
_PARAMETER = re.compile(r"\s*(?::param\s+)?(\w+)(?:\s*\([^)]*\))?:\s+(\S.*)")


@dataclass(frozen=True, slots=True)
class Description:
    """Keys of a tool's definition; `text` is its `description`."""

    summary: str
    text: str
    parameters: Mapping[str, dict[str, Any]]
    """JSON Schemas by name, each with `summary` for its description, `required` and `default`."""


def describe(function: Callable[..., Any]) -> Description:
    """Describe a function by its type hints and docstring.

    Raises `TypeError` for a parameter without a name in calls, and for a type or default that JSON
    cannot represent; `NameError` for an unknown name in a type hint.

    >>> def greet(name: str, times: int = 1) -> str:
    ...     '''Greet somebody.
    ...
    ...     name: The person.
    ...     '''
    >>> describe(greet).parameters["times"]
    {'type': 'integer', 'default': 1}
    """
    hints = typing.get_type_hints(function, include_extras=True)
    signature = inspect.signature(function)
    summary, text, summaries = _read_docstring(inspect.getdoc(function) or "", signature.parameters)
    parameters = {}
    for name, parameter in signature.parameters.items():
        where = f"the parameter {name!r} of the tool {function.__name__!r}"
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise TypeError(f"{where} cannot be given by name")
        schema = _schema(hints.get(name, Any), where)
        # A definition has `summary` for a parameter, and JSON Schema's word within its schema.
        if "description" in schema:
            schema["summary"] = schema.pop("description")
        if name in summaries:
            schema["summary"] = summaries[name]
        parameters[name] = schema | _default(parameter.default, where)
    return Description(summary, text, parameters)


def _default(value: Any, where: str) -> dict[str, Any]:
    if value is inspect.Parameter.empty:
        return {}
    if value is None:
        # Absent, not null: the hint need not allow null.
        return {"required": False}
    try:
        return {"default": json.loads(json.dumps(value))}
    except (TypeError, ValueError):
        raise TypeError(f"the default of {where} cannot be represented in JSON") from None


def _read_docstring(doc: str, names: Mapping[str, Any]) -> tuple[str, str, dict[str, str]]:
    texts: dict[str, str] = {}
    kept: list[str] = []
    current, indent = "", 0
    for line in doc.splitlines():
        match = _PARAMETER.fullmatch(line)
        depth = len(line) - len(line.lstrip())
        if match and match[1] in names:
            current, indent = match[1], depth
            texts[current] = match[2].strip()
        elif current and line.strip() and depth > indent:
            texts[current] += f" {line.strip()}"
        elif not _SECTION.fullmatch(line):
            current = ""
            kept.append(line)
    head, _, rest = "\n".join(kept).strip().partition("\n\n")
    return " ".join(head.split()), rest.strip(), texts


def _schema(hint: Any, where: str) -> dict[str, Any]:
    if hint is Any:
        return {}
    # `in` would hash the hint, and a dict in `Annotated` is not hashable.
    for scalar, name in _SCALARS.items():
        if hint is scalar:
            return {"type": name}
    if is_typeddict(hint):
        fields = typing.get_type_hints(hint, include_extras=True)
        return {
            "type": "object",
            "properties": {name: _schema(value, where) for name, value in fields.items()},
            "required": [name for name in fields if _is_required(hint, name, fields[name])],
            "additionalProperties": False,
        }
    origin, args = get_origin(hint) or hint, get_args(hint)
    if origin is Annotated:
        schema = _schema(args[0], where)
        for value in args[1:]:
            if isinstance(value, str):
                schema["description"] = value
            elif isinstance(value, dict):
                schema |= value
        return schema
    if origin in (typing.Required, typing.NotRequired):
        return _schema(args[0], where)
    if origin is Literal:
        return _choice(args, where)
    if origin in (Union, types.UnionType):
        return {"anyOf": [_schema(value, where) for value in args]}
    if origin in (list, Sequence):
        return {"type": "array"} | ({"items": _schema(args[0], where)} if args else {})
    if origin in (dict, Mapping):
        return {"type": "object"} | (
            {"additionalProperties": _schema(args[1], where)} if args else {}
        )
    raise _unsupported(hint, where)


def _unsupported(hint: Any, where: str) -> TypeError:
    return TypeError(
        f"{where} has the type {hint!r}, which JSON cannot represent: use Any, str, int, float, bool, None, "
        "list, Sequence, dict, Mapping, Literal of such values, Annotated, a union or a TypedDict"
    )


def _is_required(kind: Any, name: str, hint: Any) -> bool:
    # `__required_keys__` misses string annotations.
    if get_origin(hint) in (typing.Required, typing.NotRequired):
        return get_origin(hint) is typing.Required
    return name in kind.__required_keys__


def _choice(values: tuple[Any, ...], where: str) -> dict[str, Any]:
    for value in values:
        # Literal takes bytes and members of enums too.
        if type(value) not in _SCALARS:
            raise _unsupported(Literal[value], where)
    types_of_values = {_SCALARS[type(value)] for value in values}
    schema: dict[str, Any] = {"enum": list(values)}
    return {"type": types_of_values.pop(), **schema} if len(types_of_values) == 1 else schema
