"""Clock of the daemon's trio run."""

from __future__ import annotations

import time

import trio

from haftd.host.clock import MonotonicClock


def test_trio_time_is_that_of_the_kernel_and_deadlines_pass_by_it() -> None:
    async def main() -> tuple[float, float, float]:
        before = time.monotonic()
        now = trio.current_time()
        with trio.move_on_at(now + 0.02):
            await trio.sleep_forever()
        return before, now, trio.current_time()

    before, now, after = trio.run(main, clock=MonotonicClock())
    assert before <= now and now + 0.02 <= after <= time.monotonic()
