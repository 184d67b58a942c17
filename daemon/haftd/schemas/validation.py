"""Validation of a call's arguments against a schema.

Arguments are coerced and get defaults, except where these invalidate them. All problems are
reported together. Report and work are bounded: a large value is reduced (`minimization`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jsonschema_rs

from haft_protocol.errors import invalid_arguments

from .coercion import coerce
from .minimization import Part, is_larger, names_in, parts
from .violations import Names, Path, explain

_MAX_PROBLEMS = 50
_MAX_EXPLAINED = 500
"""Values and names of a value that is explained in full."""
_MAX_READ = 5_000
"""Size of a part with an error of the whole node."""
_LARGE_SCHEMA = 20_000
_MAX_NAME_LENGTH = 120
_MAX_TRIALS = 64
"""Defaults tried one by one if not all are valid together."""

_Finding = tuple[Path, str]

# Errors of a part that are errors of the whole: those of present values,
_SURE = frozenset(
    ["type", "additionalProperties", "falseSchema", "maxItems", "maxProperties", "uniqueItems"]
)
# and, unless a name of the schema was cut, those of absent ones.
_BY_NAME = frozenset(["required", "dependentRequired"])


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
        raise AssertionError("an object was fitted into something else")
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
            part = part if len(part) <= _MAX_NAME_LENGTH else f"{part[: _MAX_NAME_LENGTH - 1]}…"
            text += f".{part}" if text else part
    return text


def problems(
    validator: jsonschema_rs.Validator, value: Any, schema: Mapping[str, Any]
) -> list[dict[str, str]]:
    """Return up to fifty problems; a large value is explained by a part."""
    try:
        return [] if validator.is_valid(value) else _wrong(validator, value, schema)
    except ValueError:  # the validator's recursion limit
        return [{"path": "arguments", "message": "they are nested too deeply to be checked"}]


def _wrong(
    validator: jsonschema_rs.Validator, value: Any, schema: Mapping[str, Any]
) -> list[dict[str, str]]:
    # Each error references its subschema: for a long `enum`, all values.
    most, few = (8, 4) if is_larger(schema, _LARGE_SCHEMA) else (_MAX_EXPLAINED, 64)
    if not is_larger(value, most):
        return _listed(_explained(validator, Part(value), schema)[0])
    doubtful: list[_Finding] = []
    end: Path = ()
    for part in parts(
        value, lambda candidate: not validator.is_valid(candidate), names_in(schema), few
    ):
        end = part.end
        if is_larger(part.value, _MAX_READ):
            break
        certain, doubtful = _explained(validator, part, schema)
        if certain:
            return _listed(certain)
    where = [path for path, _ in doubtful] or [end]
    return _listed([(path, "it does not fit, and is too large to say why") for path in where])


def _listed(findings: Iterable[_Finding]) -> list[dict[str, str]]:
    distinct = dict.fromkeys(
        (path_text(path) or "arguments", message) for path, message in findings
    )
    listed = [{"path": path, "message": message} for path, message in distinct]
    if len(listed) > _MAX_PROBLEMS:
        listed[_MAX_PROBLEMS:] = [{"path": "", "message": "and more"}]
    return listed


def _explained(
    validator: jsonschema_rs.Validator, part: Part, schema: Mapping[str, Any]
) -> tuple[list[_Finding], list[_Finding]]:
    """Return the certain errors, and those that the cut may have caused."""
    sure: dict[_Finding, None] = {}
    doubtful: dict[_Finding, None] = {}
    names = Names()
    for error in validator.iter_errors(part.value):
        place = part.path(error.instance_path)
        kind = str(error.kind.name)
        is_sure = kind in _SURE or not part.lost_in(place)
        is_sure = is_sure or (kind in _BY_NAME and place not in part.bare)
        for path, message in explain(error, part.path, schema, names):
            (sure if is_sure else doubtful)[path, message] = None
        if len(sure) > _MAX_PROBLEMS:
            break
    return list(sure), list(doubtful)
