"""A program that is run to its end for what it prints: nobody holds it, nobody watches it.

Rules: it is started, recorded and ended as every tool is: when its end has come, when it is wanted no
more (cancellation), when its time is over (`wall_s` of the call's limits), when it says too much; and
with it all that it has started. What it prints counts only when it exits with 0. Nothing is logged of
what it is given and what it says.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import trio
from msgspec import UNSET

from haft_protocol.states import Exit
from haftd.core.ending import Ending
from haftd.runtimes.base import Call, ExecutionControl, InputRefused, PendingAnswer, StartFailed

from .child import Child, Output
from .interpreter import Plain
from .pipes import PipeControl
from .resource_limits import ResourceLimits

MAX_OUTPUT_BYTES = 1 << 20
"""Bytes of its standard output; one that says more is ended."""

_MAX_STDERR_BYTES = 4096
_GRACE_S = 0.5


@dataclass(frozen=True, slots=True)
class Failed:
    """What it printed does not count. `why` is a clause that follows its name; for `start` it is a
    sentence. `noise` is the end of its standard error, for the author of the program alone."""

    kind: Literal["start", "input", "output", "time", "limit", "exit"]
    why: str
    noise: bytes = field(default=b"", repr=False)


class _Port:
    """What is reported of one run; its end is all that counts."""

    def __init__(self) -> None:
        self.grace_s = _GRACE_S
        self.scope = trio.CancelScope()
        self.end: Ending | None = None

    def started(self, grip: ExecutionControl) -> None:
        """See `base.RuntimeContext`."""

    def emit(self, data: bytes) -> None:
        """See `base.RuntimeContext`."""

    def keep_up(self) -> None:
        """See `base.RuntimeContext`."""

    def written(self, number: int) -> None:
        """See `base.RuntimeContext`."""

    def ended(self, ending: Ending, *, complete: bool = True) -> None:
        """See `base.RuntimeContext`. What it has left behind is not waited for, but ended."""
        self.end = ending
        self.scope.cancel()

    def redrawn(self) -> None:
        """See `base.RuntimeContext`."""

    def completed(self) -> None:
        """See `base.RuntimeContext`."""

    def ask(self, question: Any, *, for_a_person: bool = False) -> PendingAnswer:
        """See `base.RuntimeContext`."""
        raise AssertionError("a helper command asks nothing")


async def run_helper(
    call: Call, clear_up: Callable[[Call, bool], None], given: bytes | None = None
) -> bytes | Failed:
    """Run the program of `call` to its end; returns its standard output, or why that does not count.

    `given` is written to its standard input (`call.stdin` is `pipe` then, `null` without). The output
    of `call` is not `raw`, so that standard error is apart. `clear_up` is called when nothing of it is
    left, with whether all of it was confirmed gone; also when this is cancelled.
    """
    port = _Port()
    noise = bytearray()
    try:
        said = await _played(call, port, given, noise)
    except StartFailed as failed:
        return Failed("start", failed.message)
    except InputRefused:
        return Failed("input", "is given more than it takes")
    finally:
        clear_up(call, port.end is None or not port.end.unconfirmed)
    end = port.end
    if end is None:
        raise AssertionError("a child that was seen through has ended")
    return (
        said if end.exit == Exit(code=0) and end.limit is None else _failed(call, end, bytes(noise))
    )


def _failed(call: Call, end: Ending, noise: bytes) -> Failed:
    if end.limit == "output":
        return Failed("output", f"printed more than {MAX_OUTPUT_BYTES} bytes", noise)
    if end.limit == "wall_s":
        return Failed("time", f"did not end within {call.limits['wall_s']:g} s", noise)
    if end.limit is not None:
        return Failed("limit", f"has passed its limit `{end.limit}`", noise)
    exit = end.exit or Exit()
    how = f"by SIG{exit.signal}" if exit.code is UNSET else f"with exit code {exit.code}"
    return Failed("exit", f"ended {how}", noise)


async def _played(call: Call, port: _Port, given: bytes | None, noise: bytearray) -> bytes:
    said = bytearray()
    async with await Child.start(call, port, ResourceLimits(call.limits)) as child:

        def take(data: bytes) -> None:
            said.extend(data[: MAX_OUTPUT_BYTES + 1 - len(said)])
            if len(said) > MAX_OUTPUT_BYTES:
                child.pass_limit("output")

        def hear(data: bytes) -> None:
            noise.extend(data)
            del noise[:-_MAX_STDERR_BYTES]

        grip = PipeControl(call, port, child)
        if given is not None:
            grip.put(given)
            grip.open_writer().end()
        outputs = [Output(child.stdout, take), Output(child.stderr, hear)]
        with port.scope:
            await child.run(outputs, Plain(), grip.tasks, grip.close)
    return bytes(said)
