"""Translation of one tool, description and parameters, for a provider; constraints lost at the root
go to the description."""

from __future__ import annotations

from collections.abc import Mapping, Sized
from typing import Any

import msgspec

from haft_protocol.methods import Style

from .descriptions import with_notes
from .dialect_writer import DialectWriter
from .dialects import Dialect
from .intersection import Node, is_never
from .normalization import UnsupportedSchema, normalize
from .object_root import flatten
from .passthrough import PassThrough

_CHOICE = ("anyOf", "oneOf", "allOf", "not", "if", "enum", "dependentRequired", "dependentSchemas")


class Translated(msgspec.Struct, frozen=True):
    """Tool for a provider."""

    description: str
    parameters: dict[str, Any]
    lossless: bool
    """Arguments for these parameters always match the tool's."""


def translate(
    description: str,
    parameters: Mapping[str, Any],
    dialect: Dialect,
    style: Style | None = None,
) -> Translated:
    """Translate a tool. A choice at the root needs a provider that accepts one and the style `oneof`
    (default: the provider's style).

    Raises `UnsupportedSchema`, also above the provider's limits.
    """
    if isinstance(parameters, Mapping):  # else `flatten` raises
        _hold_properties(parameters.get("properties"), dialect)
    node = normalize(parameters)
    notes: list[str] = []
    lossless = True
    keeps = dialect.root_choice and (style or dialect.style) == "oneof"
    if not keeps or node.get("type") != ["object"]:
        lossless = not any(word in node for word in _CHOICE)
        node, notes = flatten(node)
    elif is_never(node):
        raise UnsupportedSchema("its parameters accept no value")
    written, exact = _within_limits(node, dialect)
    # Constraints of the root belong to the tool: not every provider reads a description there.
    text = written.pop("description", "")
    if text and text not in description:
        notes.insert(0, text)
    return Translated(
        description=with_notes(description, notes, dialect.description),
        parameters=written,
        lossless=lossless and exact,
    )


def _within_limits(node: Node, dialect: Dialect) -> tuple[Node, bool]:
    most = dialect.enum_values
    for values in (most, 250, 50, 10, 0) if most is not None else (None,):
        writer = (
            DialectWriter(dialect, values) if dialect.choice_alone else PassThrough(dialect, values)
        )
        written = writer.root(node)
        if is_never(written):
            raise UnsupportedSchema("no arguments fit its parameters")
        written.setdefault("properties", {})
        if values is None or _count(written)[2] <= (most or 0):
            break
    properties, text, _ = _count(written)
    _hold_properties(range(properties), dialect)
    if dialect.names_text is not None and text > dialect.names_text:
        raise UnsupportedSchema(
            f"its names and choices have {text:,} characters, and the provider's limit"
            f" is {dialect.names_text:,}"
        )
    return written, writer.lossless


def _hold_properties(properties: object, dialect: Dialect) -> None:
    """Raise before any work for too many properties."""
    most = dialect.properties
    if most is not None and isinstance(properties, Sized) and len(properties) > most:
        raise UnsupportedSchema(f"it has {len(properties):,} properties; the limit is {most:,}")


def _count(written: Any) -> tuple[int, int, int]:
    if isinstance(written, list):
        counts = [_count(item) for item in written]
    elif isinstance(written, dict):
        properties = written.get("properties", {})
        values = written.get("enum", [])
        text = sum(map(len, properties)) + sum(len(v) for v in values if isinstance(v, str))
        counts = [(len(properties), text, len(values))]
        for key, value in written.items():
            if key == "properties":
                counts.extend(_count(item) for item in value.values())
            elif key not in ("enum", "required", "default", "examples"):
                counts.append(_count(value))
    else:
        return 0, 0, 0
    return (
        sum(count[0] for count in counts),
        sum(count[1] for count in counts),
        sum(count[2] for count in counts),
    )
