"""A program that floods its terminal delays no other client. The normal suite tests the cause:
while a bounded piece of the flood is processed, another client's call is answered. The long
form (`pytest -m soak -s`) measures the delays in seconds, beside those of an idle loop."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.latency_probe import Prober
from tests.running_daemon import RunningDaemon
from tests.wire import Wire

MB = 1_000_000
STALL_S = 0.020

PRINT = """
import os, sys
data, times = eval(sys.argv[1]), int(sys.argv[2])
for _ in range(times):
    at = 0
    while at < len(data):
        at += os.write(1, data[at:])
"""

PRINT_UNTIL_USR1 = """
import os, signal, sys
data, count, ends = eval(sys.argv[1]), 0, []
signal.signal(signal.SIGUSR1, lambda *_: ends.append(True))
while not ends:
    at = 0
    while at < len(data):
        at += os.write(1, data[at:])
    count += 1
os.write(1, b"times %d" % count)
"""
STEPS = 10

COLOURED = b"".join(
    b"\x1b[%d;1mline %07d\x1b[0m of \x1b[38;5;%dmcolour\x1b[0m text\n" % (31 + n % 7, n, n)
    for n in range(250)
)
REDRAWN = b"".join(b"\x1b[H\x1b[2J\x1b[%d;%dHhere %d" % (n % 24, n % 60, n) for n in range(250))
REPEATED = b"a\x1b[65535b" * 400
"""4,000 bytes that ask for 26 million characters."""


def printing(data: bytes, times: int) -> list[str]:
    return [sys.executable, "-S", "-c", PRINT, repr(data), str(times)]


def printing_until_usr1(data: bytes) -> list[str]:
    """Print `data` again and again; at last the number of times, after SIGUSR1."""
    return [sys.executable, "-S", "-c", PRINT_UNTIL_USR1, repr(data)]


def flood(wire: Wire, argv: list[str]) -> None:
    args = {"argv": argv, "terminal": True}
    wire.call("spawn", tool="run", id="flood", args=args, wait="none", view="tail", max_bytes=0)


def taken(wire: Wire) -> tuple[int, bool]:
    """Return the processed part of the flood, and true if the flood goes on."""
    state = wire.call("fetch", id="flood", view="tail", max_bytes=0)
    return state["cursor"], state["state"] == "running"


@pytest.mark.parametrize(
    ("data", "most"),
    [(COLOURED, None), (REDRAWN, None), (REPEATED, 8_000)],
    ids=["coloured", "redrawn", "few bytes that draw much"],
)
def test_other_clients_are_answered_between_pieces_of_a_flood(
    shared_daemon: RunningDaemon, data: bytes, most: int | None
) -> None:
    """The lowest decile: a busy machine delays this client for any number of pieces, but a daemon
    that answers after larger pieces never answers after a smaller one. A flood that is drawn as
    fast as it is printed has pieces of the program's size: their bound per step of the loop is
    that of `tests/runtimes/test_draw_turns.py`."""
    with shared_daemon.connect() as wire, shared_daemon.connect() as other:
        other.call("spawn", session="other", tool="run", id="cat", args={"argv": ["cat"]})
        other.call("apply", session="other", id="cat", input={"line": "there"}, wait="output")
        args = {"argv": ["true"], "terminal": True}
        wire.call("spawn", tool="run", id="first", args=args, wait="stopped")
        wire.call("fetch", id="first", view="screen")  # The terminal library is loaded.
        flood(wire, printing_until_usr1(data))
        wire.call("fetch", id="flood", wait="output", cursor=0, max_bytes=0)
        steps: list[int] = []
        while len(steps) < (STEPS if most else STEPS // 2):
            state = other.call("fetch", session="other", id="cat", cursor=0)
            assert state["content"] == "there\n"
            before, _ = taken(wire)
            assert other.call("ping") == {"pong": True}
            after, goes_on = taken(wire)
            assert goes_on
            if after > before:
                steps.append(after - before)
        other.call("session/close", session="other")
        wire.call("apply", id="flood", input={"signal": "USR1"}, wait="stopped")
        assert most is None or sorted(steps)[STEPS // 10] <= most
        # Every byte arrived, each line end as a terminal converts it.
        state = wire.call("fetch", id="flood", wait="stopped", view="tail", max_bytes=10)
        count = state["result"].rpartition("times ")[2]
        sent = int(count) * (len(data) + data.count(b"\n"))
        assert state["cursor"] == sent + len(f"times {count}")


FLOODS: dict[str, Callable[[Path], list[str]]] = {
    "lines": lambda file: ["cat", str(_filled(file, b"a line of some text, %09d of them\n", 100))],
    "coloured": lambda file: printing(COLOURED, 100 * MB // len(COLOURED)),
    "random": lambda file: ["head", "-c", str(100 * MB), "/dev/urandom"],
    "yes": lambda file: ["sh", "-c", f"yes | head -c {50 * MB}"],
    "redrawn": lambda file: printing(REDRAWN, 20 * MB // len(REDRAWN)),
    "repeated": lambda file: printing(REPEATED, 40),
}


def _filled(file: Path, line: bytes, size: int) -> Path:
    count = size * MB // len(line % 0)
    with file.open("wb") as out:
        for begin in range(0, count, 10_000):
            out.write(b"".join(line % n for n in range(begin, min(begin + 10_000, count))))
    return file


@pytest.mark.soak
@pytest.mark.parametrize("name", FLOODS)
def test_a_flood_of_100_mb_stalls_no_call_beyond_20_ms(
    daemon: RunningDaemon, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Apart from the machine's delay of a bare loop in the same seconds."""
    argv = FLOODS[name](tmp_path / "file")
    with daemon.connect() as wire, Prober(daemon.socket) as prober:
        began = time.monotonic()
        flood(wire, argv)
        while taken(wire)[1]:
            wire.call(
                "fetch", id="flood", wait="stopped", timeout_ms=15_000, view="tail", max_bytes=0
            )
        spent = time.monotonic() - began
        size, _ = taken(wire)
    with capsys.disabled():
        print(f"\n{name}: {size / MB:.1f} MB at {size / MB / spent:.1f} MB/s")
        print(f"    calls: {prober.calls}\n    bare loop: {prober.stderr_tail}")
    assert prober.calls.longest_of_a_second - prober.stderr_tail.longest_of_a_second < STALL_S
