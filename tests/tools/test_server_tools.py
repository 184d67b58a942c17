"""Tools of MCP servers below the user's definitions, without a server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from haft_protocol.errors import RpcError
from haft_protocol.methods import Annotations, Problem
from haftd.tools.definitions.definition import Tool
from haftd.tools.definitions.server_tools import (
    NOT_ASKED,
    ServedTool,
    ServerState,
    explain_absence,
    find_server,
    place_tools,
)

from .definition_kit import read

ADD = ServedTool(
    "add",
    "Adds two numbers.",
    {"type": "object", "properties": {"a": {}, "b": {}}, "required": ["a", "b"]},
)
SUM = '[tools.sum]\nsource = "mcp.math.add"\n'


def placed(
    text: str, *servers: ServerState, **shared: Any
) -> tuple[dict[str, Tool], tuple[Problem, ...]]:
    tools, problems = read(text)
    assert problems == []
    return place_tools(tools, {server.name: server for server in servers}, "config", shared)


def required(text: str, served: ServedTool = ADD) -> list[str]:
    tools, problems = placed(SUM + text, ServerState("math", (), (served,)))
    assert problems == ()
    names: list[str] = tools["sum"].parameters.get("required", [])
    return names


@pytest.mark.parametrize(
    ("source", "where"),
    [
        ("mcp.math.add", ("math", "add")),
        ("mcp.math", ("math", "x")),
        ("mcp.math.a.b", ("math", "a.b")),
        ("command", None),
    ],
)
def test_a_source_names_the_server_and_its_tool(source: str, where: tuple[str, str] | None) -> None:
    assert find_server(Tool(name="x", file="f", source=source)) == where


def test_offered_tools_are_named_by_their_server_and_tools_that_are_not_offered_stay_out() -> None:
    other = replace(ADD, name="mul")
    tools, _ = placed("", ServerState("math", "all", (other, ADD)))
    assert list(tools) == ["math_add", "math_mul"]
    assert tools["math_add"].description == ADD.description
    tools, _ = placed("", ServerState("math", ("mul",), (other, ADD)))
    assert list(tools) == ["math_mul"]


def test_a_taken_name_gets_a_point_and_a_defined_tool_is_offered_once() -> None:
    taken = '[tools.math_add]\ncommand = "a"\nparameters = {}\n'
    tools, _ = placed(taken, ServerState("math", "all", (ADD,)))
    assert list(tools) == ["math_add", "math.add"]
    both = taken + '[tools."math.add"]\ncommand = "a"\nparameters = {}\n'
    assert list(placed(both, ServerState("math", "all", (ADD,)))[0]) == ["math_add", "math.add"]
    assert list(placed(SUM, ServerState("math", "all", (ADD,)))[0]) == ["sum"]


def test_an_offered_tool_has_the_shared_fields() -> None:
    tools, _ = placed("", ServerState("math", "all", (ADD,)), enable="off")
    assert tools["math_add"].enable == "off"
    [tool] = placed("", ServerState("math", "all", (ADD,)))[0].values()
    assert tool.enable != "off"


def test_the_definition_wins_over_the_servers_description() -> None:
    hints = Annotations(read_only=True)
    server = ServerState("math", (), (replace(ADD, annotations=hints),))
    [tool] = placed(SUM, server)[0].values()
    assert (tool.description, tool.annotations) == (ADD.description, hints)
    [tool] = placed(SUM + 'description = "Mine."\n', server)[0].values()
    assert tool.description == "Mine."


@pytest.mark.parametrize(
    ("length", "summary"),
    [
        (1024, 0),
        (1025, 1024),
        (32_769, 1024),
    ],
)
def test_long_descriptions_are_cut(length: int, summary: int) -> None:
    served = replace(ADD, description="x" * length)
    [tool] = placed(SUM, ServerState("math", (), (served,)))[0].values()
    assert len(tool.description) == min(length, 32_768)
    assert len(tool.summary) == summary
    assert not summary or tool.summary.endswith("x…")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", ["a", "b"]),
        ("parameters.a = { default = 1 }\n", ["b"]),
        ("parameters.a = { required = false }\n", ["b"]),
        ("parameters.a = { type = 'integer' }\n", ["a", "b"]),
        ("parameters.c = { type = 'integer', required = true }\n", ["a", "b", "c"]),
        ("parameters.a = { default = 1 }\nparameters.b = { default = 1 }\n", []),
    ],
)
def test_a_required_parameter_stays_required_unless_the_definition_has_a_value(
    text: str, names: list[str]
) -> None:
    assert required(text) == names


@pytest.mark.parametrize("schema", [{"required": True}, {"properties": ["a"]}, {"properties": "a"}])
def test_a_malformed_schema_of_a_server_is_a_problem_of_the_definition(
    schema: dict[str, Any],
) -> None:
    served = replace(ADD, schema=schema)
    changes = SUM + 'parameters.a = { description = "Mine." }\n'
    tools, problems = placed(changes, ServerState("math", (), (served,)))
    assert tools["sum"].absent.startswith("the server's schema of the tool is not valid: ")
    assert [problem.key for problem in problems] == ["tools.sum"]


def test_an_invalid_schema_of_a_server_is_not_the_definitions_fault() -> None:
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"not": deep}
    for schema in ({"properties": {"a": {"type": 3}}}, {"properties": {"a": deep}}):
        served = ServerState("math", "all", (replace(ADD, schema=schema),))
        absent = placed(SUM, served)[0]["sum"].absent
        assert absent.startswith("the server's schema of the tool ") and "recursion" not in absent
        ((_, message),) = [(problem.key, problem.message) for problem in placed("", served)[1]]
        assert "'add' is left out: its schema is" in message


def test_a_definition_cannot_change_a_parameter_that_a_closed_tool_does_not_have() -> None:
    closed = replace(ADD, schema={**ADD.schema, "additionalProperties": False})
    change = "parameters.c = { type = 'integer' }\n"
    tools, [problem] = placed(SUM + change, ServerState("math", (), (closed,)))
    assert problem.key == "tools.sum" and 'no parameter "c"' in problem.message.replace("'", '"')
    assert tools["sum"].absent in problem.message


@pytest.mark.parametrize(
    ("server", "absent", "has_problem", "kind"),
    [
        (None, "there is no server", True, "unsupported_runtime"),
        (
            ServerState("math", fault="it does not start"),
            "it does not start",
            False,
            "spawn_failed",
        ),
        (ServerState("math"), NOT_ASKED, False, "spawn_failed"),
        (ServerState("math", (), ()), "its tools are none", True, "spawn_failed"),
        (ServerState("math", (), (replace(ADD, name="mul"),)), "mul", True, "spawn_failed"),
    ],
)
def test_a_call_of_an_absent_tool_is_refused_with_the_reason(
    server: ServerState | None, absent: str, has_problem: bool, kind: str
) -> None:
    servers: Mapping[str, ServerState] = {} if server is None else {"math": server}
    tools, problems = placed(SUM, *servers.values())
    assert absent in tools["sum"].absent
    assert [problem.key for problem in problems if problem.key == "tools.sum"] == [
        "tools.sum"
    ] * has_problem
    refusal = explain_absence(tools["sum"], servers)
    assert isinstance(refusal, RpcError)
    assert refusal.kind == kind and absent in refusal.message


def test_a_disabled_tool_of_a_missing_server_is_no_problem() -> None:
    assert placed(SUM + 'enable = "off"\n')[1] == ()


def test_a_fault_of_a_server_is_a_problem_of_the_server() -> None:
    [problem] = placed("", ServerState("math", fault="it does not start"))[1]
    assert (problem.key, problem.message) == ("mcp.math", "it does not start")


def test_a_present_tool_is_not_refused() -> None:
    server = ServerState("math", (), (ADD,))
    tools, _ = placed(SUM + '[tools.y]\ncommand = "a"\nparameters = {}\n', server)
    assert [explain_absence(tool, {"math": server}) for tool in tools.values()] == [None, None]


def test_the_first_twelve_tools_of_a_server_are_named() -> None:
    served = tuple(replace(ADD, name=f"t{number}") for number in range(13))
    tools, _ = placed(SUM, ServerState("math", (), served))
    assert tools["sum"].absent.endswith(f"tools are {', '.join(repr(f't{n}') for n in range(12))}")


@pytest.mark.parametrize("fault", ["", "it does not start"])
def test_a_list_differs_from_an_earlier_one_only(fault: str) -> None:
    assert not ServerState("math", fault=fault).had_other((ADD,))
    for before, other in (((ADD,), ()), ((), (ADD,)), ((ADD,), (replace(ADD, name="x"),))):
        state = ServerState("math", "all", before, fault)
        assert state.had_other(other) and not state.had_other(before)
