"""A live tool that says its states as lines of JSON while it runs.

Rules:

- Standard input: the notification `init` with the context of the call first, then `apply` for
  every input and every answer, `cancel` when it is to end.
- Standard output: each line is a state, or the notification `state` with one in it. Any other
  line is output, kept as it is, and passed on before its end where it cannot be a state. The `content`
  of a state is output too.
- A malformed state is output and the tool's failure: nothing it says later counts, and it is ended
  as after `stopped`.
- `waiting` asks its question, in one step with its `content`: no reader sees one without the other.
  A second question waits for the first to be answered.
- `stopped` withdraws what is asked. Its input is closed then and it may leave; if it stays past the
  grace it is ended.
- Told to cancel, it has half of the grace to leave by itself.
- An exit with code 0 and without `stopped` is a success, as of any raw program. Another end without it, or one with
  a question open, is a failure that quotes the end of standard error.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sized
from pathlib import Path
from typing import Any

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
from haftd.core.last_lines import printable
from haftd.core.outcomes import exit_clause
from haftd.host.launch.spawn import Exit
from haftd.runtimes.base import (
    Call,
    Input,
    InputRefused,
    PendingAnswer,
    RuntimeContext,
    ToolFailed,
    Wanted,
)

from .child import Child, Output
from .interpreter import Said, exit_state, malformed
from .pipes import PipeControl

_MAX_LINE_LENGTH = 8 << 20
_MAX_STDERR_BYTES = 16_384
_MAX_STDERR_LINES = 20
_MAX_STDERR_LINE_LENGTH = 400


def _notification(method: str, params: object) -> bytes:
    return msgspec.json.encode({"jsonrpc": "2.0", "method": method, "params": params}) + b"\n"


def _context(call: Call) -> Any:
    told = call.env.get("HAFT_CALL", "")
    if told.startswith("/"):
        told = Path(told).read_text(encoding="utf-8")
    return msgspec.json.decode(told) if told else {"tool": {"name": call.tool}}


class _LiveGrip(PipeControl):
    """Input goes in as notifications. `questions` are those of the tool that are not answered."""

    def __init__(self, call: Call, port: RuntimeContext, child: Child, questions: Sized) -> None:
        super().__init__(call, port, child)
        self._questions = questions

    def wanted(self) -> Wanted:
        """See `base.ExecutionControl`. One that has asked reads for the answer, and not for any input."""
        return Wanted("busy") if self._questions else super().wanted()

    def feed(self, data: bytes) -> int:
        """See `base.ExecutionControl`."""
        raise InputRefused("Its standard input speaks the protocol of live tools.")

    def encode(self, item: Input) -> bytes:
        return _notification("apply", {"input": item.text})


class Live:
    """One live tool."""

    def __init__(self, call: Call, port: RuntimeContext, child: Child) -> None:
        self._call = call
        self._port = port
        self._child = child
        self._questions: deque[tuple[str, PendingAnswer]] = deque()
        self._answering = trio.CancelScope()
        self._grip = _LiveGrip(call, port, child, self._questions)
        self._line = bytearray()
        self._is_raw_line = False
        self._stderr = bytearray()
        self._late_question: str | None = None
        """The id of a question that was read after the process had ended."""
        self._said: Said | None = None
        self._event = trio.Event()

    async def run(self) -> str | None:
        """See it through."""
        child = self._child
        self._port.started(self._grip)
        self._tell("init", _context(self._call))
        keep_up = self._port.keep_up
        outputs = [
            Output(child.stdout, self._feed, keep_up),
            Output(child.stderr, self._take_stderr, keep_up),
        ]
        await child.run(outputs, self, (*self._grip.tasks, self._attend), self._grip.close)
        if self._said is None:
            return None
        if self._said.failure is not None:
            raise self._said.failure
        return self._said.result

    def _tell(self, method: str, params: object) -> bool:
        try:
            self._grip.put(_notification(method, params))
        except InputRefused:
            return False  # It has closed its input: it does not want to know.
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
        if self._cannot_be_a_state():
            self._is_raw_line = True
            whole, self._line = bytes(self._line), bytearray()
            self._child.emit(whole)

    def _cannot_be_a_state(self) -> bool:
        """Whether the unfinished line is output, whatever follows."""
        begin = self._line[:64].lstrip()
        return (
            (bool(begin) and not begin.startswith(b"{"))
            or len(self._line) > _MAX_LINE_LENGTH
            or (bool(self._line) and self._said is not None)
        )

    def _read(self, line: bytes, end: bytes = b"\n") -> None:
        event = Raw() if self._said is not None else read_event(line)
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
                    self._questions.append((question.id, self._port.ask(question)))
                    self._event.set()
            case Success(content=content):
                self._child.emit(event.output.encode())
                self._stop(Said(result=content))
            case Failure():
                self._child.emit(event.output.encode())
                failure = ToolFailed(event.message, event.trace, transient=event.transient)
                self._stop(Said(failure=failure))
            case Malformed():
                self._child.emit(line + end)
                self._stop(Said(failure=malformed(event)))

    def _stop(self, said: Said) -> None:
        """It has said all, and wants no answer any more."""
        self._said = said
        self._withdraw()
        self._answering.cancel()
        self._event.set()

    def _withdraw(self) -> None:
        while self._questions:
            _, pending = self._questions.popleft()
            pending.withdraw()

    async def _answer(self) -> None:
        """Tell it each answer, until it has said all. Raises `ToolFailed` where there is none."""
        while self._said is None:
            if not self._questions:
                self._event = trio.Event()
                await self._event.wait()
                continue
            name, pending = self._questions[0]
            with trio.CancelScope() as self._answering:
                answer = await pending.wait()
                if self._said is None:
                    self._questions.popleft()
                    self._tell("apply", {"question": name, "input": answer})

    async def _attend(self) -> None:
        """Give it the answers to what it asks; see it out when it has said all."""
        try:
            await self._answer()
        except ToolFailed as failure:
            self._said = Said(failure=failure)
            self._child.dismiss()
            return
        finally:
            self._withdraw()
        try:
            self._grip.open_writer().end()
        except InputRefused:
            pass
        await trio.sleep(self._port.grace_s)
        self._child.dismiss()

    def finish(self, exit: Exit) -> Said:
        """See `interpreter.Interpreter`."""
        if self._line:
            self._read(bytes(self._line), b"")
            self._line.clear()
        if self._said is None:
            failure = self._unfinished(exit)
            self._said = None if failure is None else Said(failure=failure)
        return self._said or Said()

    def _unfinished(self, exit: Exit) -> ToolFailed | None:
        """Return the failure of a tool that has ended without a final state, if that is one."""
        status = exit_state(exit)
        clause = "the process ended" if status is None else exit_clause(status)
        asked = self._questions[0][0] if self._questions else self._late_question
        if asked is not None:
            why = (
                f"without waiting for the answer to its question {asked!r}. A tool that ends when it has "
                'asked, and is run again with the answer, needs `output = "outcome"`'
            )
        elif exit.code == 0 or status is None:
            return None
        else:
            why = "before it printed a final state (`stopped`)"
        lines = self._stderr_lines()
        stderr = f"ends with: {lines[-1]}" if lines else "is empty."
        return ToolFailed(
            f"T{clause[1:]} {why}. Its standard error {stderr}", tuple(lines), shows_output=True
        )

    def _stderr_lines(self) -> list[str]:
        """Return the last lines of standard error, without sequences for a terminal."""
        text = strip(self._stderr.decode("utf-8", "replace"))
        lines = [line.rstrip() for line in text.splitlines() if line.strip()]
        return [printable(line, _MAX_STDERR_LINE_LENGTH) for line in lines[-_MAX_STDERR_LINES:]]

    def give_up(self) -> Said:
        """See `interpreter.Interpreter`."""
        if self._line:
            self._child.emit(bytes(self._line))
            self._line.clear()
        return self._said or Said()

    def part(self) -> bool:
        """See `interpreter.Interpreter`."""
        return self._tell("cancel", {})
