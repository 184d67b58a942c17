"""Runtime of tools without a process: a coroutine that an abort cancels."""

from __future__ import annotations

import shlex
from abc import ABC, abstractmethod

from haft_protocol.states import Exit, LeftBehind
from haftd.core.termination import LOST, Termination
from haftd.core.text import STRIPPED, Rendering

from .base import (
    Call,
    Input,
    InputRefused,
    InputState,
    RuntimeContext,
    ToolFailed,
    WithoutScreen,
    is_cancellation,
)

__all__ = ["NoProcessControl", "NoProcessRuntime"]


class NoProcessRuntime(ABC):
    """Runs `perform` by the rules of `base`. The coroutine must not block the loop or start anything
    that outlives it. A longer example: docs/tools.md.

    >>> import trio
    >>> from haftd.runtimes.base import LaunchSpec
    >>> from haftd.testing import Recorder
    >>> class Upper(NoProcessRuntime):
    ...     async def perform(self, call: Call, context: RuntimeContext) -> str:
    ...         return str(call.arguments["text"]).upper()
    >>> call = Call("upper", LaunchSpec((), "/"), mark="", arguments={"text": "hi"})
    >>> trio.run(Upper().run, call, Recorder())
    'HI'
    """

    @abstractmethod
    async def perform(self, call: Call, context: RuntimeContext) -> str | None:
        """Run the tool; return the result, None if that is the output. Raises `ToolFailed`."""

    async def run(self, call: Call, context: RuntimeContext) -> str | None:
        context.started(NoProcessControl(shlex.join(call.launch.argv) or call.tool))
        try:
            result = await self.perform(call, context)
        except ToolFailed as failure:
            context.ended(failure.termination)
            raise
        except BaseException as error:
            if is_cancellation(error):
                context.ended(Termination(by=LOST))
            raise
        context.ended(Termination(result=result, exit=Exit(code=0) if result is None else None))
        return result


class NoProcessControl(WithoutScreen):
    """Control of a tool without a process, which takes no input.

    >>> NoProcessControl("upper hi").input_state().state
    'busy'
    """

    pid: int | None = None
    terminal = False
    rendering: Rendering = STRIPPED

    def __init__(self, command: str) -> None:
        self.command = command

    def write(self, item: Input) -> int:
        raise InputRefused("The tool is not a program and takes no input; it ends with its answer.")

    def feed(self, data: bytes) -> int:
        raise InputRefused("The tool is not a program and takes no input.")

    def kill(self) -> None:
        """Do nothing: the abort ends the coroutine."""

    def left_behind(self) -> tuple[LeftBehind, ...]:
        return ()

    def members(self) -> tuple[int, ...]:
        return ()

    def input_state(self) -> InputState:
        return InputState("busy")

    def read_output(self) -> None:
        """Do nothing: output is reported as it comes."""

    def is_suspended(self) -> bool:
        return False

    def hides_input(self) -> bool:
        return False
