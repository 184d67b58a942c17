"""Latency of a subscriber beside a second subscriber that never reads."""

from __future__ import annotations

import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil

from tests.running_daemon import RunningDaemon
from tests.wire import Wire

from .interleaved_timer import percentile
from .report import Section, spell

_SETTLED_S = 0.5
"""How long `yes` runs before the memory is looked at: the spool has all its memory by then."""


def beside_a_sleeper(folder: Path, seconds: float) -> Section:
    """Time a reader of all output of `yes`, in turns with and without a second reader that never
    reads."""
    daemon = RunningDaemon(folder / "readers").start()
    memory: dict[bool, list[tuple[int, int]]] = {False: [], True: []}
    delays: dict[bool, list[float]] = {False: [], True: []}
    reports: list[int] = []
    try:
        for number in range(6):
            asleep = number % 2 == 1
            _round(daemon, number, asleep, seconds / 6, delays[asleep], memory[asleep], reports)
    finally:
        daemon.close()
    section = Section(
        "A reader that stops reading",
        "`yes` into a handle; a client is told of its output, and calls `ping` on the same connection "
        "every 2 ms. With and without another that was told as well and reads nothing; when it read "
        f"again, it was told that it had missed {_mib(statistics.median(reports))} (median), and from "
        "where. *memory*: of the daemon, once the spool was full, and at the end.",
        ["", "its calls, median", "p99", "memory before", "after"],
    )
    for asleep, name in ((False, "alone"), (True, "beside one that does not read")):
        before, after = (statistics.median(column) for column in zip(*memory[asleep], strict=True))
        section.rows.append(
            [
                name,
                spell(statistics.median(delays[asleep])),
                spell(percentile(delays[asleep], 0.99)),
                _mib(before),
                _mib(after),
            ]
        )
    return section


def _mib(count: float) -> str:
    return f"{count / (1 << 20):,.1f} MiB"


def _round(
    daemon: RunningDaemon,
    number: int,
    asleep: bool,
    seconds: float,
    delays: list[float],
    memory: list[tuple[int, int]],
    reports: list[int],
) -> None:
    session, process = f"r{number}", psutil.Process(daemon.pid)
    with daemon.connect() as wire, daemon.connect() as sleeper:
        if asleep:
            sleeper.call("subscribe", session=session, events=["output"])
        good = subprocess.Popen(
            [sys.executable, "-m", "tests.bench.readers", str(daemon.socket), session],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[2],
        )
        assert good.stdout is not None
        good.stdout.readline()
        args = {"argv": ["yes"]}
        wire.call("spawn", session=session, tool="run", id="yes", args=args, wait="none")
        time.sleep(_SETTLED_S)
        before = process.memory_info().rss
        time.sleep(seconds)
        memory.append((before, process.memory_info().rss))
        output, _ = good.communicate()
        delays += [float(line) for line in output.split()]
        wire.call("abort", session=session, id="yes")
        if asleep:
            reports.append(_missed(sleeper))
        wire.call("session/close", session=session)


def _missed(sleeper: Wire) -> int:
    """Read again, up to the push that reports omitted output."""
    while True:
        omitted: int = sleeper.told("handle/output")["params"].get("omitted", 0)
        if omitted:
            return omitted


def _read_on(path: str, session: str) -> None:
    """Subscribe to all output, and call beside the subscription, until stdin ends."""
    stop = threading.Event()

    def until_told() -> None:
        sys.stdin.read()
        stop.set()

    threading.Thread(target=until_told, daemon=True).start()
    delays = []
    with Wire(path) as wire:
        wire.call("subscribe", session=session, events=["output"])
        print("ready", flush=True)
        number = 0
        while not stop.wait(0.002):
            number += 1
            at = time.perf_counter()
            wire.send_raw(b'{"jsonrpc":"2.0","id":"p%d","method":"ping"}\n' % number)
            while wire.receive().get("id") != f"p{number}":
                pass
            delays.append(time.perf_counter() - at)
    print("\n".join(map(str, delays)))


if __name__ == "__main__":
    _read_on(*sys.argv[1:])
