"""Tools that are the daemon's own: no process, only what the port can do.

Rules: one coroutine each, by the tool's name; the arguments of its call have been checked. There is nothing to
signal, to read or to leave behind.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from haft_protocol.questions import (
    AnswerType,
    Boolean,
    InvalidAnswer,
    Question,
    Select,
    Text,
    check_answer,
)
from haftd.core.text import STRIPPED, Rendering

from .base import (
    Call,
    Ended,
    Input,
    InputRefused,
    LeftOver,
    RuntimeContext,
    ScreenShot,
    ToolFailed,
    Wanted,
    is_cancellation,
)

__all__ = ["BUILTINS", "Builtin", "BuiltinRuntime"]

Builtin = Callable[[Call, RuntimeContext], Awaitable[str]]
"""Takes the call and the port; returns the result, or raises `ToolFailed`."""


class BuiltinRuntime:
    """The runtime of tools whose source is `builtin`."""

    def __init__(self, tools: Mapping[str, Builtin] | None = None) -> None:
        self._tools = BUILTINS if tools is None else tools

    async def run(self, call: Call, port: RuntimeContext) -> str | None:
        """See `base`."""
        port.started(_Grip(call))
        try:
            result = await self._tools[call.tool](call, port)
        except ToolFailed as failure:
            port.ended(Ended(failure=failure))
            raise
        except BaseException as error:
            if is_cancellation(error):
                port.ended(Ended(natural=False))
            raise
        port.ended(Ended(result=result))
        return result


async def _ask_user(call: Call, port: RuntimeContext) -> str:
    """Ask the person; the answer as a text."""
    arguments = call.arguments
    question = Question(
        id="answer",
        text=arguments["question"],
        answer_type=_answer_type(arguments),
        default=arguments.get("default"),
    )
    if question.default is not None:
        try:
            check_answer(question, question.default)
        except InvalidAnswer as wrong:
            raise ToolFailed(f"The `default` is no answer to it: {wrong}.") from None
    answer = await port.ask(question).wait()
    return answer if isinstance(answer, str) else msgspec.json.encode(answer).decode()


def _answer_type(arguments: Mapping[str, Any]) -> AnswerType:
    options = arguments.get("options")
    match arguments.get("type") or ("select" if options else "text"):
        case "boolean":
            return Boolean()
        case "select" if not options:
            raise ToolFailed("There are no `options` to select from.")
        case "select":
            return Select(options=tuple(options or ()))
    return Text()


BUILTINS: Mapping[str, Builtin] = {
    "ask_user": _ask_user,
}
"""Those that need nothing but their call and the port."""


class _Grip:
    """What can be done to a tool without a process: nothing but ending it."""

    pid: int | None = None
    terminal = False
    rendering: Rendering = STRIPPED

    def __init__(self, call: Call) -> None:
        self.command = call.tool

    def write(self, item: Input) -> int:
        raise InputRefused("It is no program and takes no input; it ends when it is answered.")

    def kill(self) -> None:
        """There is nothing to kill; the task that aborts it ends it at once."""

    def left_behind(self) -> tuple[LeftOver, ...]:
        return ()

    def members(self) -> tuple[int, ...]:
        return ()

    def screen(self) -> ScreenShot | None:
        return None

    def paint(self) -> bytes | None:
        return None

    def screen_digest(self) -> int | None:
        return None

    def wanted(self) -> Wanted:
        return Wanted("busy")

    def is_suspended(self) -> bool:
        return False

    def hides_input(self) -> bool:
        return False
