"""Random schemas, and random values that a written schema takes, for properties."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

Schema = dict[str, Any]
_EFFORT = settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)


def law(drawn: st.SearchStrategy[Any]) -> Callable[[Callable[[Any], None]], Any]:
    """Hold a law for a few examples, and for many in the long form."""

    def hold(holds: Callable[[Any], None]) -> Any:
        @pytest.mark.parametrize("examples", [12, pytest.param(2_000, marks=pytest.mark.soak)])
        def test(examples: int) -> None:
            settings(_EFFORT, max_examples=examples)(given(drawn)(holds))()

        test.__doc__ = holds.__doc__
        return test

    return hold


_NAMES = st.sampled_from(["a", "b", "kind", "größe", "x-y", "filter[id]", "id"])
_TEXTS = st.sampled_from(["", "a", "b", "ab", "1", "true", "null", '{"a": 1}', "[1]", "ä🎉", " 5"])
_SCALARS = st.one_of(
    _TEXTS, st.integers(-3, 12), st.sampled_from([0.5, 2.0, -1.25]), st.booleans(), st.none()
)
_JSON = st.recursive(
    _SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=2), st.dictionaries(_NAMES, inner, max_size=2)
    ),
    max_leaves=4,
)
_SAID = st.fixed_dictionaries(
    {}, optional={"description": st.sampled_from(["Text", "More."]), "default": st.none()}
)


def json_values() -> st.SearchStrategy[Any]:
    """Any small value."""
    return _JSON


def _bounds(low: str, high: str, numbers: st.SearchStrategy[Any]) -> st.SearchStrategy[Schema]:
    return st.tuples(numbers, numbers).map(lambda two: {low: min(two), high: max(two)})


_STRINGS = st.one_of(
    st.just({}),
    _bounds("minLength", "maxLength", st.integers(0, 4)),
    st.sampled_from([{"pattern": "^[a-b]*$"}, {"pattern": "^(?!b)"}, {"format": "date-time"}]),
).map(lambda words: {"type": "string", **dict(words)})
_NUMBERS = st.builds(
    lambda kind, words: {"type": kind, **words},
    st.sampled_from(["integer", "number"]),
    st.one_of(
        st.just({}),
        _bounds("minimum", "maximum", st.integers(-2, 9)),
        st.just({"exclusiveMinimum": 0, "multipleOf": 2}),
    ),
)
_LEAVES = st.one_of(
    _STRINGS,
    _NUMBERS,
    st.sampled_from([{"type": "boolean"}, {"type": "null"}, {}, True, False]),
    st.lists(_JSON, min_size=1, max_size=4).map(lambda values: {"enum": values}),
    _JSON.map(lambda value: {"const": value}),
    st.lists(
        st.sampled_from(["string", "integer", "null", "array", "object", "boolean"]),
        min_size=1,
        max_size=3,
        unique=True,
    ).map(lambda types: {"type": types}),
    st.sampled_from(["#/$defs/n", "#/$defs/t", "#/$defs/u"]).map(lambda to: {"$ref": to}),
)


@st.composite
def _objects(draw: Any, inner: st.SearchStrategy[Any]) -> Schema:
    properties = draw(st.dictionaries(_NAMES, inner, max_size=4))
    schema: Schema = {"type": "object", "properties": properties}
    if properties and draw(st.booleans()):
        schema["required"] = draw(
            st.lists(st.sampled_from([*properties, "other"]), unique=True, min_size=1, max_size=3)
        )
    further = draw(st.sampled_from([None, False, True, "schema"]))
    if further == "schema":
        schema["additionalProperties"] = draw(inner)
    elif further is not None:
        schema["additionalProperties"] = further
    if properties and draw(st.integers(0, 5)) == 0:
        some = draw(st.sampled_from([*properties]))
        schema |= draw(
            st.sampled_from(
                [
                    {"anyOf": [{"required": [some]}, {"required": ["a"]}]},
                    {"if": {"required": [some]}, "then": {"required": ["a"]}},
                    {"not": {"required": [some]}},
                    {"dependentRequired": {some: ["a"]}},
                    {"minProperties": 1},
                    {"patternProperties": {"^x": {"type": "string"}}},
                ]
            )
        )
    return schema


def _nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    lists = st.builds(
        lambda items, words: {"type": "array", "items": items, **dict(words)},
        inner,
        st.one_of(
            st.just({}),
            st.just({"uniqueItems": True}),
            _bounds("minItems", "maxItems", st.integers(0, 3)),
        ),
    )
    tuples = st.builds(
        lambda first, rest: {"type": "array", "prefixItems": first, **rest},
        st.lists(inner, min_size=1, max_size=3),
        st.sampled_from([{}, {"items": False}, {"items": {"type": "string"}}]),
    )
    choices = st.builds(
        lambda word, branches, beside: {word: branches, **beside},
        st.sampled_from(["anyOf", "oneOf", "allOf"]),
        st.lists(inner, min_size=1, max_size=3),
        st.one_of(st.just({}), _SAID, _STRINGS, _objects(_STRINGS)),
    )
    return st.one_of(lists, tuples, choices, _objects(inner))


_ANY = st.recursive(_LEAVES, _nested, max_leaves=6)
_DEFS = {
    "n": {"type": "integer", "minimum": 1},
    "t": {
        "type": "object",
        "properties": {"v": {"type": "string"}, "kids": {"type": "array", "items": {"$ref": "#/$defs/t"}}},
        "required": ["v"],
    },
    "u": {"anyOf": [{"type": "null"}, {"type": "array", "items": {"$ref": "#/$defs/u"}}]},
}  # fmt: skip


@st.composite
def schemas(draw: Any) -> Schema:
    """The parameters of a tool."""
    root = draw(_objects(st.builds(lambda schema, said: {**schema, **said} if isinstance(schema, dict) else schema, _ANY, _SAID)))  # fmt: skip
    if draw(st.integers(0, 3)) == 0:
        word = draw(st.sampled_from(["anyOf", "oneOf", "allOf"]))
        root = {**root, word: draw(st.lists(_objects(_LEAVES), min_size=1, max_size=3))}
    return {**root, "$defs": _DEFS}


def values(schema: Any) -> st.SearchStrategy[Any]:
    """Draw values that a written schema accepts: keywords that stay for some provider, without
    conditions."""
    if not isinstance(schema, dict) or not schema:
        return _JSON
    if "enum" in schema:
        found = st.sampled_from(schema["enum"])
        return st.one_of(found, st.none()) if schema.get("nullable") else found
    for word in ("anyOf", "oneOf"):
        if word in schema:
            return st.one_of([values(branch) for branch in schema[word]])
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else list(kinds)
    if schema.get("nullable"):
        kinds.append("null")
    return st.one_of([_of(kind, schema) for kind in kinds]) if kinds else _JSON


def _of(kind: str, schema: Schema) -> st.SearchStrategy[Any]:
    match kind:
        case "string":
            if "pattern" in schema:
                return st.from_regex(schema["pattern"]).map(lambda text: text[:20])
            low = schema.get("minLength", 0)
            return st.one_of(
                _TEXTS, st.text(min_size=low, max_size=max(low, schema.get("maxLength", 8)))
            )
        case "integer" | "number":
            least = int(schema.get("minimum") or schema.get("exclusiveMinimum") or -4)
            whole = st.integers(least, max(least, int(schema.get("maximum", 12))))
            step = schema.get("multipleOf")
            whole = whole.map(lambda n: n * step) if step else whole
            return whole if kind == "integer" else st.one_of(whole, st.sampled_from([0.5, 2.0]))
        case "boolean":
            return st.booleans()
        case "null":
            return st.none()
        case "array":
            low = schema.get("minItems", 0)
            most = min(max(low, schema.get("maxItems", low + 2)), low + 2)
            first = [values(item) for item in schema.get("prefixItems", [])]
            if first:
                return st.tuples(*first).map(list)
            return st.lists(values(schema.get("items")), min_size=low, max_size=most)
    named = {name: values(item) for name, item in schema.get("properties", {}).items()}
    needed = set(schema.get("required", ()))
    return st.fixed_dictionaries(
        {name: one for name, one in named.items() if name in needed},
        optional={name: one for name, one in named.items() if name not in needed},
    )
