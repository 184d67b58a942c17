"""A call too long for an environment, with answers to its tool's questions."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.running_daemon import RunningDaemon

PROGRAM = r"""
import json, os, sys
path = os.environ["HAFT_CALL"]
tool = json.load(open(path))["tool"]
if "key" not in tool["answers"]:
    print(json.dumps({"type": "needs_input", "question":
        {"id": "key", "text": "Key?", "answer_type": {"type": "secret"}}}))
    raise SystemExit
os.rename(tool["arguments"]["ready"], path_file := tool["arguments"]["ready"] + ".done")
open(path_file, "w").write(path)
open(tool["arguments"]["gate"]).read()
print(json.dumps({"type": "success", "content": str(len(tool["answers"]["key"]))}))
"""
TOOLS = f"""
[tools.ask]
stateful = true
command = ["{sys.executable}", "-S", "-c", '''{PROGRAM}''']
output = "outcome"
parameters.long = {{ type = "string" }}
parameters.ready = {{ type = "string" }}
parameters.gate = {{ type = "string" }}
"""
SECRET = "correct-horse-battery"


def stored(folder: Path) -> list[Path]:
    return [
        path for path in folder.rglob("*") if path.is_file() and SECRET in path.read_text("latin-1")
    ]


def test_a_secret_answer_of_a_long_call_is_never_stored(
    make_daemon: Callable[..., RunningDaemon],
) -> None:
    """Neither during the run nor after a daemon that was killed meanwhile."""
    daemon = make_daemon()
    daemon.tools(TOOLS)
    daemon.start()
    gate, ready = daemon.base / "gate", daemon.base / "ready"
    os.mkfifo(gate)
    ready.touch()
    done = Path(f"{ready}.done")
    with daemon.connect() as wire:
        args = {"long": "x" * 70_000, "ready": str(ready), "gate": str(gate)}
        wire.call("spawn", tool="ask", id="a", args=args, wait="input")
        wire.call("apply", id="a", input=SECRET)
        with gate.open("w"):  # until the second run reads
            path = Path(done.read_text())
            assert SECRET in path.read_text()
            kind = subprocess.run(["stat", "-f", "-c", "%T", path], capture_output=True, text=True)
            assert kind.stdout.strip() == "tmpfs"
            assert stored(daemon.state) == []
        state = wire.call("fetch", id="a", wait="stopped")
        assert state["result"] == str(len(SECRET))
        assert not path.exists()
        done.rename(ready)
        wire.call("spawn", tool="ask", id="b", args=args, wait="input")
        wire.call("apply", id="b", input=SECRET)
        with gate.open("w"):
            path = Path(done.read_text())
            daemon.kill9()
            assert stored(daemon.state) == []
    daemon.start()
    assert not path.exists()
