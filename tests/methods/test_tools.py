"""tools/list and tools/describe over the wire."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any, get_args

import pytest

from haft_protocol.methods import Provider, ToolDescription, ToolsDescribeParams
from haftd.caller import Caller
from haftd.methods.base import DeferredReply
from haftd.methods.tools import tools_describe
from tests.running_daemon import RunningDaemon
from tests.schemas.provider_judges import JUDGES, refusals
from tests.wire import Refused


@pytest.mark.parametrize("provider", get_args(Provider))
def test_the_tools_of_a_fresh_daemon_fit_each_provider(
    provider: str, shared_daemon: RunningDaemon
) -> None:
    with shared_daemon.connect() as wire:
        found = wire.call("tools/list", provider=provider)
    assert "problems" not in found
    names = {tool["name"] for tool in found["tools"]}
    assert {"await", "run", "shell", "git_stage", "git_rebase"} <= names
    for tool in found["tools"]:
        assert "tool" not in tool, "these names fit everywhere"
        if provider in JUDGES:
            said = (tool["name"], tool["description"], tool["parameters"])
            assert refusals(provider, *said) == []


def test_the_list_without_a_provider_is_the_generic_one(shared_daemon: RunningDaemon) -> None:
    with shared_daemon.connect() as wire:
        plain = wire.call("tools/list")
        assert plain == wire.call("tools/list", provider="generic", style="oneof")
        flat = wire.call("tools/list", style="flat")
    run, other = (
        next(tool for tool in found["tools"] if tool["name"] == "run") for found in (plain, flat)
    )
    assert len(run["parameters"]["oneOf"]) == 5  # an action each, and none
    assert other["parameters"]["properties"]["action"]["enum"] == run["actions"]


@pytest.mark.parametrize("params", [{"provider": "nobody"}, {"style": "round"}, {"dialect": "x"}])
def test_an_unknown_provider_is_refused(
    params: dict[str, str], shared_daemon: RunningDaemon
) -> None:
    with shared_daemon.connect() as wire, pytest.raises(Refused) as caught:
        wire.call("tools/list", **params)
    assert caught.value.code == -32602


def test_a_tool_that_cannot_be_expressed_is_named_and_the_rest_listed(
    shared_daemon: RunningDaemon,
) -> None:
    shared_daemon.tools(
        '[tools.bad]\ncommand = "a"\nstateful = true\nparameters.id = { type = "string" }\n',
        "bad.toml",
    )
    with shared_daemon.connect() as wire:
        wire.call("tools/reload")
        for provider in get_args(Provider):
            found = wire.call("tools/list", provider=provider)
            names = [tool["name"] for tool in found["tools"]]
            assert "bad" not in names
            assert "run" in names
            [problem] = found["problems"]
            assert problem["key"] == "tools.bad.parameters"
            assert problem["file"].endswith("bad.toml")
            assert problem["line"] == 1
            assert "`id`" in problem["message"]
        shared_daemon.tools("", "bad.toml")
        wire.call("tools/reload")
        assert "problems" not in wire.call("tools/list")


def test_tools_are_described_in_full_in_the_requested_order(shared_daemon: RunningDaemon) -> None:
    with shared_daemon.connect() as wire:
        found = wire.call("tools/describe", tools=["shell", "run"])["tools"]
        assert [tool["name"] for tool in found] == ["shell", "run"]
        assert found[1]["actions"] == ["spawn", "fetch", "apply", "abort"]
        parameters = {parameter["name"]: parameter for parameter in found[1]["parameters"]}
        assert parameters["argv"]["type"] == "list of string"
        assert parameters["terminal"]["default"] is False
        assert parameters["rows"]["description"] == "Height of the terminal. From 1 to 1000."
        with pytest.raises(Refused) as caught:
            wire.call("tools/describe", tools=["run", "walk"])
        assert caught.value.code == -32003
        with pytest.raises(Refused) as caught:
            wire.call("tools/describe", tools=[])
        assert caught.value.code == -32602


async def test_the_files_of_a_tools_rules_are_looked_at_in_a_thread() -> None:
    """A folder of a network that has stalled holds up no other call."""
    threads: list[threading.Thread] = []

    def look() -> str:
        threads.append(threading.current_thread())
        return "why"

    description = ToolDescription("t", "", "", "", False, (), (), access=("It may read a.",))
    plain: Any = SimpleNamespace(describe=lambda *_: (description, None))
    ruled: Any = SimpleNamespace(describe=lambda *_: (description, look))
    caller, params = Caller("unix", 1), ToolsDescribeParams(tools=("t",))
    at_once = tools_describe(plain, caller, params)
    assert not isinstance(at_once, DeferredReply) and at_once.tools == (description,)
    later = tools_describe(ruled, caller, params)
    assert isinstance(later, DeferredReply) and not threads
    result: Any = await later.run()
    assert result.tools[0].access == ("Refused here: why", "It may read a.")
    assert threads != [threading.main_thread()]
