"""A limit that the kernel counts holds at once, for the superuser as well."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from haftd.host.cgroup import PREFIX
from tests.faults.harness import BOMB, controllers, needs_controllers, until
from tests.running_daemon import RunningDaemon
from tests.wire import Wire

FORK = """
import os, time
for n in range(40):
    try:
        os.fork() or (time.sleep(600), os._exit(0))
    except OSError:
        print(n, flush=True)
        break
time.sleep(600)
"""
TOOLS = f"""
[tools.forks]
stateful = true
command = [{sys.executable!r}, "-I", "-S", "-c", '''{FORK}''']
limits.processes = 8
[tools.bomb]
stateful = true
command = ["bash", "-c", '{BOMB}']
limits.processes = 40
"""
pytestmark = needs_controllers


@pytest.fixture
def wire(shared_daemon: RunningDaemon) -> Iterator[Wire]:
    shared_daemon.tools(TOOLS)
    with shared_daemon.connect() as wire:
        wire.call("tools/reload")
        yield wire
        wire.call("session/close")


def groups() -> list[str]:
    found = controllers()
    assert found is not None
    return [path.name for path in found.base.iterdir() if path.name.startswith(PREFIX)]


def test_no_process_is_started_beyond_the_limit(wire: Wire) -> None:
    before = groups()
    state = wire.call("spawn", tool="forks", id="h", wait="stopped")
    assert state["ended_by"] == {"by": "limit"}
    assert "processes" in state["error"]["message"]
    assert wire.call("fetch", id="h", view="all")["content"] == "7\n"
    until(lambda: set(groups()) <= set(before), "the handle's group is removed")


def test_a_fork_bomb_is_bounded_and_ended_beside_a_steady_handle(wire: Wire) -> None:
    wire.call("spawn", tool="run", id="steady", args={"command": "cat"}, wait="none")
    state = wire.call("spawn", tool="bomb", id="h", wait="stopped", timeout_ms=60_000)
    assert state["ended_by"] == {"by": "limit"}
    assert "left_behind" not in wire.call("fetch", id="h", wait="stopped")
    wire.call("apply", id="steady", input={"line": "here"}, wait="none")
    until(lambda: "here" in wire.call("fetch", id="steady", view="all")["content"], "it answers")
