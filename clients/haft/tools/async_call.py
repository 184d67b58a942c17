"""Call of a coroutine function, with answers and a cancellation while it runs."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections import deque
from collections.abc import Callable
from typing import Any

from .lines import Lines
from .questions import set_asker
from .registry import Tool


def run_coroutine(tool: Tool, arguments: dict[str, Any], lines: Lines) -> Any:
    """Return the coroutine's result; raise `KeyboardInterrupt` on cancellation."""
    try:
        return asyncio.run(_Session(lines).run(tool, arguments))
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


class _Session:
    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self._questions: dict[str, deque[asyncio.Future[Any]]] = {}
        self._cancel: Callable[[], object] = lambda: None

    async def run(self, tool: Tool, arguments: dict[str, Any]) -> Any:
        set_asker(self._ask)
        loop = asyncio.get_running_loop()
        task = loop.create_task(tool.function(**arguments))
        self._cancel = task.cancel
        loop.add_signal_handler(signal.SIGIO, self._hear)
        self._lines.arm()
        try:
            self._hear()
            return await task
        finally:
            self._lines.disarm()

    async def _ask(self, question: dict[str, Any]) -> Any:
        sys.stdout.flush()
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._questions.setdefault(question["id"], deque()).append(answer)
        self._lines.send({"type": "waiting", "question": question})
        return await answer

    def _hear(self) -> None:
        for message in self._lines.receive():
            params = message.get("params", {})
            if message.get("method") == "cancel":
                self._cancel()
            elif "question" in params:
                self._answer(params["question"], params["input"])
            else:
                sys.stderr.write("The tool takes no input but answers; the input was dropped.\n")
        if self._lines.is_closed and any(self._questions.values()):
            self._cancel()  # No answer can come.

    def _answer(self, question: str, answer: Any) -> None:
        if waiting := self._questions.get(question):
            future = waiting.popleft()
            if not future.done():
                future.set_result(answer)
