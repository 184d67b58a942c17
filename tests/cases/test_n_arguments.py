from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.cases.conftest import Desk
from tests.running_daemon import RunningDaemon
from tests.wire import Refused

PLAIN = """
[tools.plain]
command = ["echo", "ran"]
parameters = {}

[tools.count]
command = ["echo", "{{ tool.arguments.n }}"]
parameters.n = { type = "integer", required = true }
"""

ABSENT = [{}, {"arguments": None}, {"arguments": {}}, {"arguments": ""}, {"arguments": " {} "}, {"arguments": "null"}]  # fmt: skip


@pytest.fixture
def desk(shared_daemon: RunningDaemon, open_desk: Callable[..., Desk]) -> Desk:
    shared_daemon.tools(PLAIN)
    one = open_desk(shared_daemon)
    one.wire.call("tools/reload")
    return one


@pytest.mark.parametrize("absent", ABSENT, ids=repr)
def test_RB_095_absent_arguments_in_any_form_are_empty(desk: Desk, absent: dict[str, Any]) -> None:
    assert desk._call("tools/call", tool="plain", **absent)["result"] == "ran\n"


def test_RB_095_arguments_may_be_the_json_text_of_an_object(desk: Desk) -> None:
    state = desk._call("tools/call", tool="count", arguments='{"n":"4"}')
    assert state["result"] == "4\n"
    spawned = desk._call(
        "tools/call", tool="run", arguments='{"action": "spawn", "id": "one", "argv": ["cat"]}'
    )
    assert (spawned["id"], spawned["state"]) == ("one", "running")
    assert desk.abort("one")["state"] == "stopped"


@pytest.mark.parametrize("wrong", ["{", "[1]", "5", '"{}"', "n=4", "{}{}", "[" * 100_000])
def test_RB_095_a_text_that_is_no_object_is_named(desk: Desk, wrong: str) -> None:
    with pytest.raises(Refused) as caught:
        desk._call("tools/call", tool="count", arguments=wrong)
    assert caught.value.code == -32005
    assert caught.value.data["problems"][0]["path"] == "arguments"
    assert "JSON" in caught.value.message


def test_RB_095_a_json_text_counts_values_as_a_message_does(desk: Desk) -> None:
    many = '{"n": [' + ",".join(["1"] * 100_001) + "]}"
    with pytest.raises(Refused, match="100000") as caught:
        desk._call("tools/call", tool="count", arguments=many)
    assert caught.value.code == -32009


def test_RB_095_args_of_spawn_may_be_null(desk: Desk) -> None:
    state = desk._call("spawn", tool="plain", id="p", args=None, wait="stopped")
    assert state["result"] == "ran\n"
