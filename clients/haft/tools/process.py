"""One call of a tool as a process: the live form of a tool (`output = "events"`).

- The protocol's descriptors are private. The function's output becomes `running`; its subprocesses
  write to stderr. Standard input is empty.
- The result is a returned text, any other value as JSON, or after None the output.
- `cancel` cancels a coroutine; any other function gets `KeyboardInterrupt`.
"""

from __future__ import annotations

import codecs
import io
import json
import os
import signal
import sys
import traceback
from collections.abc import Iterable
from types import TracebackType
from typing import Any, NoReturn

from .errors import ToolError
from .lines import Lines
from .registry import TOOLS, Tool

_EXIT_USAGE = 64
_CALLERS = ("haft.tools.", "asyncio.")
"""Packages that call the tool."""


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
    lines = Lines()
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


class _Output(io.RawIOBase):
    """Standard output of the function, passed on as output of the tool."""

    def __init__(self, lines: Lines) -> None:
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


def _run(tool: Tool, arguments: dict[str, Any], lines: Lines) -> int:
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(_Output(lines)), encoding="utf-8", line_buffering=True
    )
    try:
        if tool.is_async:
            from .async_call import run_coroutine  # asyncio takes longer to import than all else

            result = run_coroutine(tool, arguments, lines)
        else:
            result = _call(tool, arguments, lines)
    except ToolError as error:
        return _fail(lines, error.message, error.trace, transient=error.transient)
    except Exception as error:
        return _fail(lines, f"{type(error).__name__}: {error}", _trace(error))
    except KeyboardInterrupt:
        sys.stdout.flush()
        return 128 + signal.SIGINT
    sys.stdout.flush()
    if result is not None:
        text = result if isinstance(result, str) else json.dumps(result)
        lines.send({"type": "stopped", "result": text})
    return 0


def _trace(error: BaseException) -> list[str]:
    """Format the traceback, and each chained exception's traceback, from the first frame of the tool's code on."""
    pending: list[BaseException | None] = [error]
    seen: set[int] = set()
    while pending:
        chained = pending.pop()
        if chained is None or id(chained) in seen:
            continue
        seen.add(id(chained))
        chained.__traceback__ = _own_part(chained.__traceback__)
        pending += [chained.__cause__, chained.__context__]
        if isinstance(chained, BaseExceptionGroup):
            pending += chained.exceptions
    return "".join(traceback.format_exception(error)).splitlines()


def _own_part(frames: TracebackType | None) -> TracebackType | None:
    """Drop the frames that lead to the tool; an exception without another keeps them."""
    rest = frames
    while rest is not None:
        module = f"{rest.tb_frame.f_globals.get('__name__')}."
        if not module.startswith(_CALLERS):
            return rest
        rest = rest.tb_next
    return frames


def _fail(lines: Lines, message: str, trace: Iterable[str], *, transient: bool = False) -> int:
    sys.stdout.flush()
    error = {"message": message, "trace": list(trace), "transient": transient}
    lines.send({"type": "stopped", "error": error})
    return 1


def _call(tool: Tool, arguments: dict[str, Any], lines: Lines) -> Any:
    def on_input(*_: object) -> None:
        if any(message.get("method") == "cancel" for message in lines.receive()):
            raise KeyboardInterrupt

    signal.signal(signal.SIGIO, on_input)
    lines.arm()
    on_input()
    try:
        return tool.function(**arguments)
    finally:
        lines.disarm()
