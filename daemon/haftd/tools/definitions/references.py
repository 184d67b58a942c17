"""Endless `$ref` cycles in a schema: one through a choice, `allOf`, `not` or a condition returns to
the same value: a validator never ends. A cycle through `properties` or `items` describes a tree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_MANY = ("allOf", "anyOf", "oneOf")
_ONE = ("not", "if", "then", "else")
_VALUES = frozenset(["default", "const", "enum", "examples"])
"""Keywords with values that are not schemas."""


def find_endless(schema: Mapping[str, Any]) -> str | None:
    """Return a `$ref` of the first endless cycle; None if there is none."""
    done: set[int] = set()
    for start in _walk(schema):
        if id(start) in done:
            continue
        # Depth-first: each open subschema with its unvisited references.
        path = [(start, _list_same_value_schemas(start, schema))]
        open_ = {id(start)}
        through: list[str | None] = []
        while path:
            part, others = path[-1]
            for reference, other in others:
                if id(other) in open_:
                    first = next(at for at, (candidate, _) in enumerate(path) if candidate is other)
                    cycle = [*through[first:], reference]
                    return next((candidate for candidate in cycle if candidate is not None), None)
                if id(other) not in done:
                    path.append((other, _list_same_value_schemas(other, schema)))
                    through.append(reference)
                    open_.add(id(other))
                    break
            else:
                path.pop()
                open_.discard(id(part))
                done.add(id(part))
                if through:
                    through.pop()
    return None


def _walk(schema: Any) -> Iterator[dict[str, Any]]:
    waiting = [schema]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            yield node
            waiting.extend(item for key, item in node.items() if key not in _VALUES)
        elif isinstance(node, list):
            waiting.extend(node)


def _list_same_value_schemas(
    part: dict[str, Any], whole: Any
) -> Iterator[tuple[str | None, dict[str, Any]]]:
    """Yield the subschemas for the same value, each with the reference to it."""
    for key in _MANY:
        if isinstance(part.get(key), list):
            yield from ((None, each) for each in part[key] if isinstance(each, dict))
    for key in _ONE:
        if isinstance(part.get(key), dict):
            yield None, part[key]
    if isinstance(part.get("dependentSchemas"), dict):
        yield from ((None, e) for e in part["dependentSchemas"].values() if isinstance(e, dict))
    reference = part.get("$ref")
    if isinstance(reference, str) and (target := _find_named(reference, whole)) is not None:
        yield reference, target


def _find_named(reference: str, whole: Any) -> dict[str, Any] | None:
    if reference != "#" and not reference.startswith("#/"):
        return None
    for key in reference.split("/")[1:]:
        key = key.replace("~1", "/").replace("~0", "~")
        if isinstance(whole, dict):
            whole = whole.get(key)
        elif isinstance(whole, list) and key.isdecimal() and int(key) < len(whole):
            whole = whole[int(key)]
        else:
            return None
    return whole if isinstance(whole, dict) else None
