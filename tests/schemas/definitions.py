"""Parameters of growing nastiness, each with arguments that fit them."""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]


def of(required: tuple[str, ...] = (), /, **properties: Any) -> Schema:
    """An object of these properties."""
    schema: Schema = {"type": "object", "properties": properties}
    return {**schema, "required": list(required)} if required else schema


def _deep(levels: int) -> Schema:
    schema: Schema = {"type": "integer"}
    for level in range(levels):
        schema = {"type": "object", "properties": {f"l{level}": schema}, "required": [f"l{level}"]}
    return schema


def _deep_value(levels: int) -> Any:
    value: Any = 1
    for level in range(levels):
        value = {f"l{level}": value}
    return value


def _laughing(doublings: int) -> Schema:
    """References that double at each step: a million nodes of a hundred lines."""
    defs: Schema = {"d0": {"type": "integer"}}
    for n in range(1, doublings):
        inner = {"$ref": f"#/$defs/d{n - 1}"}
        defs[f"d{n}"] = {"type": "object", "properties": {"a": inner, "b": inner}}
    return {**of(v={"$ref": f"#/$defs/d{doublings - 1}"}), "$defs": defs}


_TREE = {
    "type": "object",
    "properties": {
        "v": {"type": "integer"},
        "kids": {"type": "array", "items": {"$ref": "#/$defs/t"}},
    },
    "required": ["v"],
    "additionalProperties": False,
}
_SHAPES = {
    "oneOf": [
        of(("kind", "r"), kind={"const": "circle"}, r={"type": "number", "exclusiveMinimum": 0}),
        of(("kind", "w", "h"), kind={"const": "box"}, w={"type": "number"}, h={"type": "number"}),
    ]
}
_LONG = "n" * 200

NASTY: dict[str, tuple[Schema, Any]] = {
    "nothing": ({}, {}),
    "object only": ({"type": "object"}, {}),
    "empty and closed": ({"type": "object", "properties": {}, "additionalProperties": False}, {}),
    "no type, required": ({"properties": {"a": {"type": "string"}}, "required": ["a"]}, {"a": "x"}),
    "required without property": ({"type": "object", "required": ["a"]}, {"a": 1}),
    "type lists": (
        of(a={"type": ["string", "null"]}, b={"type": ["integer", "string", "null"]}),
        {},
    ),
    "all types": (
        of(a={"type": ["object", "array", "string", "number", "integer", "boolean", "null"]}),
        {"a": [1]},
    ),
    "anyOf with siblings": (
        of(
            b={
                "description": "x",
                "default": "",
                "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}],
            }
        ),
        {"b": ["x"]},
    ),
    "empty schemas": (
        of(a={}, b={"description": "Whatever."}, c={"items": {}}),
        {"a": None, "b": 1},
    ),
    "boolean schemas": (of(("a",), a=True, b=False), {"a": {"x": 1}}),
    "const of each type": (
        of(
            ("a", "e"),
            a={"const": "x"},
            b={"const": 1},
            c={"const": None},
            d={"const": {"k": [1]}},
            e={"const": True},
        ),
        {"a": "x", "b": 1, "d": {"k": [1]}, "e": True},
    ),
    "enum of mixed types": (
        of(("a",), a={"enum": ["x", 1, 1.5, True, None, {"k": 1}, [2]]}, b={"enum": [1, "1", ""]}),
        {"a": {"k": 1}, "b": "1"},
    ),
    "typed enum with others": (
        of(
            a={"type": "string", "enum": ["a", 3, None]},
            b={"type": ["integer", "null"], "enum": [1, 2, None]},
        ),
        {"a": "a", "b": None},
    ),
    "enum of null, and of nothing else": (of(("a",), a={"enum": [None]}), {"a": None}),
    "huge enum": (
        of(a={"type": "string", "enum": [f"value-{n}" for n in range(3000)]}),
        {"a": "value-7"},
    ),
    "many long enums": (
        of(**{f"p{n}": {"enum": [f"{n}-{v}" * 10 for v in range(120)]} for n in range(12)}),
        {"p3": "3-5" * 10},
    ),
    "limits": (
        of(
            n={"type": "integer", "minimum": 1, "maximum": 10, "multipleOf": 2},
            x={"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1.5},
            s={"type": "string", "minLength": 1, "maxLength": 5, "pattern": "^[a-z]+$"},
            l={
                "type": "array",
                "items": {"type": "string"},
                "minItems": 1,
                "maxItems": 3,
                "uniqueItems": True,
            },
        ),
        {"n": 2, "x": 0.5, "s": "ab", "l": ["a"]},
    ),
    "patterns that look around": (
        of(
            a={"type": "string", "pattern": "^(?!x)(?=a).*$"},
            b={"type": "string", "pattern": r"(a)\1"},
        ),
        {"a": "ab"},
    ),
    "formats": (
        of(
            a={"type": "string", "format": "date-time"},
            b={"type": "string", "format": "uri"},
            c={"type": "integer", "format": "int64"},
            d={"type": "number", "format": "uuid"},
            e={"format": "email"},
        ),
        {"a": "2020-01-01T00:00:00Z", "c": 1},
    ),
    "array without items": (of(("tags",), tags={"type": "array"}), {"tags": ["a"]}),
    "array of nothing": (of(l={"type": "array", "items": False}), {"l": []}),
    "tuple": (
        of(
            p={
                "type": "array",
                "prefixItems": [{"type": "number"}, {"type": "string"}],
                "items": False,
                "minItems": 2,
            }
        ),
        {"p": [1, "a"]},
    ),
    "contains": (
        of(
            l={"type": "array", "contains": {"type": "integer"}, "minContains": 1, "maxContains": 2}
        ),
        {"l": [1, "a"]},
    ),
    "maps": (
        of(
            any={"type": "object"},
            ints={"type": "object", "additionalProperties": {"type": "integer"}},
            named={
                "type": "object",
                "patternProperties": {"^x-": {"type": "string"}},
                "additionalProperties": False,
            },
            some={"type": "object", "propertyNames": {"pattern": "^[a-z]+$"}, "minProperties": 1},
        ),
        {"any": {"k": [1]}, "ints": {"a": 1}, "named": {"x-a": "b"}, "some": {"a": 1}},
    ),
    "reference": (
        {**of(v={"$ref": "#/$defs/n"}), "$defs": {"n": {"type": "integer", "minimum": 3}}},
        {"v": 3},
    ),
    "reference with siblings": (
        {
            **of(v={"$ref": "#/definitions/n", "description": "Mine.", "default": 4, "maximum": 9}),
            "definitions": {"n": {"type": "integer", "description": "Theirs."}},
        },
        {"v": 5},
    ),
    "recursive reference": (
        {**of(("t",), t={"$ref": "#/$defs/t"}), "$defs": {"t": _TREE}},
        {"t": {"v": 1, "kids": [{"v": 2}]}},
    ),
    "the whole within itself": (
        {"type": "object", "properties": {"v": {"type": "string"}, "next": {"$ref": "#"}}},
        {"v": "a", "next": {"v": "b", "next": {}}},
    ),
    "two that need each other": (
        {
            **of(a={"$ref": "#/$defs/a"}),
            "$defs": {
                "a": {"type": ["object", "null"], "properties": {"b": {"$ref": "#/$defs/b"}}},
                "b": {
                    "anyOf": [{"type": "null"}, {"type": "array", "items": {"$ref": "#/$defs/a"}}]
                },
            },
        },
        {"a": {"b": [{"b": None}]}},
    ),
    "references that double": (_laughing(24), {"v": {"a": {}, "b": {}}}),
    "a choice of shapes": (of(("s",), s=_SHAPES), {"s": {"kind": "box", "w": 1, "h": 2}}),
    "nested choices": (
        of(
            v={
                "oneOf": [
                    {
                        "oneOf": [
                            {"type": "string"},
                            {"anyOf": [{"type": "integer"}, {"type": "null"}]},
                        ]
                    },
                    {"type": "array", "items": {"oneOf": [_SHAPES, {"type": "boolean"}]}},
                ]
            }
        ),
        {"v": [{"kind": "circle", "r": 1}, True]},
    ),
    "a choice at the root": (
        {
            "type": "object",
            "properties": {
                "argv": {"type": "array", "items": {"type": "string"}},
                "command": {"type": "string"},
            },
            "oneOf": [{"required": ["argv"]}, {"required": ["command"]}],
        },
        {"command": "x"},
    ),
    "shapes at the root": (_SHAPES, {"kind": "circle", "r": 2}),
    "all of it": (
        {
            "allOf": [
                of(("a",), a={"type": "integer", "minimum": 1}),
                of(a={"maximum": 5}, b={"type": "string", "pattern": "^x"}),
                of(b={"pattern": "y$"}),
            ]
        },
        {"a": 3, "b": "xy"},
    ),
    "conditions": (
        {
            **of(a={"type": "integer"}, b={"type": "string"}),
            "if": {"properties": {"a": {"const": 1}}, "required": ["a"]},
            "then": {"required": ["b"], "properties": {"c": {"type": "boolean"}}},
            "else": {"not": {"required": ["b"]}},
            "dependentRequired": {"b": ["a"]},
            "dependentSchemas": {"a": {"properties": {"d": {"type": "null"}}}},
        },
        {"a": 1, "b": "x", "c": True, "d": None},
    ),
    "conditions below": (
        of(
            o={
                **of(x={"type": "integer"}, y={"type": "integer"}),
                "not": {"required": ["x", "y"]},
                "if": {"required": ["x"]},
                "then": {"properties": {"x": {"minimum": 5}}},
            }
        ),
        {"o": {"x": 6}},
    ),
    "names of every kind": (
        of(
            ("filter[id]", "größe"),
            **{
                "filter[id]": {"type": "string"},
                "größe": {"type": "integer"},
                "$top": {"type": "integer"},
                "dry-run": {"type": "boolean"},
                "dry_run": {"type": "boolean"},
                "1st": {"type": "string"},
                "": {"type": "string"},
                "a b": {"type": "string"},
                "properties": {"type": "string"},
                "enum": {"type": "string"},
                _LONG + "1": {"type": "string"},
                _LONG + "2": {"type": "string"},
            },
        ),
        {"filter[id]": "x", "größe": 3, "dry-run": True, _LONG + "2": "z"},
    ),
    "unicode": (
        of(
            a={
                "type": "string",
                "description": "日本語 🎉 \u202e‮",
                "enum": ["ä", "日本", "🎉"],
                "default": "ä",
            }
        ),
        {"a": "🎉"},
    ),
    "deep": (of(v=_deep(14)), {"v": _deep_value(14)}),
    "deeper": (of(v=_deep(60)), {"v": _deep_value(60)}),
    "deep lists": (
        of(
            v={
                "type": "array",
                "items": {"type": "array", "items": {"type": "array", "items": _SHAPES}},
            }
        ),
        {"v": [[[{"kind": "circle", "r": 1}]]]},
    ),
    "long texts": (
        of(
            a={
                "type": "string",
                "description": "Long. " * 3000,
                "default": "d" * 5000,
                "examples": ["e" * 5000],
            }
        ),
        {"a": "x"},
    ),
    "words of other worlds": (
        {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "$id": "https://example.org/x",
            "$comment": "no",
            "title": "T",
            "x-own": {"type": "nonsense"},
            "type": "object",
            "properties": {
                "a": {
                    "type": "string",
                    "readOnly": True,
                    "deprecated": True,
                    "contentEncoding": "base64",
                    "xml": {},
                },
            },
            "unevaluatedProperties": False,
        },
        {"a": "x"},
    ),
    "nothing fits a property": (of(a={"allOf": [{"type": "string"}, {"type": "integer"}]}), {}),
}
"""By name: the parameters, and arguments that fit them."""

UNREADABLE: dict[str, Any] = {
    "draft 4": of(n={"type": "integer", "minimum": 0, "exclusiveMinimum": True}),
    "draft 7 tuple": of(
        p={"type": "array", "items": [{"type": "string"}], "additionalItems": False}
    ),
    "unknown type": of(a={"type": "text"}),
    "upper case": {"type": "OBJECT", "properties": {"a": {"type": "STRING", "nullable": True}}},
    "properties as a list": {"type": "object", "properties": ["a"]},
    "required as a flag": of(a={"type": "string", "required": True}),
    "enum as a text": of(a={"enum": "x"}),
    "numbers as texts": of(
        a={"type": "integer", "minimum": "1", "maxLength": -3, "multipleOf": float("nan")}
    ),
    "references to nowhere": of(
        a={"$ref": "#/nowhere"}, b={"$ref": "other.json"}, c={"$ref": "#anchor"}
    ),
    "a reference to itself": of(a={"$ref": "#/properties/a"}),
    "choices of nothing": of(a={"anyOf": []}, b={"oneOf": [False]}, c={"allOf": "x"}),
    "not a schema": of(a=3, b="x", c=[{}], d=None),
    "a list": [],
    "a text": "x",
    "true": True,
}
"""What a validator would not take, but a server may send."""
