"""Reading takes linear time. An input 64 times as long may take 256 times the CPU time; a
quadratic step would take thousands of times."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from haftd.core.escapes import decode, pending
from haftd.core.spool import Budget, Spool
from haftd.core.text import STRIPPED, Rendering, cut
from haftd.runtimes.terminal.transcript import Transcript

UNITS = [
    b"\x9d", b"\xc2\x9d", b"\x1b]", b"\x1bP", b"\x1b[", b"\x1b[0", b"\x1b[1;", b"\x1b[?47;", b"47;",
    b"\r", b"a\r", b"\r\n", b"\xff", b"\x1b]8;;" + b"a" * 5_000, b" ", b"\x1b ",
]  # fmt: skip
SMALL, LARGE = 1_024, 65_536


def cost(work: Callable[[bytes], object], unit: bytes, size: int) -> float:
    data = (b"\x1b[?" + unit * (size // len(unit) + 1))[:size]
    best = float("inf")
    for _ in range(3):
        before = time.thread_time()
        work(data)
        best = min(best, time.thread_time() - before)
    return best


def reading(rendering: Rendering) -> Callable[[bytes], object]:
    def read(data: bytes) -> object:
        spool = Spool(1 << 20, 0, None, Budget(0))
        spool.append(data)
        return cut(spool, 0, spool.end, 1 << 20, final=True, rendering=rendering)

    return read


WAYS: dict[str, Callable[[bytes], object]] = {
    "decode": decode,
    "pending": pending,
    "plain": Transcript(24, 80).plain,
    "pipe": reading(STRIPPED),
    "terminal": reading(Transcript(24, 80)),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("unit", UNITS)
def test_no_step_is_quadratic(way: str, unit: bytes) -> None:
    work = WAYS[way]
    work(b"\x1b[9;9Hwarm")
    assert cost(work, unit, LARGE) < 256 * max(cost(work, unit, SMALL), 0.0002)
