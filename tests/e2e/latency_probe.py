"""Latency of a daemon for its other clients, measured beside a bare trio loop. The prober is a
blocking process of its own and asks the daemon and a busy loop in a third process in turn, so
that the machine's own delays are known. The loop is busy in turns of a millisecond: the
kernel wakes a sleeper at once, and delays a process that always has work. The worst delay of
each second counts, and the median of the seconds is reported. `python -m tests.e2e.latency_probe
SOCKET` measures until its stdin ends."""

from __future__ import annotations

import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import trio

from tests.wire import Wire

_PAUSE_S = 0.001
_TURN_S = 0.001
_ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Delays:
    """The delays of a server's calls, as (second, seconds waited)."""

    waits: list[tuple[int, float]]

    @property
    def median(self) -> float:
        return statistics.median(wait for _, wait in self.waits)

    @property
    def longest(self) -> float:
        return max(wait for _, wait in self.waits)

    @property
    def longest_of_a_second(self) -> float:
        """The median over the seconds of the longest wait in each."""
        worst: dict[int, float] = {}
        for second, wait in self.waits:
            worst[second] = max(worst.get(second, 0.0), wait)
        return statistics.median(worst.values())

    def __str__(self) -> str:
        return (
            f"median {self.median * 1e3:.2f} ms, worst of a second {self.longest_of_a_second * 1e3:.1f} "
            f"ms, longest {self.longest * 1e3:.1f} ms, {len(self.waits)} calls"
        )


class Prober:
    """Probes while the context is open; afterwards `calls` and `noise` are set."""

    calls: Delays
    noise: Delays

    def __init__(self, path: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.e2e.latency_probe", str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=_ROOT,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"ready\n"

    def __enter__(self) -> Prober:
        return self

    def __exit__(self, *_: object) -> None:
        output, _stderr = self._process.communicate()
        assert self._process.returncode == 0
        report = json.loads(output)
        self.calls, self.stderr_tail = (Delays(report[name]) for name in ("calls", "noise"))


def _probe(path: Path) -> None:
    stop = threading.Event()

    def until_told() -> None:
        sys.stdin.read()
        stop.set()

    with tempfile.TemporaryDirectory(prefix="haft-") as folder:
        beside = Path(folder) / "bare"
        server = subprocess.Popen(
            [sys.executable, "-m", "tests.e2e.latency_probe", "--serve", str(beside)],
            stdout=subprocess.PIPE,
        )
        assert server.stdout is not None
        server.stdout.readline()
        waits: dict[str, list[tuple[int, float]]] = {"calls": [], "noise": []}
        try:
            with Wire(path) as wire, socket.socket(socket.AF_UNIX) as bare:
                bare.connect(str(beside))
                session = f"probe{os.getpid()}"
                wire.call("spawn", session=session, tool="run", id="cat", args={"argv": ["cat"]})
                wire.call("apply", session=session, id="cat", input={"line": "there"})
                threading.Thread(target=until_told, daemon=True).start()
                print("ready", flush=True)

                def timed(kind: str, act: object) -> None:
                    assert callable(act)
                    at = time.perf_counter()
                    act()
                    waits[kind].append((int(at), time.perf_counter() - at))

                def read() -> None:
                    state = wire.call("fetch", session=session, id="cat", cursor=0)
                    assert state["content"] == "there\n"

                def echo() -> None:
                    bare.sendall(b"ping\n")
                    assert bare.recv(64) == b"ping\n"

                while not stop.wait(_PAUSE_S):
                    timed("calls", lambda: wire.call("ping"))
                    timed("noise", echo)
                    timed("calls", read)
                    timed("noise", echo)
                wire.call("session/close", session=session)
        finally:
            server.kill()
            server.wait()
            server.stdout.close()
    print(json.dumps(waits))


async def _be_busy() -> None:
    while True:
        end = time.thread_time() + _TURN_S
        while time.thread_time() < end:
            pass
        await trio.lowlevel.checkpoint()


async def _serve(path: str) -> None:
    """Run a busy echo loop."""
    with trio.socket.socket(socket.AF_UNIX) as listener:
        await listener.bind(path)
        listener.listen(1)
        print("ready", flush=True)
        peer, _ = await listener.accept()
        with peer:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_be_busy)
                while data := await peer.recv(4096):
                    await peer.send(data)
                nursery.cancel_scope.cancel()


if __name__ == "__main__":
    if sys.argv[1] == "--serve":
        trio.run(_serve, sys.argv[2])
    else:
        _probe(Path(sys.argv[1]))
