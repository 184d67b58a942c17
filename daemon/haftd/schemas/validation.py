"""Check the arguments of a call against a schema.

Arguments are coerced (`coercion`) and defaults filled in, except where valid arguments become invalid by them; then
all problems are reported at once, each with its path. Report and work are bounded: of a large value a part is
explained (`minimization`), and `violations` words each finding.
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
"""The most values and names of a value whose problems are all looked for."""
_MAX_READ = 5_000
"""The most of a part that is wrong as a whole only."""
_LARGE_SCHEMA = 20_000
_MAX_NAME_LENGTH = 120
_MAX_TRIALS = 64
"""Defaults that are tried one by one where not all of them fit."""

_Found = tuple[Path, str]

# What is so of a part is so of the whole: because of what is there,
_SURE = frozenset(
    ["type", "additionalProperties", "falseSchema", "maxItems", "maxProperties", "uniqueItems"]
)
# or unless a name was cut away that the schema speaks of.
_BY_NAME = frozenset(["required", "dependentRequired"])


def check(
    name: str,
    args: Mapping[str, Any],
    schema: Mapping[str, Any],
    validator: jsonschema_rs.Validator,
) -> dict[str, Any]:
    """Return the arguments as the tool `name` gets them: coerced to `schema`, with the schema's defaults.

    Raise `RpcError` (-32003, each problem with its path) for arguments that do not match.
    """
    fitted = coerce(dict(args), schema)
    if not isinstance(fitted, dict):
        raise AssertionError("an object was fitted into something else")
    found = problems(validator, fitted, schema)
    if not found:
        return fitted
    given = coerce(dict(args), schema, with_defaults=False)
    if given == fitted or not _is_valid(validator, given):
        raise invalid_arguments(name, found)
    return _with_defaults_that_fit(given, fitted, validator)


def _with_defaults_that_fit(
    given: dict[str, Any], filled: Mapping[str, Any], validator: jsonschema_rs.Validator
) -> dict[str, Any]:
    """Arguments that fit as they were given, with those of their defaults with which they still do."""
    left = _MAX_TRIALS if not is_larger(given, _MAX_EXPLAINED) else 0
    for name, item in filled.items():
        if left > 0 and (name not in given or given[name] != item):
            left -= 1
            trial = {**given, name: item}
            if _is_valid(validator, trial):
                given = trial
    return given


def _is_valid(validator: jsonschema_rs.Validator, value: Any) -> bool:
    try:
        return validator.is_valid(value)
    except ValueError:  # the validator goes down so far only
        return False


def path_text(parts: Sequence[str | int]) -> str:
    """Return a path within the arguments as `a.b[0]`; a long name is cut."""
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
    """What is wrong with the value, each with its path; past fifty only that there is more. Of a
    large value a part is explained: all that is wrong with it would be as large."""
    try:
        return [] if validator.is_valid(value) else _wrong(validator, value, schema)
    except ValueError:  # the validator goes down so far only
        return [{"path": "arguments", "message": "they are nested too deeply to be checked"}]


def _wrong(
    validator: jsonschema_rs.Validator, value: Any, schema: Mapping[str, Any]
) -> list[dict[str, str]]:
    # Each finding holds what its part of the schema says: of a long `enum` all values.
    most, few = (8, 4) if is_larger(schema, _LARGE_SCHEMA) else (_MAX_EXPLAINED, 64)
    if not is_larger(value, most):
        return _listed(_explained(validator, Part(value), schema)[0])
    doubtful: list[_Found] = []
    end: Path = ()
    for part in parts(value, lambda one: not validator.is_valid(one), names_in(schema), few):
        end = part.end
        if is_larger(part.value, _MAX_READ):
            break
        found, doubtful = _explained(validator, part, schema)
        if found:
            return _listed(found)
    where = [path for path, _ in doubtful] or [end]
    return _listed([(path, "it does not fit, and is too large to say why") for path in where])


def _listed(found: Iterable[_Found]) -> list[dict[str, str]]:
    distinct = dict.fromkeys((path_text(path) or "arguments", message) for path, message in found)
    listed = [{"path": path, "message": message} for path, message in distinct]
    if len(listed) > _MAX_PROBLEMS:
        listed[_MAX_PROBLEMS:] = [{"path": "", "message": "and more"}]
    return listed


def _explained(
    validator: jsonschema_rs.Validator, part: Part, schema: Mapping[str, Any]
) -> tuple[list[_Found], list[_Found]]:
    """What is wrong with a part of a value, and what may be so only because it is a part."""
    sure: dict[_Found, None] = {}
    doubtful: dict[_Found, None] = {}
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
