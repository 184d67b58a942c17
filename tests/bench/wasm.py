"""Run a module of WebAssembly that does nothing: compiled before, or in this call; and the memory of one that waits."""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import time
from hashlib import sha256
from pathlib import Path

from haftd.launch_spec import LaunchSpec
from haftd.runtimes.wasm.plan import worker_launch
from haftd.runtimes.wasm.worker import VARIABLE, Order, cached_name
from haftd.tools.definitions.runtime_names import find_engine_version
from tests.patience import PATIENCE_S
from tests.running_daemon import RunningDaemon
from tests.runtimes import modules

from . import wires
from .interleaved_timer import Case, interleave
from .report import Section, timings

_TOOLS = """
[tools.nothing]
command = "{folder}/nothing.wasm"
stateful = true
output = "raw"
parameters = {{}}
[tools.again]
command = "{folder}/again.wasm"
stateful = true
output = "raw"
parameters = {{}}
[tools.waits]
command = "{folder}/waits.wasm"
stateful = true
output = "raw"
parameters = {{}}
"""
_FUNCTIONS = 200
"""Functions of the module that is compiled, beside the one that runs."""


def _many_functions(count: int) -> str:
    body = (
        "(local.set $x (i32.add (i32.mul (local.get $x) (i32.const 3)) (i32.load (local.get $x))))"
    )
    return "\n".join(
        f'(func $f{n} (export "f{n}") (param $x i32) (result i32) {body * 10} (local.get $x))'
        for n in range(count)
    )


def _name_of(module: Path) -> str:
    source = module.read_bytes()
    digest = sha256(source).hexdigest()
    return cached_name(source, digest, find_engine_version(), has_fuel=False)


def call(folder: Path, seconds: float, functions: int = _FUNCTIONS) -> Section:
    """Spawn a module that has so many functions."""
    folder = folder / "wasm"
    folder.mkdir()
    nothing = modules.write(folder / "nothing.wasm", "", more=_many_functions(functions))
    cached = _name_of(nothing)
    again = modules.write(folder / "again.wasm", "nop", more=_many_functions(functions))
    unchanged = again.read_bytes()
    modules.write(folder / "waits.wasm", "(call $read_line) (call $read_line)")
    daemon = RunningDaemon(folder)
    daemon.tools(_TOOLS.format(folder=folder))
    daemon.start()
    cache = daemon.cache / "haft/modules"
    try:
        with wires.lines(daemon.socket) as exchange:

            def spawn(tool: str, wait: str) -> bytes:
                params = {"tool": tool, "id": tool, "wait": wait}
                request = {"jsonrpc": "2.0", "id": 1, "method": "spawn", "params": params}
                reply = exchange(json.dumps(request).encode())
                assert "result" in json.loads(reply), reply
                return reply

            assert json.loads(spawn("nothing", "stopped"))["result"]["exit"] == {"code": 0}
            spawn("waits", "input")
            resident, own = _memory(exchange)

            numbers = itertools.count()

            def change() -> None:
                """Wait for the compiler beside the call, and make the module another one."""
                name = _name_of(again)
                end = time.monotonic() + PATIENCE_S
                while not (cache / name).exists():
                    assert time.monotonic() < end
                    time.sleep(0.01)
                section = b"\0\x06\x01n" + next(numbers).to_bytes(4)
                again.write_bytes(unchanged + section)

            baseline = Case("`subprocess`, compiled before", lambda: _alone(nothing, cache, cached))
            cases = [
                baseline,
                Case("`subprocess`, compiled in the call", lambda: _alone(nothing, cache)),
                Case("`spawn`, compiled before", lambda: spawn("nothing", "stopped"), daemon.pid),
                Case(
                    "`spawn`, compiled in the call",
                    lambda: spawn("again", "stopped"),
                    daemon.pid,
                    after=change,
                ),
            ]
            interleave(cases, rounds=40, seconds=seconds)
    finally:
        daemon.close()
    return timings(
        "A module of WebAssembly, from spawn to stopped",
        f"A module of {_size(folder / 'nothing.wasm')} with {functions} functions that does nothing, in its sandbox. "
        "Baseline: the worker alone. Beside the call that compiles in memory another process compiles into the cache. A module that waits for input "
        f"has a process of {resident:.0f} MiB, {own:.0f} MiB of them its own.",
        cases,
        baseline,
    )


def _alone(module: Path, cache: Path, cached: str = "") -> None:
    """Run a worker, which compiles in memory without the name of a compiled module."""
    launch = worker_launch(LaunchSpec((str(module),), "/"), (), (), str(cache), "{}")
    order = Order(**json.loads(launch.env[VARIABLE]))._replace(cached=cached)
    subprocess.run(launch.argv, env={**os.environ, VARIABLE: order.text()}, check=True)


def _memory(exchange: wires.Exchange) -> tuple[float, float]:
    """Return the resident MiB of the waiting module's process, and those that it shares with none."""
    request = {"jsonrpc": "2.0", "id": 1, "method": "handles/list", "params": {}}
    rows = json.loads(exchange(json.dumps(request).encode()))["result"]["handles"]
    (pid,) = (row["pid"] for row in rows if row["id"] == "waits")
    status = Path(f"/proc/{pid}/status").read_text()
    found = dict(re.findall(r"^(VmRSS|RssAnon):\s+(\d+) kB$", status, re.MULTILINE))
    return int(found["VmRSS"]) / 1024, int(found["RssAnon"]) / 1024


def _size(path: Path) -> str:
    return f"{path.stat().st_size / 1024:.0f} KiB"
