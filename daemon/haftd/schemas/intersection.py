"""Intersection of two normalized schemas.

Keywords that cannot be joined (two patterns, two choices) stay in `allOf`. Disjoint schemas give
`NEVER`.
"""

from __future__ import annotations

from typing import Any

Node = dict[str, Any]
"""Normalized schema."""

NEVER: Node = {"not": {}}
"""Schema without valid values."""

ANNOTATIONS = frozenset(["description", "title", "default", "examples"])
"""Keywords without a constraint."""

_UPPER_BOUNDS = ("maximum", "exclusiveMaximum")
_LOWER_BOUNDS = ("minimum", "exclusiveMinimum")
_CONDITION = ("if", "then", "else")


def is_never(node: Node) -> bool:
    return node.get("not") == {} or node.get("enum") == [] or node.get("anyOf") == []


def merge(left: Node, right: Node) -> Node:
    """Intersect two schemas, texts of `left` first."""
    if is_never(left) or is_never(right):
        return dict(NEVER)
    merged = dict(left)
    beside: list[Node] = list(left.get("allOf", ()))
    beside.extend(right.get("allOf", ()))
    for key, value in right.items():
        if key in ("allOf", "properties", "additionalProperties") or key in _CONDITION:
            continue
        if key not in merged:
            merged[key] = value
        elif merged[key] != value or type(merged[key]) is not type(value):
            _join(merged, key, value, beside)
    if "if" in right:
        condition = {key: right[key] for key in _CONDITION if key in right}
        if "if" not in merged:
            merged.update(condition)
        elif condition != {key: merged[key] for key in _CONDITION if key in merged}:
            beside.append(condition)
    _join_objects(merged, left, right)
    if beside:
        merged["allOf"] = beside
    if merged.get("type") == [] or merged.get("enum") == []:
        return dict(NEVER)
    return merged


def _join(merged: Node, key: str, value: Any, beside: list[Node]) -> None:
    mine = merged[key]
    if key == "type":
        merged[key] = _common_types(mine, value)
    elif key == "enum":
        merged[key] = _common_values(mine, value)
    elif key == "required":
        merged[key] = list(dict.fromkeys([*mine, *value]))
    elif key in _LOWER_BOUNDS or key.startswith("min"):
        merged[key] = max(mine, value)
    elif key in _UPPER_BOUNDS or key.startswith("max"):
        merged[key] = min(mine, value)
    elif key == "description":
        if value not in mine:
            merged[key] = f"{mine}\n\n{value}"
    elif key in ("items", "propertyNames", "unevaluatedItems", "unevaluatedProperties"):
        merged[key] = merge(mine, value)
    elif key == "patternProperties":
        merged[key] = {**mine, **value}
        for name in mine.keys() & value.keys():
            merged[key][name] = merge(mine[name], value[name])
    elif key not in ANNOTATIONS and key != "uniqueItems":
        beside.append({key: value})


def _join_objects(merged: Node, left: Node, right: Node) -> None:
    """Join properties: a name of one side only falls under the other's `additionalProperties`."""
    first, second = left.get("properties", {}), right.get("properties", {})
    if not first and not second:
        properties: dict[str, Any] = {}
    else:
        properties = {}
        for name in [*first, *(name for name in second if name not in first)]:
            mine = first.get(name, _additional(left))
            properties[name] = merge(mine, second.get(name, _additional(right)))
    if "properties" in left or "properties" in right:
        merged["properties"] = properties
    more = [
        node["additionalProperties"] for node in (left, right) if "additionalProperties" in node
    ]
    if more:
        merged["additionalProperties"] = merge(more[0], more[1]) if len(more) == 2 else more[0]


def _additional(node: Node) -> Node:
    further: Node = {} if "patternProperties" in node else node.get("additionalProperties", {})
    return {key: value for key, value in further.items() if key not in ANNOTATIONS}


def _common_types(left: list[str], right: list[str]) -> list[str]:
    common = [name for name in left if name in right]
    if "integer" not in common and "integer" in (*left, *right) and "number" in (*left, *right):
        common.append("integer")
    return common


def _common_values(left: list[Any], right: list[Any]) -> list[Any]:
    plain = {(value, isinstance(value, bool)) for value in right if _is_plain(value)}
    composed = [value for value in right if not _is_plain(value)]
    return [
        value
        for value in left
        if ((value, isinstance(value, bool)) in plain if _is_plain(value) else value in composed)
    ]


def _is_plain(value: Any) -> bool:
    return not isinstance(value, dict | list)
