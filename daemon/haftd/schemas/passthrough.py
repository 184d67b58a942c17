"""Writer of a normalized schema with every keyword, for permissive providers.

References are inlined, recursion is described.
"""

from __future__ import annotations

from typing import Any

from .descriptions import choice_sentence, original_name_sentence, recursion_sentence, with_notes
from .dialects import Dialect
from .intersection import NEVER, Node, is_never
from .names import expose_properties
from .normalization import CUT, type_of

_EXACT = ("oneOf", "not", "if")
_ONE_SCHEMA = ("items", "then", "else", "contains", "propertyNames")
_SCHEMAS_BY_NAME = ("patternProperties", "dependentSchemas")


class PassThrough:
    """Writes one schema; `lossless` turns false for recursion or excess length."""

    def __init__(self, dialect: Dialect, enum_values: int | None = None) -> None:
        self._dialect = dialect
        self._most_values = enum_values
        self.lossless = True

    def root(self, node: Node) -> Node:
        return {"type": "object", **self.write(node)}

    def write(self, node: Node) -> Node:
        written: Node = {}
        notes: list[str] = []
        renamed = expose_properties(_names_in(node), self._dialect)
        for key, value in node.items():
            if key == CUT:
                notes.append(recursion_sentence(value))
                self.lossless = False
            elif key == "enum" and self._is_too_long(value):
                types = list(dict.fromkeys(map(type_of, value)))
                written.setdefault("type", types[0] if len(types) == 1 else types)
                notes.append(choice_sentence(value))
                self.lossless = False
            elif key == "type":
                written[key] = value[0] if len(value) == 1 else value
            elif key == "properties":
                written[key] = {
                    renamed[n]: self._renamed(n, renamed[n], v) for n, v in value.items()
                }
            elif key == "required":
                written[key] = [renamed.get(name, name) for name in value]
            elif key == "dependentRequired":
                written[key] = {
                    renamed.get(name, name): [renamed.get(each, each) for each in needs]
                    for name, needs in value.items()
                }
            elif key in _EXACT:
                written[key] = self._exactly(value)
            elif key in ("prefixItems", "anyOf", "allOf"):
                written[key] = [self.write(item) for item in value]
            elif key in _SCHEMAS_BY_NAME:
                written[key] = {name: self.write(item) for name, item in value.items()}
            elif key in ("additionalProperties", "unevaluatedProperties", "unevaluatedItems"):
                written[key] = False if value == NEVER else self.write(value)
            elif key == "items" and value == NEVER:
                written[key] = False
            elif key in _ONE_SCHEMA:
                written[key] = self.write(value)
            else:
                written[key] = value
        return self._described(written, node, notes)

    def _is_too_long(self, values: list[Any]) -> bool:
        return self._most_values is not None and len(values) > self._most_values

    def _exactly(self, value: Any) -> Any:
        """Write a negated schema exactly: a looser one would invert its meaning."""
        most, self._most_values = self._most_values, None
        values = (
            [self.write(item) for item in value] if isinstance(value, list) else self.write(value)
        )
        self._most_values = most
        return values

    def _renamed(self, name: str, shown: str, node: Node) -> Node:
        written = self.write(node)
        if is_never(node):  # a note on the name would be lost in an intersection
            return written
        return (
            written
            if name == shown
            else self._described(written, written, [original_name_sentence(name)])
        )

    def _described(self, written: Node, node: Node, notes: list[str]) -> Node:
        text = with_notes(node.get("description", ""), notes, self._dialect.text)
        if text:
            written["description"] = text
        return written


def _names_in(node: Node) -> list[str]:
    """Return all property names of a node, so that each is renamed alike."""
    names = [*node.get("properties", ()), *node.get("required", ())]
    for name, needs in node.get("dependentRequired", {}).items():
        names.extend([name, *needs] if isinstance(needs, list) else [name])
    return list(dict.fromkeys(names))
