"""Pacing: between two passes of the loop little is drawn, however many terminals there are.

Rules:

- What is drawn by the way counts for the whole loop: `spent` is set back once a pass.
- Who has more to draw waits in line (`in_line`), and one of all draws a turn in a pass.
- Where no loop runs nobody is held up, and nothing is counted.
"""

from __future__ import annotations

from collections.abc import Callable

import trio


class Pass(trio.abc.Instrument):
    """The present pass of a loop: its number, and how many seconds have gone into drawing in it."""

    def __init__(self) -> None:
        self.number = 0
        self.spent = 0.0
        self.line = trio.Lock()

    def before_io_wait(self, timeout: float) -> None:
        """A pass is over."""
        self.number += 1
        self.spent = 0.0


_pass: trio.lowlevel.RunVar[Pass] = trio.lowlevel.RunVar("drawing")


def current() -> Pass | None:
    """The pass that the loop is in; None where no loop runs."""
    try:
        return _pass.get()
    except LookupError:
        began = Pass()
        trio.lowlevel.add_instrument(began)
        _pass.set(began)
        return began
    except RuntimeError:
        return None


async def in_line(draw: Callable[[], bool]) -> bool:
    """Let `draw` take a turn behind all that wait already; returns what it says."""
    now = current()
    if now is None:
        raise AssertionError("only a task of the loop waits in line")
    async with now.line:
        return draw()
