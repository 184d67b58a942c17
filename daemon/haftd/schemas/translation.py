"""Translate one tool, its description and parameters, for a provider.

Constraints that are lost at the root of the schema are appended to the tool's description. A schema over the
provider's limits, even with its long choices as texts, raises `UnsupportedSchema`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sized
from typing import Any

import msgspec

from haft_protocol.methods import Style

from .descriptions import with_notes
from .dialects import Dialect
from .flattening import flatten
from .intersection import Node, is_never
from .lowering import Lowering
from .normalization import UnsupportedSchema, normalize
from .passthrough import PassThrough

_CHOICE = ("anyOf", "oneOf", "allOf", "not", "if", "enum", "dependentRequired", "dependentSchemas")


class Translated(msgspec.Struct, frozen=True):
    """A tool as a provider takes it. `lossless`: whatever fits these parameters fits the tool's."""

    description: str
    parameters: dict[str, Any]
    lossless: bool


def translate(
    description: str,
    parameters: Mapping[str, Any],
    dialect: Dialect,
    style: Style | None = None,
) -> Translated:
    """Put a tool into the words of a dialect; raises `UnsupportedSchema`. A choice at the root stays
    where the provider takes it and the style, without one the provider's own, is `oneof`."""
    if isinstance(parameters, Mapping):  # else `flatten` says what it is
        _hold_properties(parameters.get("properties"), dialect)
    node = normalize(parameters)
    notes: list[str] = []
    lossless = True
    keeps = dialect.root_choice and (style or dialect.style) == "oneof"
    if not keeps or node.get("type") != ["object"]:
        lossless = not any(word in node for word in _CHOICE)
        node, notes = flatten(node)
    elif is_never(node):
        raise UnsupportedSchema("its parameters take nothing at all")
    written, exact = _within_limits(node, dialect)
    # What is said of all parameters is said of the tool: not every provider reads it at the root.
    text = written.pop("description", "")
    if text and text not in description:
        notes.insert(0, text)
    return Translated(
        description=with_notes(description, notes, dialect.description),
        parameters=written,
        lossless=lossless and exact,
    )


def _within_limits(node: Node, dialect: Dialect) -> tuple[Node, bool]:
    """The schema, with as many of its long choices as the provider takes."""
    most = dialect.enum_values
    for values in (most, 250, 50, 10, 0) if most is not None else (None,):
        writer = Lowering(dialect, values) if dialect.choice_alone else PassThrough(dialect, values)
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
            f"its names and choices have {text:,} characters, and the provider takes"
            f" {dialect.names_text:,}"
        )
    return written, writer.lossless


def _hold_properties(found: object, dialect: Dialect) -> None:
    """Refuse more properties than the dialect has; at once, before anything is made of them."""
    most = dialect.properties
    if most is not None and isinstance(found, Sized) and len(found) > most:
        raise UnsupportedSchema(
            f"it has {len(found):,} properties, and at most {most:,} can be given"
        )


def _count(written: Any) -> tuple[int, int, int]:
    """How many properties a schema has, how many characters their names and its choices, and how
    many values its choices."""
    if isinstance(written, list):
        found = [_count(item) for item in written]
    elif isinstance(written, dict):
        properties = written.get("properties", {})
        values = written.get("enum", [])
        text = sum(map(len, properties)) + sum(len(v) for v in values if isinstance(v, str))
        found = [(len(properties), text, len(values))]
        for key, value in written.items():
            if key == "properties":
                found.extend(_count(item) for item in value.values())
            elif key not in ("enum", "required", "default", "examples"):
                found.append(_count(value))
    else:
        return 0, 0, 0
    return (
        sum(one[0] for one in found),
        sum(one[1] for one in found),
        sum(one[2] for one in found),
    )
