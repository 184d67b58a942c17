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
_CONTAINS = ("contains", "minContains", "maxContains")
_OBJECT = ("properties", "patternProperties", "additionalProperties")
_TOGETHER = frozenset(["allOf", "prefixItems", "items", *_CONDITION, *_CONTAINS, *_OBJECT])
"""Keywords whose meaning depends on others of the same schema, so they are not joined one by one."""


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
        if key in _TOGETHER:
            continue
        if key not in merged:
            merged[key] = value
        elif merged[key] != value or type(merged[key]) is not type(value):
            _join(merged, key, value, beside)
    _join_group(merged, left, right, _CONDITION, beside)
    _join_group(merged, left, right, _CONTAINS, beside)
    _join_arrays(merged, left, right)
    if _lists_other_names(left, right) or _lists_other_names(right, left):
        _join_group(merged, left, right, _OBJECT, beside)
    else:
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
    elif key in ("propertyNames", "unevaluatedItems", "unevaluatedProperties"):
        merged[key] = merge(mine, value)
    elif key not in ANNOTATIONS and key != "uniqueItems":
        beside.append({key: value})


def _join_group(
    merged: Node, left: Node, right: Node, keys: tuple[str, ...], beside: list[Node]
) -> None:
    """Join keywords that count only together; in all groups but `_OBJECT` only beside the first."""
    mine, other = ({key: node[key] for key in keys if key in node} for node in (left, right))
    if keys is not _OBJECT:
        mine, other = (group if keys[0] in group else {} for group in (mine, other))
    for key in keys:
        merged.pop(key, None)
    merged.update(mine or other)
    if mine and other and mine != other:
        beside.append(other)


def _join_arrays(merged: Node, left: Node, right: Node) -> None:
    """Join items by position: `items` is about those behind `prefixItems` of the same schema."""
    first, second = left.get("prefixItems", []), right.get("prefixItems", [])
    if first or second:
        merged["prefixItems"] = [
            merge(_item(left, first, at), _item(right, second, at))
            for at in range(max(len(first), len(second)))
        ]
    further = [node["items"] for node in (left, right) if "items" in node]
    if further:
        merged["items"] = merge(further[0], further[1]) if len(further) == 2 else further[0]


def _item(node: Node, prefix: list[Node], at: int) -> Node:
    if at < len(prefix):
        return prefix[at]
    return {key: value for key, value in node.get("items", {}).items() if key not in ANNOTATIONS}


def _lists_other_names(node: Node, other: Node) -> bool:
    """True if `additionalProperties` of `node` is about names that `other` lists, and that a joined schema
    would take out of it: names of other patterns, or any beside patterns of its own."""
    if "additionalProperties" not in node:
        return False
    patterns = node.get("patternProperties", {}).keys()
    names = other.get("properties", {}).keys() - node.get("properties", {}).keys()
    return bool(other.get("patternProperties", {}).keys() - patterns or (patterns and names))


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
    first, second = left.get("patternProperties", {}), right.get("patternProperties", {})
    if first or second:
        both = {name: merge(first[name], second[name]) for name in first.keys() & second.keys()}
        merged["patternProperties"] = {**first, **second, **both}
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
