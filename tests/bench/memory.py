"""Memory and descriptors per idle handle and per idle connection."""

from __future__ import annotations

import os
import pty
import socket
import subprocess
import sys
import time
from pathlib import Path

from tests.running_daemon import RunningDaemon

from .echo import server
from .report import Section, kib, times

_MANY = 200
_WARM = 20


def held(folder: Path) -> Section:
    """Measure each kind in a fresh daemon, against a Python process with the same descriptors."""
    section = Section(
        f"Memory, the difference that {_MANY} make",
        f"Resident memory of the server with {_MANY} idle ones of a kind and without, divided. Baseline: a "
        "Python process that starts the same with `Popen`, or accepts the same, and keeps it.",
        ["", "each", "× baseline", "descriptors each"],
    )
    for name, of_daemon, of_plain in (
        ("a handle on a pipe (`cat`)", _handles(folder / "p", False), _plain("pipe")),
        ("a handle on a terminal (`cat`)", _handles(folder / "t", True), _plain("pty")),
        ("a connection", _connections(folder / "c"), _plain_connections(folder / "keep")),
    ):
        (ours, descriptors), (theirs, _) = of_daemon, of_plain
        section.rows.append([f"baseline: {name}", kib(theirs), "1", ""])
        share = times(ours / theirs) if theirs > 0 else ""
        section.rows.append([name, kib(ours), share, f"{descriptors:.1f}"])
    return section


def idle(folder: Path) -> int:
    """Resident bytes of a daemon that has answered once and holds nothing."""
    daemon = RunningDaemon(folder).start()
    try:
        with daemon.connect() as wire:
            wire.call("ping")
        return _resident(daemon.pid)
    finally:
        daemon.close()


def _handles(folder: Path, terminal: bool) -> tuple[float, float]:
    daemon = RunningDaemon(folder).start()
    try:
        with daemon.connect() as wire:

            def spawn(name: str) -> None:
                args = {"argv": ["cat"], "terminal": terminal}
                wire.call("spawn", tool="run", id=name, args=args, wait="none")

            for n in range(_WARM):
                spawn(f"w{n}")
            before = _figures(daemon.pid)
            for n in range(_MANY):
                spawn(f"h{n}")
            after = _figures(daemon.pid)
    finally:
        daemon.close()
    return (after[0] - before[0]) / _MANY, (after[1] - before[1]) / _MANY


def _connections(folder: Path) -> tuple[float, float]:
    daemon = RunningDaemon(folder).start()
    try:
        wires = [daemon.connect() for _ in range(_WARM)]
        for wire in wires:
            wire.call("ping")
        before = _figures(daemon.pid)
        wires += [daemon.connect() for _ in range(_MANY)]
        for wire in wires:
            wire.call("ping")
        after = _figures(daemon.pid)
        for wire in wires:
            wire.close()
    finally:
        daemon.close()
    return (after[0] - before[0]) / _MANY, (after[1] - before[1]) / _MANY


def _plain_connections(path: Path) -> tuple[float, float]:
    with server("keep", path) as pid:
        clients = _connect(path, _WARM)
        before = _figures(pid)
        clients += _connect(path, _MANY)
        end = time.monotonic() + 5
        while _figures(pid)[1] < before[1] + _MANY and time.monotonic() < end:
            time.sleep(0.01)
        after = _figures(pid)
        for client in clients:
            client.close()
    return (after[0] - before[0]) / _MANY, (after[1] - before[1]) / _MANY


def _connect(path: Path, count: int) -> list[socket.socket]:
    clients = []
    for _ in range(count):
        client = socket.socket(socket.AF_UNIX)
        client.connect(str(path))
        clients.append(client)
    return clients


def _plain(kind: str) -> tuple[float, float]:
    """Return the memory of a Python process with as many descriptors."""
    ran = subprocess.run(
        [sys.executable, "-m", "tests.bench.memory", kind],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    each, descriptors = ran.stdout.split()
    return float(each), float(descriptors)


def _hold(kind: str) -> None:
    held: list[tuple[subprocess.Popen[bytes], int]] = []

    def start() -> None:
        if kind == "pipe":
            pipe = subprocess.PIPE
            held.append((subprocess.Popen(["cat"], stdin=pipe, stdout=pipe), -1))
            return
        master, slave = pty.openpty()
        process = subprocess.Popen(
            ["cat"], stdin=slave, stdout=slave, stderr=slave, start_new_session=True
        )
        os.close(slave)
        held.append((process, master))

    for _ in range(_WARM):
        start()
    before = _figures(os.getpid())
    for _ in range(_MANY):
        start()
    after = _figures(os.getpid())
    for process, _master in held:
        process.kill()
        process.communicate()
    print((after[0] - before[0]) / _MANY, (after[1] - before[1]) / _MANY)


def _figures(pid: int) -> tuple[int, int]:
    return _resident(pid), sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())


def _resident(pid: int) -> int:
    """Resident bytes, exact: the figure in `statm` lags behind."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Rss:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("the kernel says how much is resident")


if __name__ == "__main__":
    _hold(sys.argv[1])
