"""Public bug reports about tool schemas, arguments and names (RB-066 to RB-070). The acceptance
of each provider is judged by `tests/schemas/provider_judges.py`."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from haftd.tools.definitions.definition import Tool
from haftd.tools.lists.tool_list import make_list
from tests.running_daemon import RunningDaemon
from tests.schemas.provider_judges import refusals
from tests.wire import Refused, Wire

from .conftest import Desk, text


def toml(value: Any) -> str:
    """Return a JSON value as inline TOML; null is left out."""
    if isinstance(value, dict):
        inner = (f"{json.dumps(k)} = {toml(v)}" for k, v in value.items() if v is not None)
        return "{ " + ", ".join(inner) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(toml(item) for item in value) + "]"
    return json.dumps(value)


def definition(name: str, schema: Any, command: str = '["printf", "%s", "{{ tool.arguments }}"]') -> str:  # fmt: skip
    return f'[tools."{name}"]\ncommand = {command}\noutput = "raw"\nparameters = {toml(schema)}\n'


@pytest.fixture
def export(make_daemon: Callable[..., RunningDaemon]) -> Iterator[Callable[[str, Any], Any]]:
    """Define a tool with these parameters, list the tool for a provider, and check acceptance."""
    daemon = make_daemon().start()
    with daemon.connect() as wire:

        def ask(provider: str, schema: Any) -> Any:
            daemon.tools(definition("x", schema))
            assert wire.call("tools/reload")["problems"] == []
            found = wire.call("tools/list", provider=provider)
            assert "problems" not in found
            tool = next(tool for tool in found["tools"] if tool["name"] == "x")
            said = (tool["name"], tool["description"], tool["parameters"])
            assert refusals(provider, *said) == []
            return tool["parameters"]

        yield ask


def test_RB066_type_lists_null_and_a_choice_with_siblings(
    export: Callable[[str, Any], Any],
) -> None:
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": ["string", "null"], "default": None},
            "b": {
                "description": "x",
                "default": "",
                "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}],
            },
            "m": {
                "type": "array",
                "items": {"anyOf": [{"type": "array", "items": {"type": "number"}}, {"type": "null"}]},
            },
        },
    }  # fmt: skip
    found = export("google", schema)["properties"]
    assert found["a"] == {"type": "string", "nullable": True}
    assert set(found["b"]) == {"anyOf"}
    assert found["b"]["anyOf"][0]["description"].startswith("x.")
    assert found["m"]["items"]["type"] == "array"
    assert found["m"]["items"]["nullable"] is True


@pytest.mark.parametrize("provider", ["openai", "google"])
def test_RB067_a_tool_without_parameters(provider: str, export: Callable[[str, Any], Any]) -> None:
    assert export(provider, {"type": "object"})["properties"] == {}


@pytest.mark.parametrize("provider", ["openai", "google"])
def test_RB067_missing_items_and_keywords_unknown_to_a_provider(
    provider: str, export: Callable[[str, Any], Any]
) -> None:
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {
            "tags": {"type": "array"},
            "kind": {"const": "x"},
            "n": {"type": "integer", "exclusiveMinimum": 0},
            "o": {"type": "object"},
        },
        "additionalProperties": False,
        "required": ["tags", "kind", "n", "o"],
    }
    found = export(provider, schema)
    assert "$schema" not in found
    properties = found["properties"]
    assert properties["tags"]["items"]
    assert properties["kind"]["enum"] == ["x"]
    if provider == "google":
        assert properties["o"] == {"type": "object", "properties": {}}
        assert properties["n"] == {"type": "integer", "description": "More than 0."}
    else:
        # OpenAI takes this limit; an object of any names has no place in strict mode.
        assert properties["o"]["type"] == "string"
        assert "JSON text" in properties["o"]["description"]
        assert properties["n"]["exclusiveMinimum"] == 0


_CALLS = itertools.count()


@pytest.fixture
def call(desk: Desk) -> Callable[[Any, Any], Any]:
    """Call a tool that prints its arguments as JSON."""

    def ask(schema: Any, args: Any) -> Any:
        desk.daemon.tools(definition("show", schema))
        desk.wire.call("tools/reload")
        handle = f"n{next(_CALLS)}"
        # `delta` would read what is printed before the reply.
        unread = {"view": "tail", "max_bytes": 0}
        desk._call("spawn", tool="show", id=handle, args=args, wait="none", **unread)
        return json.loads(text(desk.done(handle)))

    return ask


RB068 = {
    "type": "object",
    "properties": {
        "o": {"type": "object"},
        "l": {"type": "array", "items": {"type": "integer"}},
        "s": {"type": "string"},
    },
}


def test_RB068_a_json_text_becomes_an_object(call: Callable[[Any, Any], Any]) -> None:
    args = {"o": '{"a": 1}', "l": "[1,2]", "s": '{"keep": "me"}'}
    assert call(RB068, args) == {"o": {"a": 1}, "l": [1, 2], "s": '{"keep": "me"}'}


@pytest.mark.parametrize(("field", "value"), [("o", "{'a': 1}"), ("o", "[1]"), ("l", "1, 2")])
def test_RB068_a_text_with_the_wrong_json_is_refused(
    field: str, value: str, call: Callable[[Any, Any], Any]
) -> None:
    with pytest.raises(Refused) as caught:
        call(RB068, {field: value})
    assert caught.value.code == -32005
    assert [problem["path"] for problem in caught.value.data["problems"]] == [field]
    assert field in caught.value.message


def test_RB069_numbers_and_flags_in_texts_are_converted(desk: Desk) -> None:
    assert text(desk.done(desk.spawn("echo", "1", timeout_s="60"))).strip() == "1"
    args = {"argv": ["echo", "2"], "timeout_s": 60.0, "terminal": "true"}
    desk._call("spawn", tool="run", id="flag", args=args, wait="none")
    assert text(desk.done("flag")).strip() == "2"


@pytest.mark.parametrize(
    ("value", "given", "allowed"), [("5m", "5m", "number"), (-1, "-1", "minimum of 0")]
)
def test_RB069_an_invalid_value_is_refused_with_the_allowed_ones(
    value: Any, given: str, allowed: str, desk: Desk
) -> None:
    with pytest.raises(Refused) as caught:
        desk.spawn("echo", "3", timeout_s=value)
    assert caught.value.code == -32005
    for word in ("timeout_s", given, allowed):
        assert word in caught.value.message


def test_RB069_a_misspelt_name_is_refused(desk: Desk) -> None:
    with pytest.raises(Refused) as caught:
        desk._call("spawn", tool="run", id="x", args={"argv": ["echo", "5"], "timout_s": 3})
    assert caught.value.code == -32005
    assert "timout_s" in caught.value.message
    assert "timeout_s" in caught.value.message
    with pytest.raises(Refused) as caught:
        desk._call("fetch", id="x", timout_ms=3)
    assert caught.value.code == -32602
    assert "timout_ms" in caught.value.message


LONG = "n" * 70
NAMES = [
    "mcp.srv one.search",
    "mcp.srv one.a.b/c é",
    f"mcp.srv one.{LONG}1",
    f"mcp.srv one.{LONG}2",
    "mcp.srv-two.search",
]


def test_RB070_five_names_are_independent_of_the_order() -> None:
    tools = [Tool(name=name, file="f") for name in NAMES]
    found = {one.tool or one.name: one.name for one in make_list(tools, "openai")[0]}
    assert found.keys() == set(NAMES)
    assert len(set(found.values())) == 5
    for shown in found.values():
        assert refusals("openai", shown, "x", _EMPTY) == []
    for order in itertools.permutations(tools):
        assert {o.tool or o.name: o.name for o in make_list(order, "openai")[0]} == found
    for alone in tools:  # the other server has not connected yet
        [one] = make_list([alone], "openai")[0]
        assert one.name == found[alone.name]


_EMPTY: Any = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}


def _shown(wire: Wire) -> dict[str, str]:
    tools = wire.call("tools/list", provider="openai")["tools"]
    return {tool.get("tool", tool["name"]): tool["name"] for tool in tools}


def test_RB070_the_names_are_the_same_after_a_restart_and_each_call_reaches_its_tool(
    make_daemon: Callable[..., RunningDaemon], tmp_path: Path
) -> None:
    daemon = make_daemon()
    names = ["a.b", "a-b", "a_b", "9.lives", "n" * 63 + ".", "n" * 64]
    for at, name in enumerate(names):
        daemon.tools(definition(name, {"type": "object"}, f'["echo", "{name}"]'), f"{at}.toml")
    daemon.start()
    with daemon.connect() as wire:
        before = _shown(wire)
    assert set(names) <= before.keys()
    daemon.stop()
    for at, name in enumerate(reversed(names)):  # read in another order
        daemon.tools(definition(name, {"type": "object"}, f'["echo", "{name}"]'), f"{at}.toml")
    daemon.start()
    with daemon.connect() as wire:
        assert _shown(wire) == before
        for at, name in enumerate(names):
            state = wire.call(
                "spawn", tool=before[name], id=f"h{at}", wait="stopped", timeout_ms=20_000
            )
            assert state["tool"] == name
            assert state["result"].strip() == name
