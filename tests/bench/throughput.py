"""Output throughput of one process, and the daemon's latency for other clients meanwhile."""

from __future__ import annotations

import json
import os
import pty
import re
import shlex
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from tests.running_daemon import RunningDaemon

from . import wires
from .interleaved_timer import percentile
from .report import Section, megabytes, spell, times

_FILE = 16 << 20
_PIPED = 64  # times the file: 1 GiB
_TYPED = 2  # times the file: about a terminal's throughput in a second
_CHUNK = 65_536
_OMITTED = re.compile(rb'"omitted":(\d+)')
_LOOP, _PTY = "Python loop, `os.read` of 64 KiB", "the same loop on a pty"


def flood(daemon: RunningDaemon, folder: Path, seconds: float) -> Section:
    """1 GiB of text through a pipe, without and with a reader; 32 MiB through a terminal."""
    file = folder / "text"
    line = "%07d the quick brown fox jumps over the lazy dog, and nobody reads what it says\n"
    file.write_text("".join(line % n for n in range(_FILE // 80)))
    size = file.stat().st_size
    missed: list[int] = []
    piped, typed = ["cat", *[str(file)] * _PIPED], ["cat", *[str(file)] * _TYPED]
    kinds: list[tuple[str, int, Callable[[], float], bool]] = [
        (_LOOP, _PIPED, lambda: _loop(piped), False),
        ("`cat | wc -c`", _PIPED, lambda: _shell(f"{shlex.join(piped)} | wc -c"), False),
        ("a handle, nobody reading", _PIPED, lambda: _held(daemon, piped), True),
        ("a handle, somebody reading", _PIPED, lambda: _read(daemon, piped, missed), True),
        (_PTY, _TYPED, lambda: _pty(typed), False),
        ("a handle on a terminal", _TYPED, lambda: _held(daemon, typed, terminal=True), True),
    ]
    rates: dict[str, list[float]] = {name: [] for name, *_ in kinds}
    delays: dict[str, list[float]] = {name: [] for name, *_ in kinds}
    end = time.monotonic() + seconds
    for number in range(7):
        if number >= 3 and time.monotonic() > end:
            break
        for name, files, run, ours in kinds:
            if ours:
                with _Pinger(daemon.socket) as pinger:
                    rates[name].append(size * files / run())
                delays[name] += pinger.delays
            else:
                rates[name].append(size * files / run())
    with _Pinger(daemon.socket) as pinger:
        time.sleep(1)
    got = 1 - sum(missed) / (size * _PIPED * len(rates["a handle, somebody reading"]))
    section = Section(
        "Output of one process",
        "1 GiB of lines from `cat` through a pipe, 32 MiB through a terminal. A reader never slows the "
        f"program: this one got {got:.0%}, at most 8 MiB a reply, and was told of the rest. *ping*: what another client "
        f"waits for its reply meanwhile (idle: {spell(statistics.median(pinger.delays))} median, "
        f"{spell(percentile(pinger.delays, 0.99))} p99, one ping each 2 ms).",
        ["", "rate", "× baseline", "ping, median", "ping, p99"],
    )
    for name, *_ in kinds:
        base = rates[_PTY if "terminal" in name or name == _PTY else _LOOP]
        pairs = zip(rates[name], base, strict=True)
        share = statistics.median(ours / theirs for ours, theirs in pairs)
        seen = delays[name]
        section.rows.append(
            [
                name,
                megabytes(statistics.median(rates[name]), 1),
                "1" if rates[name] is base else times(share),
                spell(statistics.median(seen)) if seen else "",
                spell(percentile(seen, 0.99)) if seen else "",
            ]
        )
    return section


def _loop(argv: list[str]) -> float:
    at = time.perf_counter()
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        _drain(process.stdout.fileno())
    return time.perf_counter() - at


def _drain(fd: int) -> None:
    try:
        while os.read(fd, _CHUNK):
            pass
    except OSError:
        pass  # how the end of a terminal reads


def _shell(command: str) -> float:
    at = time.perf_counter()
    subprocess.run(["sh", "-c", command], stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - at


def _pty(argv: list[str]) -> float:
    master, slave = pty.openpty()
    at = time.perf_counter()
    process = subprocess.Popen(argv, stdin=slave, stdout=slave, stderr=slave)
    os.close(slave)
    _drain(master)
    process.wait()
    spent = time.perf_counter() - at
    os.close(master)
    return spent


def _spawn(argv: list[str], terminal: bool, wait: str) -> bytes:
    args = {"argv": argv, "terminal": terminal}
    return wires.message(
        "spawn",
        tool="run",
        id="flood",
        args=args,
        wait=wait,
        timeout_ms=60_000,
        view="tail",
        max_bytes=0,
    )


def _held(daemon: RunningDaemon, argv: list[str], *, terminal: bool = False) -> float:
    with wires.lines(daemon.socket) as exchange:
        at = time.perf_counter()
        reply = exchange(_spawn(argv, terminal, "stopped"))
        spent = time.perf_counter() - at
    assert json.loads(reply)["result"]["state"] == "stopped", reply[:500]
    return spent


def _read(daemon: RunningDaemon, argv: list[str], missed: list[int]) -> float:
    """Read as fast as possible; `missed` counts the bytes that the spool had dropped."""
    with wires.lines(daemon.socket) as exchange:
        at = time.perf_counter()
        exchange(_spawn(argv, False, "none"))
        more = wires.message("fetch", id="flood", wait="output", max_bytes=8 << 20)
        running = True
        while running:
            head = exchange(more)[:300]
            running = b'"state":"running"' in head
            omitted = _OMITTED.search(head)
            missed.append(int(omitted[1]) if omitted else 0)
        return time.perf_counter() - at


class _Pinger:
    """Another client in its own process that pings every 2 ms; `delays` are its waits."""

    def __init__(self, path: Path) -> None:
        self.delays: list[float] = []
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.bench.throughput", str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[2],
        )
        assert self._process.stdout is not None
        self._process.stdout.readline()

    def __enter__(self) -> _Pinger:
        return self

    def __exit__(self, *_: object) -> None:
        output, _stderr = self._process.communicate()
        self.delays = [float(line) for line in output.split()]


def _ping_on(path: Path) -> None:
    exchange, ping = wires.lines(path), wires.message("ping")
    stop = threading.Event()

    def until_told() -> None:
        sys.stdin.read()
        stop.set()

    threading.Thread(target=until_told, daemon=True).start()
    print("ready", flush=True)
    delays = []
    while not stop.wait(0.002):
        at = time.perf_counter()
        exchange(ping)
        delays.append(time.perf_counter() - at)
    print("\n".join(map(str, delays)))


if __name__ == "__main__":
    _ping_on(Path(sys.argv[1]))
