"""Parsing, joining and writing change no meaning: a schema and its rewritten form accept the
same values, apart from provider keywords."""

from __future__ import annotations

import copy
from typing import Any

import jsonschema_rs
from hypothesis import strategies as st

from haftd.schemas.dialects import PLAIN
from haftd.schemas.intersection import merge
from haftd.schemas.normalization import UnsupportedSchema, normalize
from haftd.schemas.object_root import flatten
from haftd.schemas.passthrough import PassThrough

from .definitions import NASTY
from .random_schemas import json_values, law, schemas, values


def written(node: Any) -> Any:
    keeper = PassThrough(PLAIN)
    found = keeper.write(node)
    return found if keeper.lossless else None


def without_patterns(schema: Any) -> Any:
    """Without pattern properties: beside closed objects they are joined only roughly."""
    if isinstance(schema, dict):
        return {k: without_patterns(v) for k, v in schema.items() if k != "patternProperties"}
    return [without_patterns(item) for item in schema] if isinstance(schema, list) else schema


@law(st.data())
def test_a_parsed_and_written_schema_means_the_same(data: st.DataObject) -> None:
    schema = data.draw(schemas())
    value = data.draw(st.one_of(values(schema), json_values()))
    again = written(normalize(schema))
    if again is not None:
        assert jsonschema_rs.is_valid(again, value) == jsonschema_rs.is_valid(schema, value)


@law(st.data())
def test_a_value_of_two_schemas_fits_their_join(data: st.DataObject) -> None:
    one, other = (without_patterns(data.draw(schemas())) for _ in range(2))
    value = data.draw(st.one_of(values(one), values(other), json_values()))
    first, second = normalize(one), normalize(other)
    before = copy.deepcopy((first, second))
    joined = written(merge(first, second))
    assert (first, second) == before, "what is joined is not changed"
    if joined is not None:
        both = all(jsonschema_rs.is_valid(each, value) for each in (one, other))
        assert jsonschema_rs.is_valid(joined, value) == both


def is_named(schema: dict[str, Any], value: dict[str, Any]) -> bool:
    """Return true if all names of the value are those of the root or of a fitting branch."""
    branches = schema.get("anyOf", schema.get("oneOf"))
    if branches is None:
        return True
    live = [
        branch
        for branch in branches
        if jsonschema_rs.is_valid({**branch, "$defs": schema["$defs"]}, value)
    ]
    own = set(schema["properties"])
    return any(value.keys() <= own | set(branch.get("properties", ())) for branch in live)


@law(st.data())
def test_a_flat_object_accepts_earlier_values(data: st.DataObject) -> None:
    """Except a name that the fitting branch does not declare: another branch has its form."""
    schema = data.draw(schemas())
    value = data.draw(values(schema))
    node = normalize(schema)
    before = copy.deepcopy(node)
    try:
        flat, notes = flatten(node)
    except UnsupportedSchema:
        assert not jsonschema_rs.is_valid(schema, value)
        return
    assert node == before
    assert all(notes)
    again = written(flat)
    if again is not None and jsonschema_rs.is_valid(schema, value) and is_named(schema, value):
        assert jsonschema_rs.is_valid(again, value)


def test_difficult_schemas_without_recursion_mean_the_same() -> None:
    checked = 0
    for name, (schema, args) in NASTY.items():
        again = written(normalize(schema))
        if again is not None:
            assert jsonschema_rs.is_valid(again, args), name
            checked += 1
    assert checked >= 35
