"""Reading, joining and writing down again change no meaning: what fits a schema fits what becomes of
it, and nothing else does, as long as no provider's words are in the way."""

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
from .generating import json_values, law, schemas, values


def written(node: Any) -> Any:
    keeper = PassThrough(PLAIN)
    found = keeper.write(node)
    return found if keeper.lossless else None


def without_patterns(schema: Any) -> Any:
    """Names by pattern beside closed objects are joined by and large only."""
    if isinstance(schema, dict):
        return {k: without_patterns(v) for k, v in schema.items() if k != "patternProperties"}
    return [without_patterns(item) for item in schema] if isinstance(schema, list) else schema


@law(st.data())
def test_what_is_read_and_written_down_means_the_same(data: st.DataObject) -> None:
    schema = data.draw(schemas())
    value = data.draw(st.one_of(values(schema), json_values()))
    again = written(normalize(schema))
    if again is not None:
        assert jsonschema_rs.is_valid(again, value) == jsonschema_rs.is_valid(schema, value)


@law(st.data())
def test_what_fits_two_fits_what_they_are_joined_to(data: st.DataObject) -> None:
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
    """Whether all names of the value are those of the root or of a branch that it fits."""
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
def test_a_flat_object_takes_what_fitted(data: st.DataObject) -> None:
    """All but a name that the branch which fits does not speak of: another branch says its form."""
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


def test_the_nasty_ones_mean_the_same_where_nothing_comes_back_to_itself() -> None:
    checked = 0
    for name, (schema, args) in NASTY.items():
        again = written(normalize(schema))
        if again is not None:
            assert jsonschema_rs.is_valid(again, args), name
            checked += 1
    assert checked >= 35
