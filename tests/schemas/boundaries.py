"""Parameters on both sides of each limit of a sentence, and arguments on both sides of each limit of a reply."""

from __future__ import annotations

from typing import Any

from .definitions import Schema, of

_TEXT: Schema = {"type": "string"}
_WORDS = "one word after another, and a sentence. " * 200


def _enum(count: int, width: int = 1) -> list[str]:
    return [f"{at:0{width}}" for at in range(count)]


def _nested(levels: int) -> Schema:
    form: Schema = {"type": "integer"}
    for level in range(levels):
        form = {"type": "object", "properties": {f"l{level}": form}, "required": [f"l{level}"]}
    return form


def _unlike(count: int) -> Schema:
    """Parts that cannot be joined, as each is a choice."""
    choices = [{"anyOf": [{"minLength": at + 1}, {"const": f"{at}"}]} for at in range(count)]
    return {"type": "string", "not": {"allOf": choices}, "allOf": choices}


def _each() -> dict[str, Schema]:
    forms: dict[str, Schema] = {
        "nothing more": {"type": "array", "prefixItems": [_TEXT], "unevaluatedItems": False},
        "more of a kind": {"type": "array", "prefixItems": [_TEXT], "unevaluatedItems": _TEXT},
        "otherwise": {"if": {"const": 1}, "then": {"const": 2}, "else": {"const": 3}},
        "only otherwise": {"if": {"const": 1}, "else": {"const": 3}},
        "items of anything": {"not": {"type": "array", "items": {"title": "T"}}},
        "items of nothing": {"not": {"type": "array", "items": False}},
        "nested choices": {"not": {"oneOf": [{"anyOf": [{"const": 1}, _TEXT]}, {"maximum": 2}]}},
        "one choice": {"not": {"anyOf": [{"type": "object", "required": ["a"]}]}},
        "some of a choice": {"type": "object", "propertyNames": {"anyOf": [{"maxLength": 2}, {"const": "abc"}]}},
        "one of a choice": {"type": "object", "propertyNames": {"oneOf": [{"maxLength": 2}, {"minLength": 4}]}},
        "at most": {"type": "array", "contains": {"const": 1}, "maxContains": 3},
        "exactly": {"type": "array", "contains": {"const": 1}, "minContains": 2, "maxContains": 2},
        "empty": {"type": "array", "items": _TEXT, "minItems": 0},
        "not empty": {"type": "object", "minProperties": 1, "additionalProperties": {"type": "integer"}},
        "thousands": {"type": "string", "minLength": 1000, "maxLength": 20_000},
        "thousands alone": {"type": "string", "minLength": 1000},
        "at most thousands": {"type": "string", "maxLength": 20_000},
        "bounds": {"type": "integer", "minimum": -1, "exclusiveMaximum": 9},
        "upper bound": {"type": "integer", "maximum": 7},
        "examples": {"type": "string", "examples": ["a", "b", "c", "d"]},
        "a broken pattern": {"type": "string", "pattern": "("},
        "no value but empty": {"enum": [""]},
        "empty and another": {"enum": ["", "x"]},
        "types of numbers": {"enum": [1, 2.5, 3]},
        "a number and a text": {"enum": [1, "1"]},
        "null or a choice": {"anyOf": [{"type": "null"}, {"const": 1}, {"type": "object", "properties": {"a": _TEXT}}]},
        "a described choice": {"anyOf": [{"const": 1}, {"type": "string", "description": "T."}], "description": "D"},
    }  # fmt: skip
    for count in (20, 21):
        forms[f"{count} excluded"] = {"not": {"enum": _enum(count)}}
        forms[f"{count} names"] = {"not": {"required": _enum(count)}}
    for count in (10, 11):
        forms[f"{count} with others"] = {
            "type": "object",
            "dependentRequired": {name: ["z"] for name in _enum(count, 2)},
        }
        forms[f"{count} in order"] = {"type": "array", "prefixItems": [_TEXT] * count}
        forms[f"{count} in a choice"] = {"not": {"anyOf": [{"const": at} for at in range(count)]}}
        forms[f"{count} properties"] = {
            "not": of(tuple(_enum(count)), **dict.fromkeys(_enum(count + 3), _TEXT))
        }
        forms[f"{count} perhaps"] = {"not": of(**dict.fromkeys(_enum(count), _TEXT))}
    for count in (5, 6):
        forms[f"{count} parts"] = _unlike(count)
        forms[f"{count} patterns"] = {
            "patternProperties": {f"^{name}": _TEXT for name in _enum(count)}
        }
        forms[f"{count} levels"] = {"not": _nested(count)}
        forms[f"{count} schemas"] = {
            "type": "object",
            "dependentSchemas": {name: {"required": ["z"]} for name in _enum(count)},
        }
    for length in (59, 60, 61, 62):
        forms[f"{length} of a text"] = {
            "additionalProperties": {**_TEXT, "description": "t" * length}
        }
        forms[f"{length} of a format"] = {"type": "string", "format": "f" * length}
        forms[f"{length} of a value"] = {"not": {"enum": ["v" * (length - 2), "w"]}}
    for length in (119, 120, 121):
        forms[f"{length} of a form"] = {"additionalProperties": {"const": "c" * (length - 2)}}
    for length in (199, 200, 201):
        forms[f"{length} of a default"] = {"type": "string", "default": "d" * (length - 2)}
        forms[f"{length} of a pattern"] = {"type": "string", "pattern": f"(?=){'p' * (length - 6)}"}
    for length in (399, 400, 401):
        value = [{"const": "n" * 150}, {"const": "n" * 149}, {"const": "n" * (length - 316)}]
        forms[f"{length} of a phrase"] = {"type": "object", "not": {"anyOf": value}}
    for length in (4_095, 4_096, 4_097):
        forms[f"{length} of a description"] = {**_TEXT, "description": _WORDS[:length]}
        forms[f"{length} in one word"] = {**_TEXT, "description": "d" * length}
        forms[f"{length} in lines"] = {
            **_TEXT,
            "description": f"{'d' * 2_725}\n{'e' * (length - 2_726)}",
        }
        forms[f"{length} in early lines"] = {
            **_TEXT,
            "description": f"{'d' * 2_700}\n\n{'e' * (length - 2_702)}",
        }
        forms[f"{length} with a note"] = {
            **_TEXT,
            "default": 1,
            "description": _WORDS[: length - 13],
        }
    return forms


FORMS: dict[str, Schema] = _each()
"""Forms of the parameter `a`."""


def _roots() -> dict[str, Schema]:
    roots: dict[str, Schema] = {}
    for count in (12, 13):
        branches = [{"required": [f"n{at}", "m"]} for at in range(count)]
        names = dict.fromkeys([*(f"n{at}" for at in range(count)), "m"], _TEXT)
        roots[f"{count} forms"] = {**of(**names), "anyOf": branches}
        inner: Schema = {"anyOf": [of(("a",), a={"const": 1}), of(("b",), b=_TEXT, c=_TEXT)]}
        for _ in range(count):
            inner = {"anyOf": [inner, of(("z",), z=_TEXT)]}
        roots[f"{count} choices within"] = inner
    for length in (299, 300, 301):
        name = "f" * (length - 9)
        roots[f"{length} of a form"] = {
            "oneOf": [of((name, "b"), **{name: _TEXT, "b": _TEXT}), of(("c",), c=_TEXT)]
        }
    roots["anchors"] = {
        **of(a={"$ref": "#within"}, b={"$ref": "#branch"}, c={"$ref": "#free"}, d={"$ref": "#"}),
        "$defs": {
            "x": {"type": "array", "items": {"$anchor": "within", "type": "integer"}},
            "y": {"anyOf": [{"$dynamicAnchor": "branch", "type": "string"}, {"$anchor": 5}]},
        },
    }
    roots["8001 properties"] = of(**dict.fromkeys(_enum(8_001), True))
    for count in (249, 250, 251):
        for width in (59, 60, 61):
            roots[f"{count} values of {width}"] = of(a={"enum": _enum(count, width)})
    for count in (999, 1_000, 1_001):
        roots[f"{count} values"] = of(a={"enum": _enum(count)})
    for count in (10, 11, 50, 51):
        roots[f"100 times {count}"] = of(**{f"a{at}": {"enum": _enum(count)} for at in range(100)})
    for count in (119_999, 120_000, 120_001):
        roots[f"{count} in names"] = of(**{"n" * count: _TEXT})
    for levels in (9, 10, 11, 31, 32, 33):
        roots[f"{levels} levels"] = of(a=_nested(levels))
    return roots


ROOTS: dict[str, Schema] = _roots()

_NAMES = of(**dict.fromkeys([f"name_{at}" for at in range(13)], _TEXT))
_CLOSED = {**_NAMES, "additionalProperties": False}


def _faults() -> dict[str, tuple[Schema, Any]]:
    faults: dict[str, tuple[Schema, Any]] = {
        "neither": ({"anyOf": [{"required": ["a"]}, {"required": ["b"]}]}, {}),
        "both": ({"oneOf": [{"required": ["a"]}, {"required": ["b"]}]}, {"a": 1, "b": 2}),
        "two forms": (of(a={"oneOf": [{"minimum": 1}, {"minimum": 2}]}), {"a": 3}),
        "a form of its type": (of(a={"anyOf": [{"type": "integer", "minimum": 5}, {"type": "string"}]}), {"a": 1}),
        "a form of its kind": (
            of(a={"oneOf": [of(("k", "x"), k={"const": "p"}), of(("k", "y"), k={"const": "q"})]}),
            {"a": {"k": "q"}},
        ),
        "values and types": (of(a={"anyOf": [{"const": 1}, {"enum": ["x", "y"]}, {"type": "boolean"}]}), {"a": []}),
        "a near name": (_CLOSED, {"nam_1": "x"}),
        "twelve names": (_CLOSED, {"q": 1}),
        "five near names": (_CLOSED, {f"nam_{at}": "x" for at in range(7)}),
        "a hard pattern": (of(a={"type": "string", "pattern": "^(a+)+$"}), {"a": "a" * 60 + "b"}),
    }  # fmt: skip
    for count in (50, 51, 52, 53):
        faults[f"{count} unknown"] = (_CLOSED, {f"{at}": 1 for at in range(count)})
    for count in (100, 101):
        names = [f"q{at:03}" for at in range(count - 1)]
        form = of(**dict.fromkeys([*names, "colour"], _TEXT))
        faults[f"{count} compared"] = ({**form, "additionalProperties": False}, {"color": 1})
    for length in (119, 120, 121):
        form = of(**{"n" * length: _TEXT})
        faults[f"{length} of a name"] = (
            {**form, "additionalProperties": False},
            {"n" * length + "m": 1},
        )
        faults[f"{length} of a path"] = (form, {"n" * length: 1})
        faults[f"{length} of a near name"] = (
            {**form, "additionalProperties": False},
            {"n" * (length - 1) + "m": 1},
        )
    for length in (56, 57, 58, 59, 60, 61, 62):
        faults[f"{length} of a value"] = (of(a={"enum": [1, 2]}), {"a": "v" * length})
        faults[f"{length} of a list"] = (of(a={"enum": [1, 2]}), {"a": ["v" * (length - 4)]})
    for length in (396, 397, 398, 399, 400, 401, 402):
        faults[f"{length} of values"] = (of(a={"enum": ["v" * (length - 8), "w"]}), {"a": "x"})
        faults[f"{length} of short values"] = (
            of(a={"enum": [*_enum(40, 6), "v" * (length - 400)]}),
            {"a": "00004"},
        )
    for length in (77, 78, 79, 80, 81):
        faults[f"{length} of one of many"] = (
            of(a={"enum": ["v" * length, *_enum(600)]}),
            {"a": "x"},
        )
    for count in (499, 500, 501):
        faults[f"{count} values"] = (of(a={"enum": list(range(count))}), {"a": "x"})
        faults[f"{count} in a list"] = (
            of(a={"type": "array", "items": {"type": "integer"}}),
            {"a": [*range(count), "x"]},
        )
    for count in (63, 64, 65):
        defaults = {f"d{at}": {"default": "x"} for at in range(count)}
        faults[f"{count} defaults"] = ({**of(**defaults), "maxProperties": count - 1}, {})
    for depth in (3, 4, 5):
        choice: Schema = {"type": "integer", "minimum": 5}
        for _ in range(depth):
            choice = {"anyOf": [choice, {"type": "string"}]}
        faults[f"{depth} choices"] = (of(a=choice), {"a": 1})
    return faults


FAULTS: dict[str, tuple[Schema, Any]] = _faults()
