"""Cost of a call, and wake-ups of an idle daemon, by the number of handles and clients."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from tests.running_daemon import RunningDaemon
from tests.wire import Wire

from . import wires
from .interleaved_timer import Case, interleave
from .report import Section, timings

MANY = 1000
_CONFIG = """\
[daemon]
max_handles = 4000
max_handles_session = 4000
max_connections = 4000
"""
_IDLE_S = 5.0


def calls(folder: Path, seconds: float, many: int = MANY) -> Section:
    """Measure calls of a daemon that holds one handle, and of daemons with many handles or clients."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, many + 256)), hard))
    with ExitStack() as stack:
        cases: list[Case] = []
        idle: list[str] = []
        for name, fill in (
            ("one handle", None),
            (f"{many} running handles", _running),
            (f"{many} stopped, unread handles", _stopped),
            (f"{many} clients", _clients),
        ):
            daemon = RunningDaemon(folder / f"g{len(cases)}", config=_CONFIG).start()
            stack.callback(daemon.close)
            wire = stack.enter_context(daemon.connect())
            _spawn(wire, "one", "s", ["cat"], "none")
            if fill is not None:
                fill(daemon, wire, many, stack)
            exchange = stack.enter_context(wires.lines(daemon.socket))
            for method, params in (("ping", {}), ("fetch", {"id": "one", "session": "s"})):
                request = wires.message(method, **params)
                step = lambda exchange=exchange, request=request: exchange(request)  # noqa: E731
                cases.append(Case(f"`{method}`, {name}", step, daemon.pid, 100))
            spawn = _spawner(wire)
            cases.append(Case(f"`spawn` until stopped, {name}", spawn, daemon.pid, 3))
            idle.append(f"{name} {_wakes(daemon.pid):.1f}")
        interleave(cases, rounds=200, seconds=seconds)
        note = (
            "A daemon for each row, called in turns. Baseline: the same call of the daemon with one handle. Wake-ups of the "
            f"idle daemon in {_IDLE_S:g} s: {', '.join(idle)}."
        )
        section = timings("Calls by the number of handles and clients", note, cases, cases[0])
        for at, row in enumerate(section.rows):
            case, first = cases[at], cases[at % 3]
            share = case.median / first.median
            section.rows[at] = [*row[:3], f"{share:.2f}", *row[4:], f"{case.p99 / case.median:.1f}"]
        section.columns = [*section.columns, "p99 / median"]
        return section


def _spawn(wire: Wire, id: str, session: str, argv: list[str], wait: str) -> None:
    wire.call("spawn", tool="run", id=id, session=session, args={"argv": argv}, wait=wait)


def _spawner(wire: Wire) -> Callable[[], None]:
    number = iter(range(10**9))
    return lambda: _spawn(wire, f"x{next(number)}", "spawned", ["true"], "stopped")


def _running(daemon: RunningDaemon, wire: Wire, many: int, stack: ExitStack) -> None:
    for n in range(many):
        _spawn(wire, f"h{n}", f"s{n % 8}", ["cat"], "none")


def _stopped(daemon: RunningDaemon, wire: Wire, many: int, stack: ExitStack) -> None:
    for n in range(many):
        _spawn(wire, f"h{n}", f"s{n % 8}", ["true"], "none")


def _clients(daemon: RunningDaemon, wire: Wire, many: int, stack: ExitStack) -> None:
    for _ in range(many):
        client = stack.enter_context(daemon.connect())
        client.call("ping")


def _wakes(pid: int) -> float:
    """Return how often the idle main thread wakes up."""
    time.sleep(1)
    before = _switches(pid)
    time.sleep(_IDLE_S)
    return _switches(pid) - before


def _switches(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("voluntary_ctxt_switches:"):
            return int(line.split()[1])
    raise AssertionError("the kernel counts the switches")
