"""Programs run for their output only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Literal

import trio
from msgspec import UNSET

from haft_protocol.states import Exit
from haftd.core.termination import Termination
from haftd.redaction import Redacted
from haftd.runtimes.base import Call, ExecutionControl, InputRefused, PendingAnswer, StartFailed

from .child import Child, Output
from .interpreter import Plain
from .pipes import PipeControl
from .resource_limits import ResourceLimits

MAX_OUTPUT_BYTES = 1 << 20
"""Bytes of standard output, beyond which the program is ended."""

_MAX_STDERR_BYTES = 4096
_GRACE_S = 0.5


class Failed(Redacted, frozen=True):
    """Failed run."""

    UNSHOWN: ClassVar[tuple[str, ...]] = ("stderr_tail",)

    kind: Literal["start", "input", "output", "time", "limit", "exit"]
    why: str
    """A clause; for `start` a sentence."""
    stderr_tail: bytes = b""
    """For the program's author only."""


class ContextWithoutHandle:
    """Part of `base.RuntimeContext` for a program without a handle, of which only the end counts."""

    def __init__(self, grace_s: float) -> None:
        self.grace_s = grace_s

    def started(self, control: ExecutionControl) -> None:
        pass

    def emit(self, data: bytes, *, is_stderr: bool = False) -> None:
        pass

    def keep_up(self) -> None:
        pass

    def written(self, number: int) -> None:
        pass

    def redrawn(self) -> None:
        pass

    def completed(self) -> None:
        pass

    def ask(self, question: Any, *, for_a_person: bool = False) -> PendingAnswer:
        raise AssertionError("a helper command asked a question")


class _Context(ContextWithoutHandle):
    def __init__(self) -> None:
        super().__init__(_GRACE_S)
        self.scope = trio.CancelScope()
        self.end: Termination | None = None

    def ended(self, termination: Termination, *, complete: bool = True) -> None:
        """Record the end; other processes are killed."""
        self.end = termination
        self.scope.cancel()


class Captured(Redacted, frozen=True):
    """Output of an ended program, with the end of standard error."""

    UNSHOWN: ClassVar[tuple[str, ...]] = (
        "stdout",
        "stderr",
    )

    stdout: bytes
    stderr: bytes
    end: Termination


async def run_captured(
    call: Call,
    clear_up: Callable[[Call, bool], None],
    request: bytes | None = None,
    max_stderr: int = _MAX_STDERR_BYTES,
    children: set[Child] | None = None,
) -> Captured:
    """Run the program of `call` and its descendants to the end. Raises `StartFailed`, and
    `InputRefused` for too long a request. `clear_up` as in `run_helper`; `children` has the process
    while it runs."""
    context = _Context()
    stderr_tail = bytearray()
    try:
        output = await _run(call, context, request, stderr_tail, max_stderr, children)
    finally:
        clear_up(call, context.end is None or not context.end.unconfirmed)
    if context.end is None:
        raise AssertionError("the child was supervised to its end, and no end was reported")
    return Captured(output, bytes(stderr_tail), context.end)


async def run_helper(
    call: Call, clear_up: Callable[[Call, bool], None], request: bytes | None = None
) -> bytes | Failed:
    """Run the program of `call` and its descendants; return standard output or the failure.
    `request` needs `pipe` as standard input; `call.launch.output` must not be `raw`. `clear_up`
    follows the last process, also on cancellation; False: some may be left. Input and output are
    never logged."""
    try:
        captured = await run_captured(call, clear_up, request)
    except StartFailed as failed:
        return Failed("start", failed.message)
    except InputRefused:
        return Failed("input", "gets more input than it reads")
    end = captured.end
    if end.exit == Exit(code=0) and end.limit is None:
        return captured.stdout
    return _failed(call, end, captured.stderr)


def _failed(call: Call, end: Termination, stderr_tail: bytes) -> Failed:
    if end.limit == "output":
        return Failed("output", f"printed more than {MAX_OUTPUT_BYTES} bytes", stderr_tail)
    if end.limit == "wall_s":
        return Failed("time", f"did not end within {call.launch.limits['wall_s']:g} s", stderr_tail)
    if end.limit is not None:
        return Failed("limit", f"exceeded its limit `{end.limit}`", stderr_tail)
    exit = end.exit or Exit()
    how = f"by SIG{exit.signal}" if exit.code is UNSET else f"with exit code {exit.code}"
    return Failed("exit", f"ended {how}", stderr_tail)


async def _run(
    call: Call,
    context: _Context,
    request: bytes | None,
    stderr_tail: bytearray,
    max_stderr: int,
    children: set[Child] | None,
) -> bytes:
    output = bytearray()
    async with await Child.start(call, context, ResourceLimits(call.launch.limits)) as child:

        def take(data: bytes) -> None:
            output.extend(data[: MAX_OUTPUT_BYTES + 1 - len(output)])
            if len(output) > MAX_OUTPUT_BYTES:
                child.pass_limit("output")

        def take_stderr(data: bytes) -> None:
            stderr_tail.extend(data)
            del stderr_tail[:-max_stderr]

        control = PipeControl(call, context, child)
        if request is not None:
            control.put(request)
            control.open_writer().end()
        outputs = [Output(child.stdout, take), Output(child.stderr, take_stderr)]
        if children is not None:
            children.add(child)
        try:
            with context.scope:
                await child.run(outputs, Plain(), at_end=control.close)
        finally:
            if children is not None:
                children.remove(child)
    return bytes(output)
