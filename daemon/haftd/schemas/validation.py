"""Validation of a call's arguments against a schema.

All problems are reported together; of a large value the first, as the validator takes 30 µs for
each. Arguments get no defaults that invalidate them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jsonschema_rs

from haft_protocol.ellipsis import shorten
from haft_protocol.errors import invalid_arguments

from .coercion import coerce
from .violations import Names, Path, explain

_MAX_PROBLEMS = 50
_MAX_EXPLAINED = 500
"""Values and names of a value explained in full."""
_MAX_SCHEMA = 20_000
"""Values of a schema whose errors are all collected: each references its part of the schema."""
_CHOICES = frozenset(["anyOf", "oneOf"])
"""Keywords whose single error collects the errors of all branches."""
_NAMED = frozenset(["properties", "patternProperties", "dependentSchemas", "$defs", "definitions"])
"""Keywords with schemas by name."""
_PLAIN = frozenset(["const", "enum", "default", "examples"])
"""Keywords with values, which are no schemas."""
_MAX_NAME_LENGTH = 120
_MAX_TRIALS = 64
"""Defaults tried one by one if not all are valid together."""

_Finding = tuple[Path, str]


def check(
    name: str,
    args: Mapping[str, Any],
    schema: Mapping[str, Any],
    validator: jsonschema_rs.Validator,
) -> dict[str, Any]:
    """Return the arguments of the tool `name`, coerced, with defaults.

    Raises `RpcError` (-32003, each problem with its path).
    """
    fitted = coerce(dict(args), schema)
    if not isinstance(fitted, dict):
        raise AssertionError(f"an object was coerced to a {type(fitted).__name__}")
    faults = problems(validator, fitted, schema)
    if not faults:
        return fitted
    coerced = coerce(dict(args), schema, with_defaults=False)
    if coerced == fitted or not _is_valid(validator, coerced):
        raise invalid_arguments(name, faults)
    return _with_defaults_that_fit(coerced, fitted, validator)


def _with_defaults_that_fit(
    args: dict[str, Any], filled: Mapping[str, Any], validator: jsonschema_rs.Validator
) -> dict[str, Any]:
    left = _MAX_TRIALS if not is_larger(args, _MAX_EXPLAINED) else 0
    for name, item in filled.items():
        if left > 0 and (name not in args or args[name] != item):
            left -= 1
            trial = {**args, name: item}
            if _is_valid(validator, trial):
                args = trial
    return args


def _is_valid(validator: jsonschema_rs.Validator, value: Any) -> bool:
    try:
        return validator.is_valid(value)
    except ValueError:  # the validator's recursion limit
        return False


def path_text(parts: Sequence[str | int]) -> str:
    """Format a path within the arguments as `a.b[0]`; long names are cut."""
    text = ""
    for part in parts:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            part = shorten(part, _MAX_NAME_LENGTH)
            text += f".{part}" if text else part
    return text


def problems(
    validator: jsonschema_rs.Validator, value: Any, schema: Mapping[str, Any]
) -> list[dict[str, str]]:
    """Return up to fifty problems; a large value is explained by a part."""
    try:
        return [] if validator.is_valid(value) else _all_problems(validator, value, schema)
    except ValueError:  # the validator's recursion limit
        return [{"path": "arguments", "message": "they are nested too deeply to be checked"}]


def _all_problems(
    validator: jsonschema_rs.Validator, value: Any, schema: Mapping[str, Any]
) -> list[dict[str, str]]:
    is_small = not is_larger(value, _MAX_EXPLAINED)
    if is_small and not is_larger(schema, _MAX_SCHEMA):
        return _listed(_explained(validator.iter_errors(value), schema))
    if not is_small and _has_choice(schema):
        return [{"path": "arguments", "message": "they are invalid, and too large to explain why"}]
    try:
        validator.validate(value)
    except jsonschema_rs.ValidationError as first:
        return _listed(_explained([first], schema))
    raise AssertionError("`validate` accepts a value that `is_valid` refused")


def is_larger(value: Any, most: int) -> bool:
    """True for more than `most` values, with `value` itself."""
    left = most
    waiting = [value]
    while waiting:
        node = waiting.pop()
        left -= 1
        if left < 0:
            return True
        if isinstance(node, dict | list):
            if len(node) > left:
                return True
            waiting.extend(node.values() if isinstance(node, dict) else node)
    return False


def _has_choice(schema: Any) -> bool:
    waiting = [schema]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Mapping):
            if not _CHOICES.isdisjoint(node):
                return True
            for keyword, value in node.items():
                if keyword in _NAMED and isinstance(value, Mapping):
                    waiting.extend(value.values())  # a name there is not a keyword
                elif keyword not in _PLAIN:
                    waiting.append(value)
        elif isinstance(node, list):
            waiting.extend(node)
    return False


def _listed(findings: Iterable[_Finding]) -> list[dict[str, str]]:
    distinct = dict.fromkeys(
        (path_text(path) or "arguments", message) for path, message in findings
    )
    listed = [{"path": path, "message": message} for path, message in distinct]
    if len(listed) > _MAX_PROBLEMS:
        listed[_MAX_PROBLEMS:] = [{"path": "", "message": "and more"}]
    return listed


def _explained(
    errors: Iterable[jsonschema_rs.ValidationError], schema: Mapping[str, Any]
) -> list[_Finding]:
    findings: dict[_Finding, None] = {}
    names = Names()
    for error in errors:
        findings |= dict.fromkeys(explain(error, schema, names))
        if len(findings) > _MAX_PROBLEMS:
            break
    return list(findings)
