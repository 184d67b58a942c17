"""Spawn `true` and await the end: single, and fifty at once."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable

from tests.running_daemon import RunningDaemon

from . import wires
from .interleaved_timer import Case, interleave
from .report import Section, timings

_MANY = 50


SANDBOXED = "bench_sandboxed"
PROXIED = "bench_proxied"
TOOL = f"""
[tools.{SANDBOXED}]
command = ["true"]
output = "raw"
stateful = true
sandbox = "root"

[tools.{PROXIED}]
command = ["true"]
output = "raw"
stateful = true
sandbox = "root"
access.net = [{{ host = "example.org" }}]
"""
"""Definitions of `true` in a sandbox, for the daemon of the benchmark."""


def _spawn(id_: str, number: int = 1, **args: object) -> dict[str, object]:
    params = {"tool": "run", "id": id_, "args": {"argv": ["true"], **args}, "wait": "stopped"}
    return {"jsonrpc": "2.0", "id": number, "method": "spawn", "params": params}


def _defined(tool: str) -> bytes:
    params = {"tool": tool, "id": tool, "wait": "stopped"}
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "spawn", "params": params}).encode()


def one(daemon: RunningDaemon, seconds: float) -> Section:
    """Spawn singly."""
    with wires.lines(daemon.socket) as exchange:
        pipe = json.dumps(_spawn("true")).encode()
        terminal = json.dumps(_spawn("true", terminal=True)).encode()
        sandboxed, proxied = _defined(SANDBOXED), _defined(PROXIED)
        for request in (pipe, terminal, sandboxed, proxied):
            reply = json.loads(exchange(request))
            assert reply["result"]["exit"] == {"code": 0}, reply
        baseline = Case("`Popen`, `communicate`", _plain, per_round=10)
        cases = [
            baseline,
            Case("`spawn`, `wait` = `stopped`, on a pipe", lambda: exchange(pipe), daemon.pid, 10),
            Case("the same on a terminal", lambda: exchange(terminal), daemon.pid, 10),
            Case("the same on a pipe in a sandbox", lambda: exchange(sandboxed), daemon.pid, 10),
            Case("the same with rules for single hosts", lambda: exchange(proxied), daemon.pid, 10),
        ]
        interleave(cases, rounds=40, seconds=seconds)
    return timings(
        "`true`, from spawn to stopped",
        "Resolved, recorded, started behind its gate, read to the end, reaped, looked after for what it "
        "leaves behind. Baseline: `subprocess` with a pipe for its output.",
        cases,
        baseline,
    )


def fifty(daemon: RunningDaemon, seconds: float) -> Section:
    """Spawn fifty in a batch."""
    with wires.lines(daemon.socket) as exchange:
        batch = json.dumps([_spawn(f"true{n}", n) for n in range(_MANY)]).encode()
        replies = json.loads(exchange(batch))
        assert len(replies) == _MANY and all("result" in reply for reply in replies), replies[0]
        baseline = Case(f"{_MANY} × `Popen`, then {_MANY} × `communicate`", _plain_many)
        cases = [
            baseline,
            Case(f"a batch of {_MANY} × `spawn`", lambda: exchange(batch), daemon.pid),
        ]
        interleave(cases, rounds=20, seconds=seconds)
    return timings(
        f"{_MANY} × `true` at once", "All of them, until the last has stopped.", cases, baseline
    )


def _start() -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        ["true"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def _plain() -> None:
    with _start() as process:
        process.communicate()


def _plain_many() -> None:
    started: list[Callable[[], object]] = [_start().communicate for _ in range(_MANY)]
    for finish in started:
        finish()
