"""Fifty handles that run away do not disturb fifty that behave, and each ends by its limit."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import wasmtime

from tests.faults.harness import BOMB, controllers
from tests.running_daemon import RunningDaemon
from tests.wire import Wire

EACH = 10
LOOP = '(module (memory (export "memory") 1) (func (export "_start") (loop $on (br $on))))'
PYTHON = f"{sys.executable} -I -S -c"
RUNAWAYS = {
    "processes": (BOMB, "processes = 20"),
    "memory": (f"{PYTHON} \"kept = bytearray(b'x') * (1 << 30)\"", 'memory = "128 MiB"'),
    "output": ("exec cat /dev/zero", 'output = "16 MiB"'),
    "cpu_s": ("while :; do :; done", "cpu_s = 1"),
    "fuel": ("", "fuel = 2_000_000_000"),
}
"""The command, and its limit; without a command, a module that loops."""


def tools(folder: Path) -> str:
    module = folder / "loop.wasm"
    module.write_bytes(wasmtime.wat2wasm(LOOP))
    text = ""
    for limit, (command, bound) in RUNAWAYS.items():
        argv = f"['bash', '-c', '''{command}''']" if command else f"['{module}']"
        text += f"[tools.{limit}]\ncommand = {argv}\nlimits.{bound}\n"
    return text


@contextmanager
def pinging(daemon: RunningDaemon) -> Iterator[list[str]]:
    """Ping all the time; afterwards the list has the longest wait in ms and the number of pings."""
    command = [sys.executable, "-m", "tests.faults.pinger", str(daemon.socket)]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
        start_new_session=True,
    ) as process:
        figures: list[str] = []
        try:
            yield figures
        finally:
            figures += process.communicate()[0].split()


def steady(wire: Wire, n: int) -> None:
    command = f"seq {n} 200000 | sha256sum; read line; echo $line"
    wire.call("spawn", tool="run", id=f"good{n}", args={"command": command}, wait="none")


@pytest.mark.soak
def test_fifty_runaways_disturb_no_other_handle(
    daemon: RunningDaemon, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    daemon.tools(tools(tmp_path))
    bad = [f"{limit}.{n}" for n in range(EACH) for limit in RUNAWAYS]
    with daemon.connect() as wire, pinging(daemon) as figures:
        wire.call("tools/reload")
        for n, name in enumerate(bad):
            steady(wire, n)
            wire.call("spawn", tool=name.partition(".")[0], id=name, wait="none")
        for n in range(len(bad)):
            wire.call("apply", id=f"good{n}", input={"line": f"here {n}"}, wait="none")
        for n in range(len(bad)):
            state = wire.call(
                "fetch", id=f"good{n}", view="all", wait="stopped", timeout_ms=300_000
            )
            lines = "".join(f"{line}\n" for line in range(n, 200_001))
            whole = f"{hashlib.sha256(lines.encode()).hexdigest()}  -\nhere {n}\n"
            assert (state["exit"], state["result"]) == ({"code": 0}, whole)
        for name in bad:
            state = wire.call("fetch", id=name, wait="stopped", timeout_ms=300_000, max_bytes=100)
            assert state["ended_by"] == {"by": "limit"}, (name, state)
            assert name.partition(".")[0] in state["error"]["message"]
            assert not state.get("left_behind")
    longest_ms, count = map(int, figures)
    way = "without" if controllers() is None else "with"
    with capsys.disabled():
        print(f"\nthe longest of {count} pings {way} controllers: {longest_ms} ms")
