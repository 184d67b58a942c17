"""A live tool that says its states as lines of JSON while it runs.

Rules:

- Standard input: the notification `init` with the context of the call first, then `apply` for
  every input and every answer, `cancel` when it is to end.
- Standard output: each line is a state, or the notification `state` with one in it. Any other
  line is output, kept as it is. What a state carries as `content` is output too.
- A malformed state is output and the tool's failure: nothing it says later counts, and it is ended
  as after `stopped`.
- `waiting` asks its question, in one step with its `content`: no reader sees one without the other.
  A second question waits for the first to be answered.
- `stopped` withdraws what is asked. Its input is closed then and it may leave; if it stays past the
  grace it is ended.
- Told to cancel, it has half of the grace to leave by itself.
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
from haftd.host.launch.spawn import Exit

from .base import Call, Input, InputRefused, PendingAnswer, RuntimeContext, ToolFailed, Wanted
from .child import Child, Output
from .interpreter import Said, malformed
from .pipes import PipeControl

__all__ = ["Live"]

_MAX_LINE_LENGTH = 8 << 20


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
        self._too_long = False
        self._said: Said | None = None
        self._event = trio.Event()

    async def run(self) -> str | None:
        """See it through."""
        child = self._child
        self._port.started(self._grip)
        self._tell("init", _context(self._call))
        outputs = [Output(child.stdout, self._feed), Output(child.stderr, child.emit)]
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

    def _feed(self, data: bytes) -> None:
        *lines, rest = data.split(b"\n")
        for line in lines:
            self._line += line
            whole, self._line = bytes(self._line), bytearray()
            if self._too_long:
                self._too_long = False
                self._child.emit(whole + b"\n")
            else:
                self._read(whole)
        self._line += rest
        if len(self._line) > _MAX_LINE_LENGTH:
            self._too_long = True
            whole, self._line = bytes(self._line), bytearray()
            self._child.emit(whole)

    def _read(self, line: bytes, end: bytes = b"\n") -> None:
        event = Raw() if self._said is not None else read_event(line)
        match event:
            case Raw():
                self._child.emit(line + end)
            case Progress(content=content):
                self._child.emit(content.encode())
            case NeedsInput(question=question, content=content):
                self._child.emit(content.encode())
                if not self._child.ended:
                    self._questions.append((question.id, self._port.ask(question)))
                    self._event.set()
            case Success(content=content):
                self._stop(Said(result=content))
            case Failure():
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
        return self._said or Said()

    def give_up(self) -> Said:
        """See `interpreter.Interpreter`."""
        if self._line:
            self._child.emit(bytes(self._line))
            self._line.clear()
        return self._said or Said()

    def part(self) -> bool:
        """See `interpreter.Interpreter`."""
        return self._tell("cancel", {})
