"""Tools of the daemon itself: coroutines by name."""

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

from .base import Call, RuntimeContext, ToolFailed
from .no_process import NoProcessRuntime

Builtin = Callable[[Call, RuntimeContext], Awaitable[str]]
"""Returns the result or raises `ToolFailed`."""


class BuiltinRuntime(NoProcessRuntime):
    """Runtime of tools with source `builtin`; the arguments are validated."""

    def __init__(self, tools: Mapping[str, Builtin] | None = None) -> None:
        self._tools = BUILTINS if tools is None else tools

    async def perform(self, call: Call, context: RuntimeContext) -> str:
        return await self._tools[call.tool](call, context)


async def _ask_user(call: Call, context: RuntimeContext) -> str:
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
            raise ToolFailed(f"The `default` is not a valid answer: {wrong}.") from None
    answer = await context.ask(question).wait()
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
"""Tools that need only call and context."""
