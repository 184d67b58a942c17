"""References of a schema that lead back to where they began without going into the value.

Rules: pure. A part that refers to itself through `properties` or `items` describes a tree, and is
right. One that does so through a choice, `allOf`, `not` or a condition speaks of the very value that
it began with: it says nothing, and whoever follows it does not come to an end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_MANY = ("allOf", "anyOf", "oneOf")
_ONE = ("not", "if", "then", "else")
_VALUES = frozenset(["default", "const", "enum", "examples"])
"""Words whose values are no schemas."""


def endless(schema: Mapping[str, Any]) -> str | None:
    """A `$ref` that leads back to itself; None when there is none."""
    done: set[int] = set()
    for start in _parts(schema):
        if id(start) in done:
            continue
        # The way from the start: each part with those that it still leads to. What is on it is open.
        way = [(start, _same(start, schema))]
        open_ = {id(start)}
        through: list[str | None] = []
        while way:
            part, others = way[-1]
            for reference, other in others:
                if id(other) in open_:
                    first = next(at for at, (one, _) in enumerate(way) if one is other)
                    taken = [*through[first:], reference]
                    return next((one for one in taken if one is not None), None)
                if id(other) not in done:
                    way.append((other, _same(other, schema)))
                    through.append(reference)
                    open_.add(id(other))
                    break
            else:
                way.pop()
                open_.discard(id(part))
                done.add(id(part))
                if through:
                    through.pop()
    return None


def _parts(schema: Any) -> Iterator[dict[str, Any]]:
    """Everything in it that may be a schema."""
    waiting = [schema]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            yield one
            waiting.extend(item for key, item in one.items() if key not in _VALUES)
        elif isinstance(one, list):
            waiting.extend(one)


def _same(part: dict[str, Any], whole: Any) -> Iterator[tuple[str | None, dict[str, Any]]]:
    """The parts that speak of the same value, each with the reference that leads there."""
    for key in _MANY:
        if isinstance(part.get(key), list):
            yield from ((None, each) for each in part[key] if isinstance(each, dict))
    for key in _ONE:
        if isinstance(part.get(key), dict):
            yield None, part[key]
    if isinstance(part.get("dependentSchemas"), dict):
        yield from ((None, e) for e in part["dependentSchemas"].values() if isinstance(e, dict))
    reference = part.get("$ref")
    if isinstance(reference, str) and (found := _named(reference, whole)) is not None:
        yield reference, found


def _named(reference: str, whole: Any) -> dict[str, Any] | None:
    """What a local reference names."""
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
