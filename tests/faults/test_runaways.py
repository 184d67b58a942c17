"""Fifty handles that run away do not disturb fifty that behave, and each ends by its limit."""

from __future__ import annotations

import hashlib
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import wasmtime

from tests.faults.harness import controllers
from tests.running import RunningDaemon
from tests.wire import Wire

EACH = 10
LOOP = '(module (memory (export "memory") 1) (func (export "_start") (loop $on (br $on))))'
PYTHON = f"{sys.executable} -I -S -c"
RUNAWAYS = {
    "processes": ("b() { b | b & }; b; sleep 600", "processes = 20"),
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
def pinging(daemon: RunningDaemon) -> Iterator[list[float]]:
    """Ask for a sign of life all the time; the list has the seconds that each took."""
    took: list[float] = []
    over = threading.Event()

    def ping() -> None:
        with daemon.connect() as wire:
            while not over.is_set():
                before = time.perf_counter()
                wire.call("ping")
                took.append(time.perf_counter() - before)
                time.sleep(0.005)

    thread = threading.Thread(target=ping)
    thread.start()
    try:
        yield took
    finally:
        over.set()
        thread.join()


def steady(wire: Wire, n: int) -> None:
    command = f"seq {n} 200000 | sha256sum; read line; echo $line"
    wire.call("spawn", tool="run", id=f"good{n}", args={"command": command}, wait="none")


@pytest.mark.soak
def test_fifty_runaways_disturb_no_other_handle(
    daemon: RunningDaemon, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    daemon.tools(tools(tmp_path))
    bad = [f"{limit}.{n}" for n in range(EACH) for limit in RUNAWAYS]
    with daemon.connect() as wire, pinging(daemon) as took:
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
    with capsys.disabled():
        way = "without" if controllers() is None else "with"
        print(f"\nthe longest of {len(took)} pings {way} controllers: {max(took) * 1000:.0f} ms")
