"""A runtime without a process: a coroutine of this process is the tool.

Rules: the coroutine only awaits; it neither blocks the loop nor starts what outlives it. There is nothing to signal,
to read or to leave behind; an abort cancels the coroutine.
"""

from __future__ import annotations

import shlex
from abc import ABC, abstractmethod

from haft_protocol.states import Exit, LeftBehind
from haftd.core.ending import LOST, Ending
from haftd.core.text import STRIPPED, Rendering

from .base import (
    Call,
    Input,
    InputRefused,
    RuntimeContext,
    ScreenShot,
    ToolFailed,
    Wanted,
    is_cancellation,
)

__all__ = ["NoProcessControl", "NoProcessRuntime"]


class NoProcessRuntime(ABC):
    """Runs `perform`, and reports its end as the rules of `base` want it.

    An example of one that is complete, and is loaded by the entry point `haft.runtimes`, is in docs/tools.md.
    """

    @abstractmethod
    async def perform(self, call: Call, port: RuntimeContext) -> str | None:
        """Do what the tool does; return its result, or None where its output is the result. Raises `ToolFailed`."""

    async def run(self, call: Call, port: RuntimeContext) -> str | None:
        """See `base`."""
        port.started(NoProcessControl(shlex.join(call.argv) or call.tool))
        try:
            result = await self.perform(call, port)
        except ToolFailed as failure:
            port.ended(failure.ending)
            raise
        except BaseException as error:
            if is_cancellation(error):
                port.ended(Ending(by=LOST))
            raise
        port.ended(Ending(result=result, exit=Exit(code=0) if result is None else None))
        return result


class NoProcessControl:
    """What can be done to a tool without a process: nothing but ending it."""

    pid: int | None = None
    terminal = False
    rendering: Rendering = STRIPPED

    def __init__(self, command: str) -> None:
        self.command = command

    def write(self, item: Input) -> int:
        """See `base.ExecutionControl`."""
        raise InputRefused("It is no program and takes no input; it ends when it is answered.")

    def feed(self, data: bytes) -> int:
        """See `base.ExecutionControl`."""
        raise InputRefused("It is no program and takes no input.")

    def kill(self) -> None:
        """See `base.ExecutionControl`. The task that aborts it ends it at once."""

    def left_behind(self) -> tuple[LeftBehind, ...]:
        """See `base.ExecutionControl`."""
        return ()

    def members(self) -> tuple[int, ...]:
        """See `base.ExecutionControl`."""
        return ()

    def screen(self) -> ScreenShot | None:
        """See `base.ExecutionControl`."""
        return None

    def paint(self) -> bytes | None:
        """See `base.ExecutionControl`."""
        return None

    def screen_digest(self) -> int | None:
        """See `base.ExecutionControl`."""
        return None

    def wanted(self) -> Wanted:
        """See `base.ExecutionControl`."""
        return Wanted("busy")

    def is_suspended(self) -> bool:
        """See `base.ExecutionControl`."""
        return False

    def hides_input(self) -> bool:
        """See `base.ExecutionControl`."""
        return False
