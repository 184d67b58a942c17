"""A tool's own arguments, read from its JSON Schema, as the command line takes them."""

from __future__ import annotations

import json
import shlex
from typing import Any

import msgspec

_OF_A_CALL = ("action", "id")
"""Names that no parameter of a stateful tool has: haft adds them to the schema of its start."""
_TYPES = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "true | false",
    "array": "list",
    "object": "object",
    "null": "null",
}
_EXAMPLES = {"integer": "1", "number": "1.5", "boolean": "true", "object": "{…}", "null": "null"}


class Argument(msgspec.Struct, frozen=True):
    name: str
    schema: dict[str, Any]
    is_required: bool

    @property
    def meaning(self) -> str:
        return str(self.schema.get("description", "")).strip()

    @property
    def is_text(self) -> bool:
        """True if the argument is a string, which is never read as JSON."""
        return self.schema.get("type", "string") == "string" and all(
            isinstance(value, str) for value in self.schema.get("enum", ())
        )

    @property
    def sign(self) -> str:
        """Return the sign before the value: `=`, or `:=` before JSON.

        The daemon decodes a string where the tool takes a number, true or false, so `=` does for it.
        """
        is_scalar = self.schema.get("type") in ("integer", "number", "boolean")
        return "=" if self.is_text or is_scalar else ":="

    @property
    def example(self) -> str:
        """Return the argument as an option: `--arg 'files:=["…"]'`.

        >>> Argument("files", {"type": "array"}, True).example
        "--arg 'files:=[…]'"
        >>> Argument("port", {"type": "integer"}, True).example
        '--arg port=1'
        """
        return f"--arg {_quoted(f'{self.name}{self.sign}{_value(self.schema)}')}"

    @property
    def type(self) -> str:
        """Return the type in words, and the default value.

        >>> Argument("n", {"type": "array", "items": {"type": "integer"}}, False).type
        'list of whole number'
        """
        default = self.schema.get("default")
        shown = default if isinstance(default, str) else json.dumps(default, ensure_ascii=False)
        return _type(self.schema) + (f" (default: {shown})" if default is not None else "")


def arguments_of(parameters: dict[str, Any]) -> dict[str, Argument]:
    """Return the tool's arguments by name; a stateful tool's arguments are in the variant of `spawn`.

    The variant also has the call's own parameters, known from the other actions; the tool's
    parameter replaces a call's of the same name.
    """
    schema: dict[str, Any] = parameters
    added: dict[str, Any] = {}
    if "properties" not in parameters:
        variants = {
            variant["properties"]["action"].get("const"): variant
            for variant in parameters.get("oneOf", ())
            if "action" in variant.get("properties", {})
        }
        schema = variants.pop("spawn", {})
        for variant in variants.values():
            added |= variant["properties"]
        added |= {name: schema.get("properties", {}).get(name) for name in _OF_A_CALL}
    required = schema.get("required", ())
    return {
        name: Argument(name, value if isinstance(value, dict) else {}, name in required)
        for name, value in schema.get("properties", {}).items()
        if name not in added or added[name] != value
    }


def _type(schema: Any) -> str:
    if not isinstance(schema, dict):
        return "any"
    if "enum" in schema or "const" in schema:
        values = schema.get("enum", [schema.get("const")])
        return " | ".join(
            value if isinstance(value, str) else json.dumps(value) for value in values
        )
    kinds = schema.get("type")
    if kinds is None:
        either = schema.get("anyOf") or schema.get("oneOf") or ()
        return " or ".join(dict.fromkeys(map(_type, either))) or "any"
    names = [kinds] if isinstance(kinds, str) else kinds
    words = [_TYPES.get(name, str(name)) for name in names]
    if names == ["array"] and "items" in schema:
        return f"list of {_type(schema['items'])}"
    return " or ".join(words)


def _value(schema: Any) -> str:
    """Return a value of this type, or its place."""
    if not isinstance(schema, dict):
        return "…"
    if schema.get("enum"):
        first = schema["enum"][0]
        return first if isinstance(first, str) else json.dumps(first)
    kind = schema.get("type", "string")
    if kind == "array":
        items = schema.get("items")
        is_text = isinstance(items, dict) and items.get("type") == "string"
        return '["…"]' if is_text else "[…]"
    return _EXAMPLES.get(kind, "…") if isinstance(kind, str) else "…"


def _quoted(text: str) -> str:
    plain = text.replace("…", "")
    return text if shlex.quote(plain) == plain else shlex.quote(text)
