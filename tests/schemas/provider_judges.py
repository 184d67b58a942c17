"""Judges of tools for a provider, by its documentation alone. Each judge is the provider's page
(named in the head of `haftd.schemas`) as code, stricter than the provider where the page is
open, and returns its objections, each with its path."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import msgspec

Refusals = Iterator[str]
_LOOKING = re.compile(r"\(\?(=|!|<=|<!)|\\[1-9]|\\p|\\P")


def refusals(provider: str, name: str, description: str, parameters: dict[str, Any]) -> list[str]:
    """Return the provider's objections to the tool; empty when accepted."""
    if not description:
        return ["description: missing"]
    try:
        msgspec.json.encode(parameters)
    except (TypeError, ValueError, RecursionError) as error:
        return [f"not JSON: {error}"]
    return list(JUDGES[provider](name, description, parameters))


def _name(name: str, pattern: str) -> Refusals:
    if not re.fullmatch(pattern, name):
        yield f"name: {name!r} does not match {pattern}"


def _draft_2020(schema: Any) -> Refusals:
    # The same parameters are offered to several providers and in many lists.
    yield from _draft_2020_of(msgspec.json.encode(schema))


@functools.cache
def _draft_2020_of(schema: bytes) -> tuple[str, ...]:
    try:
        jsonschema.Draft202012Validator.check_schema(msgspec.json.decode(schema))
    except jsonschema.SchemaError as error:
        return (f"not of draft 2020-12: {error.message[:200]}",)
    return ()


def _nodes(schema: Any, path: str = "$") -> Iterator[tuple[str, dict[str, Any]]]:
    """All objects in a schema that are schemas, by the words that hold some."""
    if not isinstance(schema, dict):
        return
    yield path, schema
    for word in ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas"):
        for name, inner in schema.get(word, {}).items():
            yield from _nodes(inner, f"{path}.{word}[{name!r}]")
    for word in ("anyOf", "oneOf", "allOf", "prefixItems"):
        for at, inner in enumerate(schema.get(word, ())):
            yield from _nodes(inner, f"{path}.{word}[{at}]")
    for word in ("items", "not", "if", "then", "else", "additionalProperties", "contains"):
        yield from _nodes(schema.get(word), f"{path}.{word}")


# OpenAI: strict mode.

_OPENAI_WORDS = {
    "string": {"pattern", "format"},
    "number": {"multipleOf", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum"},
    "array": {"items", "minItems", "maxItems"},
    "object": {"properties", "required", "additionalProperties"},
    "boolean": set(),
    "null": set(),
}
_OPENAI_WORDS["integer"] = _OPENAI_WORDS["number"]
_OPENAI_FORMATS = (
    "date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid",
)  # fmt: skip
_VALUES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "number": (int, float),
    "integer": (int,),
    "boolean": (bool,),
    "null": (type(None),),
}


def _openai(name: str, description: str, parameters: dict[str, Any]) -> Refusals:
    yield from _name(name, r"[a-zA-Z0-9_-]{1,64}")
    if len(description) > 1024:
        yield f"description: {len(description)} characters"
    for word in ("oneOf", "anyOf", "allOf", "enum", "const", "not"):
        if word in parameters:
            yield f"$: {word} at the top level"
    if parameters.get("type") != "object":
        yield "$: the type is not object"
    yield from _openai_node(parameters, "$", 1)
    properties = text = values = 0
    for path, node in _nodes(parameters):
        properties += len(node.get("properties", ()))
        text += sum(map(len, node.get("properties", ())))
        enum = node.get("enum", [])
        values += len(enum)
        length = sum(len(value) for value in enum if isinstance(value, str))
        text += length
        if len(enum) > 250 and length > 15_000:
            yield f"{path}: a long enum"
    if properties > 5000:
        yield f"{properties} properties"
    if values > 1000:
        yield f"{values} values"
    if text > 120_000:
        yield f"{text} characters"


def _openai_node(node: Any, path: str, level: int) -> Refusals:
    if not isinstance(node, dict):
        yield f"{path}: not an object"
        return
    if "anyOf" in node:
        if set(node) - {"anyOf", "description"} or not node["anyOf"]:
            yield f"{path}: anyOf beside {sorted(set(node) - {'anyOf'})}"
        for at, branch in enumerate(node["anyOf"]):
            yield from _openai_node(branch, f"{path}.anyOf[{at}]", level)
        return
    types = node.get("type")
    types = types if isinstance(types, list) else [types]
    if (len(types) == 2 and types[1] != "null") or len(types) > 2 or not types:
        yield f"{path}: type {types}"
    kind = types[0]
    if kind not in _OPENAI_WORDS:
        yield f"{path}: type {kind!r}"
        return
    unknown = set(node) - _OPENAI_WORDS[kind] - {"type", "description", "enum"}
    if unknown:
        yield f"{path}: {sorted(unknown)} is not permitted"
    if "enum" in node:
        if not node["enum"] or kind in ("object", "array"):
            yield f"{path}: enum of {kind}"
        for value in node["enum"]:
            if type(value) not in (type_ for each in types for type_ in _VALUES.get(each, ())):
                yield f"{path}: enum value {value!r} is no {types}"
    if node.get("format", "date") not in _OPENAI_FORMATS:
        yield f"{path}: format {node['format']}"
    if "pattern" in node and _LOOKING.search(node["pattern"]):
        yield f"{path}: regex lookaround is not supported"
    if kind in ("object", "array") and level > 10:
        yield f"{path}: more than 10 levels"
    if kind == "object":
        if node.get("additionalProperties") is not False:
            yield f"{path}: additionalProperties is not false"
        if not isinstance(node.get("properties"), dict):
            yield f"{path}: no properties"
            return
        if sorted(node.get("required", [None])) != sorted(node["properties"]):
            yield f"{path}: required is not all properties"
        for name, inner in node["properties"].items():
            yield from _openai_node(inner, f"{path}.{name}", level + 1)
    if kind == "array":
        yield from _openai_node(node.get("items"), f"{path}[]", level + 1)


# Anthropic: JSON Schema 2020-12 without some things.


def _anthropic(name: str, description: str, parameters: dict[str, Any]) -> Refusals:
    yield from _name(name, r"[a-zA-Z0-9_-]{1,64}")
    yield from _draft_2020(parameters)
    if parameters.get("type") != "object":
        yield "input_schema.type: not object"
    for word in ("oneOf", "anyOf", "allOf"):
        if word in parameters:
            yield f"input_schema does not support {word} at the top level"
    for path, node in _nodes(parameters):
        if "$ref" in node or "$defs" in node or "definitions" in node:
            yield f"{path}: references"
        for key in node.get("properties", ()):
            if not re.fullmatch(r"[a-zA-Z0-9_.-]{1,64}", key):
                yield f"{path}: property key {key!r}"


# Google: the fields of Schema.

_GOOGLE_FIELDS = {
    "type", "format", "title", "description", "nullable", "enum", "maxItems", "minItems",
    "properties", "required", "minProperties", "maxProperties", "minLength", "maxLength", "pattern",
    "example", "anyOf", "propertyOrdering", "default", "items", "minimum", "maximum",
}  # fmt: skip
_GOOGLE_OF = {
    "string": {"format", "enum", "minLength", "maxLength", "pattern"},
    "number": {"format", "minimum", "maximum"},
    "integer": {"format", "minimum", "maximum"},
    "boolean": set(),
    "array": {"items", "minItems", "maxItems"},
    "object": {"properties", "required", "minProperties", "maxProperties"},
}
_GOOGLE_FORMATS = {
    "string": {"date-time", "enum"},
    "number": {"float", "double"},
    "integer": {"int32", "int64"},
}


def _google(name: str, description: str, parameters: dict[str, Any]) -> Refusals:
    yield from _name(name, r"[a-zA-Z_][a-zA-Z0-9_.-]{0,63}")
    if parameters.get("type") != "object":
        yield "parameters: not an object"
    yield from _google_node(parameters, "$")


def _google_node(node: Any, path: str) -> Refusals:
    if not isinstance(node, dict):
        yield f"{path}: not a Schema"
        return
    if unknown := set(node) - _GOOGLE_FIELDS:
        yield f"{path}: unknown name {sorted(unknown)}"
    if "anyOf" in node:
        if set(node) != {"anyOf"} or not node["anyOf"]:
            yield f"{path}: any_of must be the only field set"
        for at, branch in enumerate(node["anyOf"]):
            yield from _google_node(branch, f"{path}.anyOf[{at}]")
        return
    kind = node.get("type")
    if not isinstance(kind, str) or kind not in _GOOGLE_OF:
        yield f"{path}: type {kind!r}"
        return
    wrong = set(node) - _GOOGLE_OF[kind] - {"type", "description", "nullable", "title"}
    if wrong:
        yield f"{path}: {sorted(wrong)} of {kind}"
    if not isinstance(node.get("nullable", True), bool):
        yield f"{path}: nullable"
    if "format" in node and node["format"] not in _GOOGLE_FORMATS.get(kind, ()):
        yield f"{path}: format {node['format']} of {kind}"
    for word in (
        "minItems",
        "maxItems",
        "minLength",
        "maxLength",
        "minProperties",
        "maxProperties",
    ):
        if type(node.get(word, 0)) is not int:
            yield f"{path}: {word} is no int64"
    if "enum" in node and (
        not node["enum"] or not all(isinstance(v, str) and v for v in node["enum"])
    ):
        yield f"{path}: enum {node['enum']}"
    if kind == "array":
        yield from _google_node(node.get("items"), f"{path}[]")
    if kind == "object":
        if not isinstance(node.get("properties"), dict):
            yield f"{path}: no properties"
            return
        for key in node.get("required", ()):
            if key not in node["properties"]:
                yield f"{path}: required {key} is not defined"
        for key, inner in node["properties"].items():
            if not re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_]{0,63}", key):
                yield f"{path}: parameter name {key!r}"
            yield from _google_node(inner, f"{path}.{key}")


# Ollama: its types must decode the schema without loss.


class _Property(msgspec.Struct, forbid_unknown_fields=True):
    any_of: list[_Property] | msgspec.UnsetType = msgspec.field(name="anyOf", default=msgspec.UNSET)
    type: str | list[str] = ""
    items: _Property | None = None
    description: str = ""
    enum: list[Any] | msgspec.UnsetType = msgspec.UNSET
    properties: dict[str, _Property] = {}
    required: list[str] = []


class _Parameters(msgspec.Struct, forbid_unknown_fields=True):
    type: str
    properties: dict[str, _Property]
    required: list[str] = []


def _ollama(name: str, description: str, parameters: dict[str, Any]) -> Refusals:
    yield from _name(name, r"[a-zA-Z0-9_-]{1,64}")
    if parameters.get("type") != "object":
        yield "parameters: not an object"
    try:
        msgspec.convert(parameters, _Parameters)
    except msgspec.ValidationError as error:
        yield str(error)
        return
    for path, node in _nodes(parameters):
        if "type" not in node and not node.get("anyOf"):
            yield f"{path}: no type"
        if node.get("type") == "array" and "items" not in node:
            yield f"{path}: no items"


# MCP: any schema of the default draft whose root is an object, and a valid name.


def _mcp(name: str, description: str, parameters: dict[str, Any]) -> Refusals:
    yield from _name(name, r"[A-Za-z0-9_.-]{1,128}")
    yield from _draft_2020(parameters)
    if parameters.get("type") != "object":
        yield "inputSchema.type: not object"


JUDGES: dict[str, Callable[[str, str, dict[str, Any]], Refusals]] = {
    "openai": _openai,
    "anthropic": _anthropic,
    "google": _google,
    "ollama": _ollama,
    "mcp": _mcp,
}
