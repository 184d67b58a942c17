"""A live tool: reports states as lines of JSON (docs/definitions.md).

A malformed state ends the tool like `stopped`. A question is asked in one step with its `content`:
a reader sees both or neither.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Sequence, Sized
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import msgspec
import trio

from haft_protocol.outcome import (
    Failure,
    Malformed,
    NeedsInput,
    Progress,
    Raw,
    Success,
    read_event,
)
from haftd.core.escapes import strip
from haftd.core.termination import exit_clause
from haftd.core.views import printable
from haftd.host.launch.launched_process import Exit
from haftd.runtimes.base import (
    Call,
    Input,
    InputRefused,
    InputState,
    PendingAnswer,
    RuntimeContext,
    ToolFailed,
)

from .child import Child, Output
from .failure_hint import find_error_line
from .interpreter import ToolResult, exit_state, malformed_failure
from .pipes import PipeControl

_MAX_LINE_LENGTH = 8 << 20
_MAX_STDERR_BYTES = 16_384
_MAX_STDERR_LINES = 20
_MAX_STDERR_LINE_LENGTH = 400


def _notification(method: str, params: object) -> bytes:
    return msgspec.json.encode({"jsonrpc": "2.0", "method": method, "params": params}) + b"\n"


def _call_context(call: Call) -> Any:
    context = call.launch.env.get("HAFT_CALL", "")
    if context.startswith("/"):
        context = Path(context).read_text(encoding="utf-8")
    return msgspec.json.decode(context) if context else {"tool": {"name": call.tool}}


class Requests(Protocol):
    """Requests of the process, beside its states."""

    @property
    def methods(self) -> Sequence[str]:
        """Names of methods, for the process."""

    def __len__(self) -> int:
        """Number of unanswered requests."""

    def take(self, line: bytes) -> bool:
        """Accept a request; return False for any other line."""

    def keep_up(self) -> Awaitable[None] | None:
        """Return an awaitable while too many requests wait."""

    async def serve(self, control: LiveControl) -> None:
        """Answer requests until cancelled."""

    def stop(self) -> None:
        """Cancel all requests: the process is being ended."""

    def members(self) -> tuple[int, ...]:
        """Pids of processes that work on requests."""


class LiveControl(PipeControl):
    """Sends input as notifications; `questions` are the unanswered questions."""

    def __init__(
        self,
        call: Call,
        context: RuntimeContext,
        child: Child,
        questions: Sized,
        requests: Requests | None,
    ) -> None:
        super().__init__(call, context, child)
        self._questions = questions
        self._requests = requests

    def input_state(self) -> InputState:
        is_answered = not self._questions and not self._requests
        return super().input_state() if is_answered else InputState("busy")

    def members(self) -> tuple[int, ...]:
        own = super().members()
        return own if self._requests is None else (*own, *self._requests.members())

    def feed(self, data: bytes) -> int:
        raise InputRefused("Its standard input uses the protocol of live tools.")

    def encode(self, item: Input) -> bytes:
        if item.kind == "bytes":
            raise InputRefused("The tool's input uses a protocol; give a `text`.")
        return _notification("apply", {"input": item.text})


class Live:
    """One run of a live tool; without `requests`, requests are output."""

    def __init__(
        self,
        call: Call,
        context: RuntimeContext,
        child: Child,
        requests: Requests | None = None,
    ) -> None:
        self._call = call
        self._context = context
        self._child = child
        self._requests = requests
        self._questions: deque[tuple[str, PendingAnswer]] = deque()
        self._answering = trio.CancelScope()
        self._control = LiveControl(call, context, child, self._questions, requests)
        self._line = bytearray()
        self._is_raw_line = False
        self._stderr = bytearray()
        self._late_question: str | None = None
        """Id of a question read after the process's end."""
        self._final: ToolResult | None = None
        self._event = trio.Event()

    async def run(self) -> str | None:
        child = self._child
        self._context.started(self._control)
        call = _call_context(self._call)
        if self._requests is not None:
            call["host"] = {"methods": self._requests.methods}
        self._notify("init", call)
        keep_up, requests = self._context.keep_up, self._requests
        tasks: list[Callable[[], Awaitable[None]]] = [self._serve_questions]
        if requests is not None:
            tasks.append(partial(requests.serve, self._control))
        outputs = [
            Output(child.stdout, self._feed, self._keep_up),
            Output(child.stderr, self._take_stderr, keep_up),
        ]
        await child.run(outputs, self, tasks, self._control.close)
        if self._final is None:
            return None
        if self._final.failure is not None:
            raise self._final.failure
        return self._final.result

    def _notify(self, method: str, params: object) -> bool:
        try:
            self._control.put(_notification(method, params))
        except InputRefused:
            return False  # its input is closed
        return True

    def _take_stderr(self, data: bytes) -> None:
        self._stderr += data
        del self._stderr[:-_MAX_STDERR_BYTES]
        self._child.emit(data)

    def _feed(self, data: bytes) -> None:
        *lines, rest = data.split(b"\n")
        for line in lines:
            if self._is_raw_line:
                self._is_raw_line = False
                self._child.emit(line + b"\n")
            else:
                whole, self._line = bytes(self._line) + line, bytearray()
                self._read(whole)
        if self._is_raw_line:
            self._child.emit(rest)
            return
        self._line += rest
        if len(self._line) > _MAX_LINE_LENGTH and self._requests is not None and not self._final:
            most = _MAX_LINE_LENGTH >> 20
            self._stop(
                ToolResult(failure=ToolFailed(f"The tool printed a line of more than {most} MiB."))
            )
        if self._cannot_be_a_state():
            self._is_raw_line = True
            whole, self._line = bytes(self._line), bytearray()
            self._child.emit(whole)

    def _cannot_be_a_state(self) -> bool:
        """True if the unfinished line is output, whatever follows on it."""
        begin = self._line[:64].lstrip()
        return (
            (bool(begin) and not begin.startswith(b"{"))
            or len(self._line) > _MAX_LINE_LENGTH
            or (bool(self._line) and self._final is not None)
        )

    def _keep_up(self) -> Awaitable[None] | None:
        rest = self._context.keep_up()
        return rest if rest is not None or self._requests is None else self._requests.keep_up()

    def _read(self, line: bytes, end: bytes = b"\n") -> None:
        if self._requests is not None and self._final is None and self._requests.take(line):
            return
        event = Raw() if self._final is not None else read_event(line)
        match event:
            case Raw():
                self._child.emit(line + end)
            case Progress(content=content):
                self._child.emit(content.encode())
            case NeedsInput(question=question, content=content):
                self._child.emit(content.encode())
                if self._child.ended:
                    self._late_question = question.id
                else:
                    self._questions.append((question.id, self._context.ask(question)))
                    self._event.set()
            case Success(content=content):
                self._child.emit(event.output.encode())
                self._stop(ToolResult(result=content))
            case Failure():
                self._child.emit(event.output.encode())
                failure = ToolFailed(event.message, event.trace, transient=event.transient)
                self._stop(ToolResult(failure=failure))
            case Malformed():
                self._child.emit(line + end)
                self._stop(ToolResult(failure=malformed_failure(event)))

    def _stop(self, result: ToolResult) -> None:
        self._final = result
        self._withdraw()
        self._answering.cancel()
        self._event.set()

    def _withdraw(self) -> None:
        while self._questions:
            _, pending = self._questions.popleft()
            pending.withdraw()

    async def _answer(self) -> None:
        while self._final is None:
            if not self._questions:
                self._event = trio.Event()
                await self._event.wait()
                continue
            name, pending = self._questions[0]
            with trio.CancelScope() as self._answering:
                answer = await pending.wait()
                if self._final is None:
                    self._questions.popleft()
                    self._notify("apply", {"question": name, "input": answer})

    async def _serve_questions(self) -> None:
        """Answer the questions; after the final state close the input and end the tool after the
        grace."""
        try:
            await self._answer()
        except ToolFailed as failure:
            self._final = ToolResult(failure=failure)
            self._child.terminate()
            return
        finally:
            self._withdraw()
        try:
            self._control.open_writer().end()
        except InputRefused:
            pass
        await trio.sleep(self._context.grace_s)
        self._child.terminate()

    def finish(self, exit: Exit) -> ToolResult:
        if self._line:
            self._read(bytes(self._line), b"")
            self._line.clear()
        if self._final is None:
            failure = self._unfinished(exit)
            self._final = None if failure is None else ToolResult(failure=failure)
        return self._final or ToolResult()

    def _unfinished(self, exit: Exit) -> ToolFailed | None:
        status = exit_state(exit)
        clause = "the process ended" if status is None else exit_clause(status)
        asked = self._questions[0][0] if self._questions else self._late_question
        if asked is not None:
            why = (
                f"without waiting for the answer to its question {asked!r}. A tool that ends after it has "
                'asked, to be run again with the answer, needs `output = "outcome"`'
            )
        elif exit.code == 0 or status is None:
            return None
        else:
            why = "before it printed a final state (`stopped`)"
        lines = self._stderr_lines()
        stderr = f"ends with: {find_error_line(lines)}" if lines else "is empty."
        return ToolFailed(
            f"T{clause[1:]} {why}. Its standard error {stderr}", tuple(lines), shows_output=True
        )

    def _stderr_lines(self) -> list[str]:
        text = strip(self._stderr.decode("utf-8", "replace"))
        lines = [line.rstrip() for line in text.splitlines() if line.strip()]
        return [printable(line, _MAX_STDERR_LINE_LENGTH) for line in lines[-_MAX_STDERR_LINES:]]

    def finish_killed(self) -> ToolResult:
        if self._line:
            self._child.emit(bytes(self._line))
            self._line.clear()
        return self._final or ToolResult()

    def request_stop(self) -> bool:
        if self._requests is not None:
            self._requests.stop()
        return self._notify("cancel", {})
