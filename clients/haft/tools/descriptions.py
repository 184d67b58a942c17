"""Descriptions of tools from functions' signatures and docstrings.

The docstring's first paragraph is the summary, the rest the description. A line `name: text`, or
`Annotated[T, "text"]`, describes a parameter; a table there holds words of JSON Schema. A type hint
without a form in JSON is an error.
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
    summary: str
    text: str
    parameters: Mapping[str, dict[str, Any]]


def describe(function: Callable[..., Any]) -> Description:
    """Return the description of a function; raise `TypeError` if it has no form in JSON.

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
    summary, text, texts = _read_docstring(inspect.getdoc(function) or "", signature.parameters)
    parameters = {}
    for name, parameter in signature.parameters.items():
        where = f"the parameter {name!r} of the tool {function.__name__!r}"
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise TypeError(f"{where} cannot be given by name")
        form = _schema(hints.get(name, Any), where)
        if "description" in form:
            form["summary"] = form.pop("description")
        if name in texts:
            form["summary"] = texts[name]
        parameters[name] = form | _default(parameter.default, where)
    return Description(summary, text, parameters)


def _default(value: Any, where: str) -> dict[str, Any]:
    if value is inspect.Parameter.empty:
        return {}
    if value is None:
        return {"required": False}
    try:
        return {"default": json.loads(json.dumps(value))}
    except (TypeError, ValueError):
        raise TypeError(f"the default of {where} has no form in JSON") from None


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
    # `in` would hash the hint, and a table in `Annotated` is not hashable.
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
        form = _schema(args[0], where)
        for value in args[1:]:
            if isinstance(value, str):
                form["description"] = value
            elif isinstance(value, dict):
                form |= value
        return form
    if origin in (typing.Required, typing.NotRequired):
        return _schema(args[0], where)
    if origin is Literal:
        return _choice(args)
    if origin in (Union, types.UnionType):
        return {"anyOf": [_schema(value, where) for value in args]}
    if origin in (list, Sequence):
        return {"type": "array"} | ({"items": _schema(args[0], where)} if args else {})
    if origin in (dict, Mapping):
        return {"type": "object"} | (
            {"additionalProperties": _schema(args[1], where)} if args else {}
        )
    raise TypeError(
        f"{where} has the type {hint!r}, which has no form in JSON: use str, int, float, bool, None, list, dict, "
        "Literal, Annotated, a union or a TypedDict"
    )


def _is_required(kind: Any, name: str, hint: Any) -> bool:
    # `__required_keys__` misses annotations that are texts.
    if get_origin(hint) in (typing.Required, typing.NotRequired):
        return get_origin(hint) is typing.Required
    return name in kind.__required_keys__


def _choice(values: tuple[Any, ...]) -> dict[str, Any]:
    kinds = {_SCALARS.get(type(value)) for value in values}
    form: dict[str, Any] = {"enum": list(values)}
    return {"type": kinds.pop(), **form} if len(kinds) == 1 else form
