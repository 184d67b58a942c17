"""Intersect two normalized schemas: the result accepts the values that both accept.

Keywords that cannot be joined (two patterns, two choices) stay side by side in `allOf`. Schemas without a common
value give `NEVER`.
"""

from __future__ import annotations

from typing import Any

Node = dict[str, Any]
"""A schema of the one form (`reading`)."""

NEVER: Node = {"not": {}}
"""The schema that takes nothing."""

ANNOTATIONS = frozenset(["description", "title", "default", "examples"])
"""Words that say something and check nothing."""

_SMALLEST = ("maximum", "exclusiveMaximum")
_LARGEST = ("minimum", "exclusiveMinimum")
_CONDITION = ("if", "then", "else")


def is_never(node: Node) -> bool:
    """Whether the schema takes nothing."""
    return node.get("not") == {} or node.get("enum") == [] or node.get("anyOf") == []


def merge(one: Node, other: Node) -> Node:
    """What takes what both take. The texts of `one` come first."""
    if is_never(one) or is_never(other):
        return dict(NEVER)
    found = dict(one)
    beside: list[Node] = list(one.get("allOf", ()))
    beside.extend(other.get("allOf", ()))
    for key, value in other.items():
        if key in ("allOf", "properties", "additionalProperties") or key in _CONDITION:
            continue
        if key not in found:
            found[key] = value
        elif found[key] != value or type(found[key]) is not type(value):
            _join(found, key, value, beside)
    if "if" in other:
        condition = {key: other[key] for key in _CONDITION if key in other}
        if "if" not in found:
            found.update(condition)
        elif condition != {key: found[key] for key in _CONDITION if key in found}:
            beside.append(condition)
    _join_objects(found, one, other)
    if beside:
        found["allOf"] = beside
    if found.get("type") == [] or found.get("enum") == []:
        return dict(NEVER)
    return found


def _join(found: Node, key: str, value: Any, beside: list[Node]) -> None:
    """Join one word that both have, each with a value of its own."""
    mine = found[key]
    if key == "type":
        found[key] = _common_types(mine, value)
    elif key == "enum":
        found[key] = _common_values(mine, value)
    elif key == "required":
        found[key] = list(dict.fromkeys([*mine, *value]))
    elif key in _LARGEST or key.startswith("min"):
        found[key] = max(mine, value)
    elif key in _SMALLEST or key.startswith("max"):
        found[key] = min(mine, value)
    elif key == "description":
        if value not in mine:
            found[key] = f"{mine}\n\n{value}"
    elif key in ("items", "propertyNames", "unevaluatedItems", "unevaluatedProperties"):
        found[key] = merge(mine, value)
    elif key == "patternProperties":
        found[key] = {**mine, **value}
        for name in mine.keys() & value.keys():
            found[key][name] = merge(mine[name], value[name])
    elif key not in ANNOTATIONS and key != "uniqueItems":
        beside.append({key: value})


def _join_objects(found: Node, one: Node, other: Node) -> None:
    """Join the properties: a name that only one of them has is one of the other's further ones."""
    first, second = one.get("properties", {}), other.get("properties", {})
    if not first and not second:
        properties: dict[str, Any] = {}
    else:
        properties = {}
        for name in [*first, *(name for name in second if name not in first)]:
            mine = first.get(name, _further(one))
            properties[name] = merge(mine, second.get(name, _further(other)))
    if "properties" in one or "properties" in other:
        found["properties"] = properties
    more = [node["additionalProperties"] for node in (one, other) if "additionalProperties" in node]
    if more:
        found["additionalProperties"] = merge(more[0], more[1]) if len(more) == 2 else more[0]


def _further(node: Node) -> Node:
    further: Node = {} if "patternProperties" in node else node.get("additionalProperties", {})
    return {key: value for key, value in further.items() if key not in ANNOTATIONS}


def _common_types(one: list[str], other: list[str]) -> list[str]:
    common = [name for name in one if name in other]
    if "integer" not in common and "integer" in (*one, *other) and "number" in (*one, *other):
        common.append("integer")
    return common


def _common_values(one: list[Any], other: list[Any]) -> list[Any]:
    plain = {(value, isinstance(value, bool)) for value in other if _is_plain(value)}
    composed = [value for value in other if not _is_plain(value)]
    return [
        value
        for value in one
        if ((value, isinstance(value, bool)) in plain if _is_plain(value) else value in composed)
    ]


def _is_plain(value: Any) -> bool:
    return not isinstance(value, dict | list)
