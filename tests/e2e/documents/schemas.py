"""The documents' schemas, and the additions that haft may make. haft may describe, close
objects, constrain ids and `input`, and offer read actions their wait options; nothing else
may differ."""

from __future__ import annotations

from typing import Any

from tests.wire import Wire

Schema = dict[str, Any]


def _acting(action: str, **more: Schema) -> Schema:
    return {
        "properties": {"action": {"const": action}, "id": {"type": "string"}, **more},
        "required": ["action", "id", *more],
    }


FETCH, ABORT = _acting("fetch"), _acting("abort")
READING = {"wait", "pattern", "timeout_ms", "view"}
"""What haft adds to each action that reads."""
APPLY = _acting("apply", input={})


def spawning(parameters: dict[str, Schema], *required: str) -> Schema:
    """The document's variant for spawn, of a tool with these parameters."""
    spawn = _acting("spawn")
    return {
        "properties": {**spawn["properties"], **parameters},
        "required": [*spawn["required"], *required],
    }


def variants(host: Wire, tool: str) -> list[Schema]:
    """Return the `oneOf` of a listed tool."""
    (listed,) = [one for one in host.call("tools/list")["tools"] if one["name"] == tool]
    schema = listed["parameters"]
    assert set(schema) == {"type", "oneOf"} and schema["type"] == "object"
    assert listed["stateful"] is True
    assert listed["actions"] == [
        branch["properties"]["action"]["const"] for branch in schema["oneOf"]
    ]
    found = schema["oneOf"]
    assert isinstance(found, list)
    return found


def adds(ours: Schema, documents: Schema) -> set[str]:
    """Return the additional properties; fail at any other difference."""
    assert ours["type"] == "object" and ours["additionalProperties"] is False
    assert set(ours) == {"type", "properties", "required", "additionalProperties"}
    assert ours["required"] == documents["required"]
    for name, theirs in documents["properties"].items():
        said = {key: word for key, word in ours["properties"][name].items() if key in theirs}
        assert said == theirs
        more = set(ours["properties"][name]) - set(theirs) - {"description"}
        assert more == {"id": {"pattern"}, "input": {"anyOf"}}.get(name, set())
    return set(ours["properties"]) - set(documents["properties"])
