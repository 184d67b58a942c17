"""Requests of one connection take effect in the order in which they were sent."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tests.running_daemon import RunningDaemon
from tests.wire import Wire

ROUNDS = 6
"""A pass of the loop runs its tasks in either order, at random."""

PID_MAX = int(Path("/proc/sys/kernel/pid_max").read_text())

SERVER = """
import json, sys

def send(id, result):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": id, "result": result}) + "\\n")
    sys.stdout.flush()

tool = {"name": "echo", "inputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}}}
calls = 0
for line in sys.stdin:
    message = json.loads(line)
    id, method = message.get("id"), message.get("method")
    if method == "initialize":
        known = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}}
        send(id, {**known, "serverInfo": {"name": "x", "version": "1"}})
    elif method == "tools/list":
        send(id, {"tools": [tool]})
    elif method == "tools/call":
        send(id, {"content": [{"type": "text", "text": str(calls)}]})
        calls += 1
"""


def _call(number: int, tool: str, **arguments: Any) -> dict[str, Any]:
    params = {"tool": tool, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": f"b{number}", "method": "tools/call", "params": params}


def _results(wire: Wire, numbers: list[int]) -> list[int]:
    return [int(wire.finish(number)["result"]) for number in numbers]


def _starts(pids: list[int]) -> list[int]:
    """Return the pids counted from the first, as the kernel's count begins anew at its end."""
    return [(pid - pids[0]) % PID_MAX for pid in pids]


def test_starts_begin_in_the_order_of_their_requests(daemon: RunningDaemon) -> None:
    run = {"argv": ["sh", "-c", "echo $$"]}
    with daemon.connect() as wire:
        for turn in range(ROUNDS):
            numbers = [
                wire.start("spawn", tool="run", id=f"s{turn}-{n}", args=run, wait="stopped")
                for n in range(8)
            ]
            starts = _starts(_results(wire, numbers))
            assert starts == sorted(starts)
            numbers = [wire.start("tools/call", tool="run", arguments=run) for _ in range(8)]
            starts = _starts(_results(wire, numbers))
            assert starts == sorted(starts)
            wire.send([_call(n, "run", **run) for n in range(8)])
            starts = _starts([int(reply["result"]["result"]) for reply in wire.receive()])
            assert starts == sorted(starts)


def test_calls_reach_an_mcp_server_in_the_order_of_their_requests(
    make_daemon: Any, short_tmp: Path
) -> None:
    file = short_tmp / "server.py"
    file.write_text(SERVER)
    config = ""
    for name in range(ROUNDS):
        argv = json.dumps([sys.executable, "-S", str(file)])
        config += f'[mcp.s{name}]\ncommand = {argv}\nera = "legacy"\n'
    with make_daemon(config).start().connect() as wire:
        for name in range(ROUNDS):
            tool = f"s{name}_echo"
            for _ in range(2):  # the first calls await the server's opening
                numbers = [
                    wire.start("tools/call", tool=tool, arguments={"n": n}) for n in range(5)
                ]
                order = _results(wire, numbers)
                assert order == sorted(order), tool
