"""Host calls of a mediated tool: `fs.read` one after the other, and many at once."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from tests.running_daemon import RunningDaemon

from . import wires
from .interleaved_timer import Case, interleave
from .report import Section, spell, timings

_MANY = 100
_SCRIPT = f"""#!{sys.executable}
import json, sys

def send(*messages):
    sys.stdout.write("".join(json.dumps(message) + "\\n" for message in messages))
    sys.stdout.flush()

def hear(count):
    for _ in range(count):
        assert "content" in sys.stdin.readline()

read = {{"jsonrpc": "2.0", "id": 1, "method": "fs.read", "params": {{"path": "file"}}}}
while line := sys.stdin.readline():
    how = json.loads(line)["params"].get("input")
    if how == "in turn":
        for _ in range({_MANY}):
            send(read)
            hear(1)
    elif how == "at once":
        send(*[read] * {_MANY})
        hear({_MANY})
    if how:
        send({{"type": "running", "content": "done\\n"}})
"""


def calls(folder: Path, seconds: float) -> Section:
    """Measure in a daemon of its own."""
    root = folder / "root"
    root.mkdir(exist_ok=True)
    (root / "file").write_text("a small file\n")
    daemon = RunningDaemon(folder / "mediated")
    program = daemon.home / "reader"
    program.write_text(_SCRIPT)
    program.chmod(0o755)
    libraries = json.dumps([sys.prefix, sys.base_prefix])
    daemon.tools(
        f'[tools.reader]\nruntime = "vfs"\nstateful = true\ncommand = ["{program}"]\n'
        f'access.fs.read = ["."]\naccess.fs.execute = {libraries}\n'
    )
    daemon.start()
    try:
        return _measure(daemon, root, seconds)
    finally:
        daemon.close()


def _measure(daemon: RunningDaemon, root: Path, seconds: float) -> Section:
    load = " ".join(f"{average:.1f}" for average in os.getloadavg())

    def plain() -> None:
        for _ in range(_MANY):
            with open(root / "file", encoding="utf-8") as file:
                assert file.read()

    with daemon.connect() as wire, wires.lines(daemon.socket) as exchange:
        wire.call("spawn", tool="reader", id="r", root=str(root), wait="none")

        def case(name: str, how: str) -> Case:
            params = {"id": "r", "input": {"text": how}, "wait": "output", "view": "answer"}
            request = wires.message("apply", **params)
            assert b"done" in exchange(request)
            return Case(name, lambda: exchange(request), daemon.pid)

        baseline = Case(f"{_MANY} × `open`, `read` in the process itself", plain)
        alone = case("an input, and the line that answers", "nothing")
        in_turn = case(f"the same, after {_MANY} × `fs.read` one after the other", "in turn")
        at_once = case(f"the same, after {_MANY} × `fs.read` at once", "at once")
        cases = [baseline, alone, in_turn, at_once]
        interleave(cases, rounds=100, seconds=seconds)
        wire.call("abort", id="r")
    own = [(case.cpu_per_step - alone.cpu_per_step) / _MANY for case in (in_turn, at_once)]
    one = [(case.median - alone.median) / _MANY for case in (in_turn, at_once)]
    return timings(
        "Host calls of a mediated tool",
        f"A Python program in its sandbox, a file of 13 bytes. One `fs.read` takes {spell(one[0])} one after the other, "
        f"{spell(one[1])} at once, from the program's line to the reply that it has read; the daemon runs {spell(own[0])} and "
        f"{spell(own[1])} of them. Load average before: {load}.",
        cases,
        baseline,
    )
