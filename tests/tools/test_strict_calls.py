"""Calls of a strict provider: every name of the flat schema is given, most of them null."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest

from haft_protocol.errors import RpcError
from haftd.tools.calls.tool_calls import HandleCall, read_call, read_run
from haftd.tools.catalogue import Catalogue

CATALOGUE = Catalogue()
OWN: dict[str, dict[str, Any]] = {"git_rebase": {"onto": "HEAD~3"}, "run": {"argv": ["true"]}}
TOOLS = {one.name: one for one in CATALOGUE.list_tools("openai")[0] if one.stateful}


def said(tool: str, **value: Any) -> dict[str, Any]:
    """Return all names of the tool, missing ones null; the schema accepts the result."""
    schema = TOOLS[tool].parameters
    call = {**dict.fromkeys(schema["properties"]), **value}
    assert jsonschema_rs.is_valid(schema, call)
    return call


@pytest.mark.parametrize("tool", TOOLS)
def test_each_action_can_be_called_with_every_name_given(tool: str) -> None:
    own = OWN.get(tool, {})
    known = CATALOGUE.find(tool)
    spawn = read_call(known, said(tool, action="spawn", id="a", **own))
    assert (spawn.action, spawn.id) == ("spawn", "a")
    assert spawn.args.items() >= own.items()
    fetch = read_call(known, said(tool, action="fetch", id="a", wait="quiet", timeout_ms=5))
    assert fetch == HandleCall("fetch", "a", reading={"wait": "quiet", "timeout_ms": 5})
    abort = read_call(known, said(tool, action="abort", id="a"))
    assert abort == HandleCall("abort", "a")


def test_an_input_has_only_the_given_kind() -> None:
    form = next(
        branch for branch in TOOLS["run"].parameters["properties"]["input"]["anyOf"]
        if branch["type"] == "object"
    )  # fmt: skip
    keys = {**dict.fromkeys(form["properties"]), "keys": ["C-c"]}
    call = said("run", action="apply", id="a", input=keys, view="tail")
    assert read_call(CATALOGUE.find("run"), call) == HandleCall(
        "apply", "a", reading={"view": "tail"}, input={"keys": ["C-c"]}
    )


def test_a_call_without_an_action_has_only_the_tools_own_arguments() -> None:
    call = said("run", command="true")
    assert call["action"] is None
    assert read_run(CATALOGUE.find("run"), call)["command"] == "true"
    assert (
        not {"action", "id", "input", "wait", "view"} & read_run(CATALOGUE.find("run"), call).keys()
    )
    assert "action" in TOOLS["shell"].parameters["required"]
    assert not jsonschema_rs.is_valid(
        TOOLS["shell"].parameters, {**said("shell", action="abort", id="a"), "action": None}
    )


def test_spawn_takes_a_wait_and_its_bound() -> None:
    given = said("run", action="spawn", id="a", command="make", wait="stopped", timeout_ms=5)
    spawn = read_call(CATALOGUE.find("run"), given)
    assert spawn.reading == {"wait": "stopped", "timeout_ms": 5}
    assert spawn.args["command"] == "make"


def test_an_unknown_action_is_named_and_cut() -> None:
    with pytest.raises(RpcError, match="x…': it has `spawn`") as caught:
        read_call(CATALOGUE.find("run"), {"action": "x" * 100})
    assert caught.value.kind == "action_not_supported"
    assert caught.value.message.count("x") == 39
