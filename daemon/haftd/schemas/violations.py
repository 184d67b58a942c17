"""A validator's error as a sentence with the accepted alternatives: `enum` values, or the choice's
branch that suits the value's type. Long lists are cut and counted."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

import jsonschema_rs
import msgspec

from haft_protocol.ellipsis import shorten
from haft_protocol.errors import shown

Path = tuple[str | int, ...]
_Finding = tuple[Path, str]

_MAX_UNEXPECTED = 51
_MAX_SUGGESTED = 5
_MAX_COMPARED = 100
_MAX_NAME_LENGTH = 120
_MAX_LIST_LENGTH = 400
_MAX_VALUES = 500
_MAX_VALUE_LENGTH = 80
_MAX_CHOICE_DEPTH = 4
_UNCHECKED = (
    jsonschema_rs.ValidationErrorKind.BacktrackLimitExceeded,
    jsonschema_rs.ValidationErrorKind.RegexEngineFailure,
)
_OFFERING = frozenset(["type", "enum", "const"])
"""Errors that name alternatives to the whole value."""


class Names:
    """Sentences about unknown names, with a limited search for similar names."""

    def __init__(self) -> None:
        self._left = _MAX_SUGGESTED

    def unknown(self, name: str, names: Sequence[str]) -> str:
        if near := self.near(name, names):
            return f"it is unknown; did you mean `{near}`?"
        return f"it is unknown; known names: {', '.join(names[:12]) or 'none'}"

    def near(self, name: str, names: Sequence[str]) -> str | None:
        if self._left <= 0 or len(name) > _MAX_NAME_LENGTH:
            return None
        self._left -= 1
        near = difflib.get_close_matches(name, names[:_MAX_COMPARED], n=1)
        return near[0] if near else None


def explain(
    error: jsonschema_rs.ValidationError,
    schema: Mapping[str, Any],
    names: Names,
    depth: int = 0,
) -> list[_Finding]:
    """Return sentences for one error, each with its path."""
    path, kind = tuple(error.instance_path), str(error.kind.name)
    if isinstance(error.kind, _UNCHECKED):
        return [(path, "it could not be checked against its pattern, which is too expensive")]
    if kind == "required":
        return [((*path, str(error.kind.as_dict()["property"])), "it is required")]
    if kind in ("additionalProperties", "unevaluatedProperties"):
        declared = list(_holder(schema, error).get("properties", {}))
        unexpected = error.kind.as_dict()["unexpected"][:_MAX_UNEXPECTED]
        return [((*path, name), names.unknown(name, declared)) for name in unexpected]
    if kind in ("oneOf", "anyOf"):
        if choice := _required_choice(_holder(schema, error).get(kind)):
            how = "exactly" if kind == "oneOf" else "at least"
            given = error.instance if isinstance(error.instance, Mapping) else ()
            has = " and ".join(f"`{name}`" for name in choice if name in given)
            end = f"; it has {has}" if has else ""
            return [(path, f"give {how} one of {', '.join(f'`{n}`' for n in choice)}{end}")]
        branches = error.kind.as_dict().get("context") or []
        if not all(branches):
            return [(path, "it matches more than one of the forms, of which it must match one")]
        if depth < _MAX_CHOICE_DEPTH and (meant := _intended_errors(error, branches)):
            return [
                finding for inner in meant for finding in explain(inner, schema, names, depth + 1)
            ]
    else:
        branches = [[error]]
    if branches and (offer := _offer(error, branches, names)):
        return [(path, f"it must be {offer}, not {_short(error.instance)}")]
    message = error.message
    if len(message) > 200:
        message = f"{shown(_short(error.instance), 80)} does not match `{kind}`"
    return [(path, message)]


def _intended_errors(
    error: jsonschema_rs.ValidationError,
    branches: Sequence[Sequence[jsonschema_rs.ValidationError]],
) -> Sequence[jsonschema_rs.ValidationError]:
    """Return the errors of the intended branch, which alone accepts the value's type, or has its
    properties' fixed values; empty if unclear."""
    inside = [findings for findings in branches if not _is_offering(error, findings)]
    if len(inside) > 1:
        inside = [
            findings
            for findings in inside
            if not any(str(inner.kind.name) in ("const", "enum") for inner in findings)
        ]
    return inside[0] if len(inside) == 1 else []


def _is_offering(
    error: jsonschema_rs.ValidationError, findings: Sequence[jsonschema_rs.ValidationError]
) -> bool:
    """True if a branch's errors only name alternatives to the whole value."""
    return all(
        str(inner.kind.name) in _OFFERING and len(inner.instance_path) == len(error.instance_path)
        for inner in findings
    )


def _offer(
    error: jsonschema_rs.ValidationError,
    branches: Sequence[Sequence[jsonschema_rs.ValidationError]],
    names: Names,
) -> str:
    values: dict[str, Any] = {}
    types: dict[str, None] = {}
    count = 0
    for findings in branches:
        if not _is_offering(error, findings):
            return ""
        offers = {str(inner.kind.name): inner.kind.as_dict() for inner in findings}
        if "const" in offers or "enum" in offers:
            listed = (
                offers["enum"]["options"]
                if "enum" in offers
                else [offers["const"]["expected_value"]]
            )
            count += len(listed)
            values |= {_json(value): value for value in listed[: _MAX_VALUES - len(values)]}
        else:
            types |= dict.fromkeys(offers["type"]["types"])
    parts = list(types)
    if values:
        parts.insert(0, _values(error.instance, values, count, names))
    return " or ".join(parts)


def _values(actual: Any, values: Mapping[str, Any], count: int, names: Names) -> str:
    if len(values) == 1:
        return next(iter(values))
    listed = ", ".join(values)
    if len(listed) <= _MAX_LIST_LENGTH and len(values) < _MAX_VALUES:
        return f"one of {listed}"
    texts = [value for value in values.values() if isinstance(value, str)]
    near = names.near(actual, texts) if isinstance(actual, str) else None
    first = dict.fromkeys([*([] if near is None else [_json(near)]), *values])
    kept: list[str] = []
    left = _MAX_LIST_LENGTH
    for text in first:
        text = shorten(text, _MAX_VALUE_LENGTH)
        left -= len(text) + 2
        if left < 0:
            break
        kept.append(text)
    return f"one of {', '.join(kept)} or another of {count} values"


def _holder(schema: Any, error: jsonschema_rs.ValidationError) -> Mapping[str, Any]:
    for key in list(error.schema_path)[:-1]:
        try:
            schema = schema[key]
        except (KeyError, IndexError, TypeError):
            return {}
    return schema if isinstance(schema, Mapping) else {}


def _required_choice(branches: object) -> list[str]:
    if not isinstance(branches, list):
        return []
    if all(
        isinstance(b, Mapping) and set(b) == {"required"} and len(b["required"]) == 1
        for b in branches
    ):
        return [str(b["required"][0]) for b in branches]
    return []


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _short(value: object) -> str:
    if isinstance(value, str):
        value = value[:61]  # the rest is not shown
    return shorten(_json(value), 60)
