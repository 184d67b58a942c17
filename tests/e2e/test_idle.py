"""Nothing polls: an idle daemon with handles is not woken. The kernel counts context switches of
its tasks; strace, where installed, names the wake-up."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread

import psutil

from tests.patience import PATIENCE_S
from tests.running_daemon import RunningDaemon

WATCHED_S = 10.0
PIPES = 25
TERMINALS = 23
FAR_S = 300.0
"""The nearest deadline that the daemon may have set: `retain_stopped_s` of the stopped handle, less
the time that this test may take on a busy machine."""


def test_a_daemon_with_fifty_idle_handles_makes_no_wake_ups(
    daemon: RunningDaemon, short_tmp: Path
) -> None:
    with daemon.connect() as wire:
        for n in range(PIPES):
            wire.call("spawn", tool="run", id=f"p{n}", args={"argv": ["cat"]}, wait="none")
    with daemon.connect() as wire, daemon.connect("headers") as other, subscribed(daemon):
        for n in range(TERMINALS):
            wire.call("spawn", tool="shell", id=f"t{n}", wait="pattern", pattern=r"\S")
        # A program that has closed its terminal, with more typed input than the buffer takes.
        closes = f"exec </dev/null >/dev/null 2>&1; echo >{short_tmp}/c; exec sleep 600"
        os.mkfifo(short_tmp / "c")
        run = {"command": closes, "terminal": True}
        wire.call("spawn", tool="run", id="closed", args=run, wait="none")
        (short_tmp / "c").read_text()
        for _ in range(40):
            wire.call("apply", id="closed", input="x" * 999 + "\n", wait="none")
        # A program that has printed, got input, and was read on a screen; and a stopped one.
        wire.call("apply", id="t0", input={"line": "echo he''re"}, wait="pattern", pattern="here")
        wire.call("fetch", id="t0", view="screen")
        wire.call("apply", id="p0", input={"line": "here"}, wait="output")
        stopped = wire.call("spawn", tool="run", id="over", args={"argv": ["true"]}, wait="stopped")
        assert stopped["state"] == "stopped"
        # Pending calls are no work either.
        wire.start("fetch", id="p0", wait="output", timeout_ms=86_400_000)
        other.start("await", all=["t0"])
        wire.call("ping")
        other.call("ping")
        processes = ours(daemon.pid)
        until_asleep(processes)
        with traced(processes, short_tmp / "strace") as trace:
            before = switches(processes)
            time.sleep(WATCHED_S)
            after = switches(processes)
        # A thread that has been idle for long goes, once, and wakes no other.
        woken = {one: count - before.get(one, 0) for one, count in after.items()}
        woken = {one: count for one, count in woken.items() if count}
        assert not woken, f"switches in {WATCHED_S:g} s by thread: {woken}\n{trace.read_text()}"
        until_asleep(processes)
        assert deadline_s(daemon.pid) > FAR_S


def test_an_idle_daemon_has_no_child_at_a_gate(daemon: RunningDaemon) -> None:
    with daemon.connect() as wire:
        for name in ("first", "second", "third"):
            wire.call("spawn", tool="run", id=name, args={"argv": ["true"]}, wait="stopped")
        before = ours(daemon.pid)
        end = time.monotonic() + PATIENCE_S
        while {child.pid for child in psutil.Process(daemon.pid).children()} - {*before}:
            assert time.monotonic() < end, "a child still waits for a start"
            time.sleep(0.05)


@contextmanager
def subscribed(daemon: RunningDaemon) -> Iterator[None]:
    """Subscribe to all sessions and to one handle, and read the pushes: with a full buffer the queue
    of pushes would wait for the reader, and so for no deadline. The state of a terminal is read
    again in doubling pauses, so only a pipe's is subscribed to."""
    with daemon.connect() as editor:
        events = ["output", "screen", "notification"]
        editor.call("subscribe", session="*", events=events)
        editor.call("subscribe", handles=["p0"], events=["state", *events])

        def read() -> None:
            while editor.sock.recv(1 << 16):
                pass

        reader = Thread(target=read)
        reader.start()
        try:
            yield
        finally:
            editor.sock.shutdown(socket.SHUT_RDWR)
            reader.join()


def ours(pid: int) -> list[int]:
    """Return the daemon, and its guardian if there is one: its children that are no tools."""
    children = psutil.Process(pid).children()
    return [pid, *(child.pid for child in children if "guardian" in " ".join(child.cmdline()))]


def switches(pids: list[int]) -> dict[str, int]:
    """Return each thread's context switches, voluntary or not."""
    counts: dict[str, int] = {}
    for pid in pids:
        for status in Path(f"/proc/{pid}/task").glob("*/status"):
            with suppress(ProcessLookupError, FileNotFoundError):  # the thread has just ended
                lines = status.read_text().splitlines()
                switches = [line.split()[1] for line in lines if "ctxt_switches" in line]
                counts[f"{pid}/{status.parent.name}"] = sum(map(int, switches))
    return counts


def until_asleep(pids: list[int]) -> None:
    """Wait until start-up work is over: half a second without a switch, and the thread that
    loaded the terminal library gone, which its pool keeps for ten seconds."""
    end = time.monotonic() + 40
    last = switches(pids)
    while time.monotonic() < end:
        time.sleep(0.5)
        now = switches(pids)
        threads = len(list(Path(f"/proc/{pids[0]}/task").iterdir()))
        if now == last and threads == 1:
            return
        last = now
    raise AssertionError("the daemon did not come to rest within 40 s")


def deadline_s(pid: int) -> float:
    """Return the daemon's sleep by the argument of its `epoll_wait`, in seconds."""
    words = Path(f"/proc/{pid}/syscall").read_text().split()
    milliseconds = int(words[4], 16) & 0xFFFFFFFF
    return float("inf") if milliseconds == 0xFFFFFFFF else milliseconds / 1000


@contextmanager
def traced(pids: list[int], into: Path) -> Iterator[Path]:
    """Have strace, if installed, write every system call of the processes to a file."""
    into.touch()
    if shutil.which("strace") is None:
        into.write_text("(strace would say why)")
        yield into
        return
    args = [word for pid in pids for word in ("-p", str(pid))]
    tracer = subprocess.Popen(
        ["strace", "-f", "-tt", "-o", str(into), *args], stderr=subprocess.PIPE, text=True
    )
    assert tracer.stderr is not None
    try:
        for _ in pids:
            tracer.stderr.readline()  # "Process … attached"
        until_asleep(pids)
        yield into
    finally:
        tracer.terminate()
        tracer.wait()
        tracer.stderr.close()
