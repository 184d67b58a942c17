from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults.harness import until
from tests.methods.conftest import Room
from tests.running_daemon import RunningDaemon

TOOLS = "\n".join(
    f"""
[tools.{name}]
source = "local"
stateful = true
output = "raw"
command = ["sh", "-c", "{{{{ tool.arguments.sh }}}}"]
parameters.sh = {{ type = "string", required = true }}
{more}
"""
    for name, more in {
        "ends": 'on_turn_end = "abort"',
        "waits": 'on_turn_end = "await"',
        "stays": 'on_turn_end = "keep"',
        "leaves": 'on_turn_end = "keep"\non_disconnect = "abort"',
    }.items()
)


@pytest.fixture(scope="module")
def shared_daemon() -> Iterator[RunningDaemon]:
    with tempfile.TemporaryDirectory(prefix="haft-", ignore_cleanup_errors=True) as folder:
        daemon = RunningDaemon(Path(folder))
        daemon.tools(TOOLS)
        daemon.start()
        yield daemon
        daemon.close()


def start(room: Room, tool: str, id: str, sh: str = "echo up; exec sleep 300") -> None:
    room.call("spawn", tool=tool, id=id, args={"sh": sh}, wait="none", view="tail", max_bytes=0)


def states(result: dict[str, Any]) -> dict[str, str]:
    return {row["id"]: row["state"] for row in result["handles"]}


def test_each_handle_is_treated_by_its_tools_policy(room: Room, beside: Callable[[], Room]) -> None:
    start(room, "ends", "a")
    start(room, "stays", "k")
    start(room, "waits", "w", "read x; echo $x")
    room.spawn("run", "exec sleep 300")
    room.spawn("over", "exit 0", wait="stopped")
    number = room.start("turn/end")
    other = beside()
    # The awaited handle goes on, and other calls are served meanwhile.
    other.call("apply", id="w", input={"line": "done"}, wait="none", view="tail", max_bytes=0)
    result = room.wire.finish(number)
    assert result["turn"] == 1
    assert states(result) == {"a": "stopped", "k": "running", "w": "stopped", "run": "stopped"}
    ended = {row["id"]: row.get("ended_by") for row in result["handles"]}
    assert ended["a"]["by"] == ended["run"]["by"] == "turn_end"
    assert ended["w"] == {"by": "exit"} and ended["k"] is None
    # The host has read this end: the assistant has still to get the notice.
    notices = room.call("notifications/drain")["notifications"]
    assert {notice["id"] for notice in notices} == {"a", "w", "run"}
    assert room.call("fetch", id="w")["result"] == "done\n"
    assert room.call("fetch", id="k", wait="output")["content"] == "up\n"


@pytest.mark.parametrize("policy", ["abort", "keep", "await"])
def test_the_policy_of_the_call_holds_for_all_handles(room: Room, policy: str) -> None:
    """A handle awaited in vain is kept."""
    start(room, "ends", "a")
    start(room, "stays", "k")
    result = room.call("turn/end", policy=policy, timeout_ms=50)
    expected = "stopped" if policy == "abort" else "running"
    assert states(result) == {"a": expected, "k": expected}


def test_a_decision_holds_after_its_client_has_gone(room: Room, beside: Callable[[], Room]) -> None:
    start(room, "ends", "a", "trap '' TERM; echo up; while :; do sleep 1; done")
    room.call("fetch", id="a", wait="output")
    other = beside()
    other.start("turn/end")
    other.wire.call("ping")
    other.wire.close()
    state = room.call("fetch", id="a", wait="stopped")
    assert state["ended_by"]["by"] == "turn_end" and state["exit"] == {"signal": "KILL"}


def test_turns_are_counted_and_a_closed_session_forgets_them(room: Room) -> None:
    assert room.call("turn/begin") == {"turn": 1}
    start(room, "stays", "k")
    assert room.call("turn/begin") == {"turn": 2}
    assert states(room.call("turn/end")) == {"k": "running"}
    assert room.call("turn/begin") == {"turn": 3}
    room.call("session/close")
    assert room.call("turn/end") == {"turn": 1, "handles": []}


def test_handles_end_with_the_last_connection_where_configured(
    room: Room, beside: Callable[[], Room]
) -> None:
    first, second, watcher = beside(), beside(), room.daemon.connect()
    start(first, "leaves", "l")
    start(first, "ends", "k")
    second.call("session/list")
    second.call("fetch", id="l")
    first.wire.close()
    until(lambda: connections(watcher, room.session) == 1, "the first has not left")
    assert second.call("fetch", id="l")["state"] == "running"
    second.wire.close()
    until(lambda: connections(watcher, room.session) == 0, "the second has not left")
    state = room.call("fetch", id="l", wait="stopped")
    assert state["ended_by"]["by"] == "disconnect" and state["exit"] == {"signal": "TERM"}
    assert room.call("fetch", id="k")["state"] == "running"
    watcher.close()


def connections(watcher: Any, session: str) -> int:
    rows = watcher.call("session/list")["sessions"]
    return sum(row["connections"] for row in rows if row["session"] == session)
