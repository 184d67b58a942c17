from __future__ import annotations

import os
import select
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.running_daemon import RunningDaemon

BURN = "import time\nwhile time.process_time() < {}: pass\n"
STAYS = f"""
import os, sys, time
def leave(work):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            exec(work)
            print(flush=True)
            time.sleep(600)
        os._exit(0)
    os.wait()
which = sys.argv[1]
if which == "wall_s":
    leave("")
elif which == "memory":
    for _ in range(3):
        leave("kept = bytearray(b'x') * (60 << 20)")
elif which == "cpu_s":
    for _ in range(3):
        leave({BURN.format(0.2)!r})
elif which == "cpu_s of ended":
    for _ in range(3):
        leave({BURN.format(0.2)!r} + "os._exit(0)")
    leave("")
elif which == "cpu_s of the first":
    leave({BURN.format(0.2)!r})
    exec({BURN.format(0.3)!r})
elif which == "processes":
    for _ in range(4):
        leave("")
"""
LIMITS = {"wall_s": "1", "memory": '"150 MiB"', "cpu_s": "0.4", "processes": "3"}


def definition(limit: str) -> str:
    command = [sys.executable, "-c", "{{ tool.arguments.code }}", "{{ tool.arguments.which }}"]
    return f"""
[tools.{limit}]
stateful = true
command = {command}
limits.{limit} = {LIMITS[limit]}
parameters.code = {{ type = "string" }}
parameters.which = {{ type = "string" }}
"""


@pytest.mark.parametrize("which", [*LIMITS, "cpu_s of ended", "cpu_s of the first"])
def test_a_process_left_behind_is_ended_when_the_handle_exceeds_a_limit(
    daemon: RunningDaemon, which: str
) -> None:
    limit = which.partition(" ")[0]
    daemon.tools(definition(limit))
    with daemon.connect() as wire:
        wire.call("tools/reload")
        state = wire.call(
            "spawn", tool=limit, id="h", args={"code": STAYS, "which": which}, wait="stopped"
        )
        assert state["state"] == "stopped"
        if state["ended_by"]["by"] == "exit":
            pids = [one["pid"] for one in state.get("left_behind", ())]
            assert all(map(_ends, pids))
        else:
            assert (state["ended_by"]["by"], limit in state["error"]["message"]) == ("limit", True)
        while "left_behind" in wire.call("fetch", id="h"):
            pass
        assert "error" not in state or limit in state["error"]["message"]


def test_a_process_left_behind_without_a_limit_stays(daemon: RunningDaemon) -> None:
    daemon.tools(definition("memory"))
    with daemon.connect() as wire:
        wire.call("tools/reload")
        args = {"code": STAYS, "which": "wall_s"}
        state = wire.call("spawn", tool="memory", id="h", args=args, wait="stopped")
        (left,) = state["left_behind"]
        assert Path(f"/proc/{left['pid']}").exists()
        aborted: dict[str, Any] = wire.call("abort", id="h")
        assert "left_behind" not in aborted


def _ends(pid: int) -> bool:
    """Wait for the end of a process; the bound is far beyond the measured time."""
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([pidfd], [], [], 30)[0])
    finally:
        os.close(pidfd)
