"""Keywords and values of each JSON type, for normalized schemas.

A keyword that constrains one type implies it unless another keyword names types.
"""

from __future__ import annotations

from typing import Any

from .intersection import ANNOTATIONS, Node
from .normalization import TYPES

WORDS: dict[str, frozenset[str]] = {
    "string": frozenset(["minLength", "maxLength", "pattern", "format"]),
    "number": frozenset(
        ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "format"]
    ),
    "array": frozenset(
        [
            "items",
            "prefixItems",
            "minItems",
            "maxItems",
            "uniqueItems",
            "contains",
            "minContains",
            "maxContains",
            "unevaluatedItems",
        ]
    ),
    "object": frozenset(
        [
            "properties",
            "required",
            "additionalProperties",
            "patternProperties",
            "propertyNames",
            "minProperties",
            "maxProperties",
            "dependentRequired",
            "dependentSchemas",
            "unevaluatedProperties",
        ]
    ),
    "boolean": frozenset(),
    "null": frozenset(),
}
WORDS["integer"] = WORDS["number"]
TYPED = frozenset().union(*WORDS.values())
NUMBER_FORMATS = {"number": ("float", "double"), "integer": ("int32", "int64")}


def types_of(node: Node) -> list[str]:
    """Return the accepted types; empty for all."""
    types: list[str] = node.get("type", [])
    if not types and "enum" not in node:
        types = [kind for kind in TYPES if kind != "integer" and WORDS[kind] & node.keys()]
        if "format" in node and types == ["string", "number"]:
            number = any(node["format"] in formats for formats in NUMBER_FORMATS.values())
            types = ["number"] if number else ["string"]
    if "number" in types and "integer" in types:
        types = [kind for kind in types if kind != "integer"]
    return types


def only(node: Node, kind: str) -> Node:
    others = TYPED - WORDS[kind]
    kept = {k: v for k, v in node.items() if k not in others and k not in ANNOTATIONS}
    return {**kept, "type": [kind]}


def type_of(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"


def is_of(value: Any, types: list[str]) -> bool:
    kind = type_of(value)
    if kind == "integer":
        return "integer" in types or "number" in types
    if kind == "number" and "integer" in types:
        return "number" in types or value.is_integer()
    return kind in types


def size(node: Any) -> int:
    if isinstance(node, dict):
        return 1 + sum(size(value) for value in node.values())
    if isinstance(node, list):
        return sum(size(value) for value in node)
    return 0
