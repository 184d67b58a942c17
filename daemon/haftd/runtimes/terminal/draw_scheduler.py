"""Bounds the time of drawing in a pass of the loop, over all terminals."""

from __future__ import annotations

from collections.abc import Callable

import trio


class LoopPass(trio.abc.Instrument):
    """Current pass of the loop, and its seconds of drawing."""

    def __init__(self) -> None:
        self.number = 0
        self.spent = 0.0
        self.turn = trio.Lock()

    def before_io_wait(self, timeout: float) -> None:
        self.number += 1
        self.spent = 0.0


_loop_pass: trio.lowlevel.RunVar[LoopPass] = trio.lowlevel.RunVar("drawing")


def current() -> LoopPass | None:
    """Return the current pass; None outside a loop, where drawing is unbounded."""
    try:
        return _loop_pass.get()
    except LookupError:
        began = LoopPass()
        trio.lowlevel.add_instrument(began)
        _loop_pass.set(began)
        return began
    except RuntimeError:
        return None


async def in_turn(draw: Callable[[], bool]) -> bool:
    """Run `draw` in order, one a pass; return its result."""
    now = current()
    if now is None:
        raise AssertionError("only a task of the loop waits in line")
    async with now.turn:
        return draw()
