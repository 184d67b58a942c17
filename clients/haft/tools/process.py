"""One call of a tool as a process: the live form of a tool (`output = "events"`).

- The protocol's descriptors are private. The function's output becomes `running`; its subprocesses
  write to stderr. Standard input is empty.
- Input is signalled (SIGIO), never read blocking: haftd would take that for a wait for input.
- The result is a returned text, any other value as JSON, or after None the output.
- `cancel` cancels a coroutine; any other function gets `KeyboardInterrupt`.
"""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import fcntl
import io
import json
import os
import signal
import sys
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NoReturn

from .errors import ToolError
from .questions import set_asker
from .registry import TOOLS, Tool

_EXIT_USAGE = 64


def run() -> NoReturn:
    """Run the requested action with the tools decorated so far, and exit."""
    serve(TOOLS.values())


def serve(tools: Iterable[Tool]) -> NoReturn:
    """Describe these tools, or run one of them, and exit."""
    tools = list(tools)
    if not tools:
        _refuse("there is no tool in this program: decorate a function with `haft.tools.tool`")
    if "HAFT_CALL" not in os.environ:
        names = ", ".join(tool.name for tool in tools)
        _refuse(f"this is a program of tools for haft ({names}), which is started by haftd")
    action = _context().get("action", "run")
    if action == "schema":
        sys.stdout.write(json.dumps({"tools": [tool.message() for tool in tools]}) + "\n")
        sys.stdout.flush()
        raise SystemExit(0)
    if action != "run":
        _refuse(f"the action {action!r} is not known to this program")
    lines = _Lines()
    call = lines.first().get("params", {})
    raise SystemExit(_run(_chosen(tools, call["tool"]["name"]), call["tool"]["arguments"], lines))


def _refuse(why: str) -> NoReturn:
    sys.stderr.write(f"{why}\n")
    raise SystemExit(_EXIT_USAGE)


def _context() -> dict[str, Any]:
    text = os.environ["HAFT_CALL"]
    if text.startswith("/"):
        with open(text, encoding="utf-8") as file:
            text = file.read()
    context: dict[str, Any] = json.loads(text).get("context", {})
    return context


def _chosen(tools: list[Tool], name: str) -> Tool:
    by_name = {tool.name: tool for tool in tools}
    if name in by_name:
        return by_name[name]
    if len(tools) == 1:
        return tools[0]
    _refuse(f"there is no tool {name!r} in this program, only {', '.join(by_name)}")


class _Lines:
    def __init__(self) -> None:
        self._input = fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, 3)
        self._output = fcntl.fcntl(1, fcntl.F_DUPFD_CLOEXEC, 3)
        empty = os.open(os.devnull, os.O_RDONLY)
        os.dup2(empty, 0)
        os.close(empty)
        os.dup2(2, 1)
        self._buffer = bytearray()
        self.is_closed = False

    def first(self) -> dict[str, Any]:
        while b"\n" not in self._buffer and (data := os.read(self._input, 65536)):
            self._buffer += data
        return next(self._messages(), {})

    def arm(self) -> None:
        """Request a signal when input is readable."""
        os.set_blocking(self._input, False)
        fcntl.fcntl(self._input, fcntl.F_SETOWN, os.getpid())
        flags = fcntl.fcntl(self._input, fcntl.F_GETFL)
        fcntl.fcntl(self._input, fcntl.F_SETFL, flags | os.O_ASYNC)

    def disarm(self) -> None:
        """Stop the signal, as its default action would end the process."""
        flags = fcntl.fcntl(self._input, fcntl.F_GETFL)
        fcntl.fcntl(self._input, fcntl.F_SETFL, flags & ~os.O_ASYNC)

    def receive(self) -> list[dict[str, Any]]:
        with contextlib.suppress(BlockingIOError):
            while data := os.read(self._input, 65536):
                self._buffer += data
            self.is_closed = True
        return list(self._messages())

    def _messages(self) -> Iterator[dict[str, Any]]:
        while b"\n" in self._buffer:
            line, _, rest = self._buffer.partition(b"\n")
            self._buffer = rest
            yield json.loads(line)

    def send(self, state: dict[str, Any]) -> None:
        data = memoryview(json.dumps(state).encode() + b"\n")
        while data:
            data = data[os.write(self._output, data) :]


class _Output(io.RawIOBase):
    """Standard output of the function, passed on as output of the tool."""

    def __init__(self, lines: _Lines) -> None:
        self._lines = lines
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return 1

    def write(self, data: Any) -> int:
        text = self._decode(bytes(data))
        if text:
            self._lines.send({"type": "running", "content": text})
        return len(data)


def _run(tool: Tool, arguments: dict[str, Any], lines: _Lines) -> int:
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(_Output(lines)), encoding="utf-8", line_buffering=True
    )
    try:
        if tool.is_async:
            result = asyncio.run(_Session(lines).run(tool, arguments))
        else:
            result = _call(tool, arguments, lines)
    except ToolError as error:
        return _fail(lines, error.message, error.trace, transient=error.transient)
    except Exception as error:
        trace = "".join(traceback.format_exception(error)).splitlines()
        return _fail(lines, f"{type(error).__name__}: {error}", trace)
    except (KeyboardInterrupt, asyncio.CancelledError):
        sys.stdout.flush()
        return 128 + signal.SIGINT
    sys.stdout.flush()
    if result is not None:
        text = result if isinstance(result, str) else json.dumps(result)
        lines.send({"type": "stopped", "result": text})
    return 0


def _fail(lines: _Lines, message: str, trace: Iterable[str], *, transient: bool = False) -> int:
    sys.stdout.flush()
    error = {"message": message, "trace": list(trace), "transient": transient}
    lines.send({"type": "stopped", "error": error})
    return 1


def _call(tool: Tool, arguments: dict[str, Any], lines: _Lines) -> Any:
    def heard(*_: object) -> None:
        if any(message.get("method") == "cancel" for message in lines.receive()):
            raise KeyboardInterrupt

    signal.signal(signal.SIGIO, heard)
    lines.arm()
    heard()
    try:
        return tool.function(**arguments)
    finally:
        lines.disarm()


class _Session:
    def __init__(self, lines: _Lines) -> None:
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
