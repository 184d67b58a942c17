"""A one-shot tool that says an outcome at its end, and may ask before it can.

Rules:

- A tool that asks has ended. It is run again with the answer added, as often as it asks, up to
  `_MOST_RUNS`; nothing outside knows of that. What an asking run left behind is ended first.
- Standard output is held back while it may still become an outcome, and goes out as it comes from
  the moment it cannot: it begins otherwise, or is too long. What is no outcome is output.
- What a process killed by a signal had said is output, not its outcome.
- Answers reach the tool through `Call.again`, else through `tool.answers` of HAFT_CALL.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import trio

from haft_protocol.errors import RpcError
from haft_protocol.outcome import Failure, NeedsInput, Progress, Raw, Success, read_outcome
from haft_protocol.questions import Question
from haftd.host.launch import Exit

from .base import Call, Ended, Port, StartFailed, ToolFailed
from .bounds import Bounds
from .child import Child, Output
from .pipes import PipeGrip
from .reading import Said

__all__ = ["OneShot", "with_answers"]

_MOST_RUNS = 100
_MOST_HELD = 8 << 20
_MOST_INLINE = 65_536


class OneShot:
    """The runs of one call."""

    def __init__(self, call: Call, port: Port, bounds: Bounds, child: Child) -> None:
        self._call = call
        self._port = port
        self._bounds = bounds
        self._child = child

    async def run(self) -> str | None:
        """See it through all its runs."""
        child = self._child
        grip = PipeGrip(self._call, self._port, child)
        self._port.started(grip)
        answers: dict[str, Any] = {}
        spare = None
        runs = 1
        try:
            while True:
                said = _Outcome(child, may_ask=runs < _MOST_RUNS)
                outputs = [Output(child.stdout, said.feed), Output(child.stderr, child.emit)]
                await child.run(outputs, said, grip.tasks, grip.close)
                if said.question is None:
                    break
                answers[said.question.id] = await self._ask(said.question)
                _remove(spare)
                call, spare = self._resolve(answers)
                child = await self._start(call)
                grip.attach(child)
                runs += 1
        finally:
            _remove(spare)
        if said.said.failure is not None:
            raise said.said.failure
        return said.said.result

    async def _ask(self, question: Question) -> Any:
        try:
            return await self._port.ask(question)
        except trio.Cancelled:
            self._port.ended(Ended(natural=False))
            raise
        except ToolFailed as failure:
            self._port.ended(Ended(failure=failure))
            raise

    def _resolve(self, answers: Mapping[str, Any]) -> tuple[Call, Path | None]:
        try:
            return with_answers(self._call, answers)
        except (RpcError, OSError, ValueError, msgspec.MsgspecError) as error:
            raise self._cannot(str(error)) from None

    async def _start(self, call: Call) -> Child:
        try:
            return await Child.start(call, self._port, self._bounds)
        except trio.Cancelled:
            self._port.ended(Ended(natural=False))
            raise
        except StartFailed as failed:
            raise self._cannot(failed.message) from None

    def _cannot(self, why: str) -> ToolFailed:
        failure = ToolFailed(f"The tool could not be run again with the answer: {why}")
        self._port.ended(Ended(failure=failure))
        return failure


class _Outcome:
    """What one run says on its standard output."""

    def __init__(self, child: Child, *, may_ask: bool) -> None:
        self._child = child
        self._may_ask = may_ask
        self._held = bytearray()
        self._holding = True
        self.question: Question | None = None
        self.said = Said()

    def feed(self, data: bytes) -> None:
        """Take what it printed."""
        if not self._holding:
            self._child.emit(data)
            return
        self._held += data
        begin = self._held[:64].lstrip()
        if (begin and not begin.startswith(b"{")) or len(self._held) > _MOST_HELD:
            self._let_out()

    def _let_out(self) -> None:
        self._holding = False
        held, self._held = bytes(self._held), bytearray()
        if held:
            self._child.emit(held)

    def finish(self, exit: Exit) -> Said | None:
        outcome = read_outcome(bytes(self._held)) if self._holding and not exit.signal else Raw()
        match outcome:
            case Success(content=content):
                self.said = Said(result=content)
            case Failure():
                failure = ToolFailed(outcome.message, outcome.trace, transient=outcome.transient)
                self.said = Said(failure=failure)
            case NeedsInput(question=question, content=content):
                if content:
                    self._child.emit(content.encode())
                if self._may_ask:
                    self.question = question
                    return None
                failure = ToolFailed(
                    f"The tool has asked {_MOST_RUNS} times and was not run again; it last asked "
                    f"{question.id!r}."
                )
                self.said = Said(failure=failure)
            case Progress(content=content):
                if content:
                    self._child.emit(content.encode())
            case Raw():
                self._let_out()
        return self.said

    def give_up(self) -> Said:
        self._let_out()
        return Said()

    def part(self) -> bool:
        return False


def _remove(spare: Path | None) -> None:
    if spare is not None:
        spare.unlink(missing_ok=True)


def with_answers(call: Call, answers: Mapping[str, Any]) -> tuple[Call, Path | None]:
    """The call with `answers` for its next run, and the file that holds them if it took one.

    The caller removes the file after that run.
    """
    if call.again is not None:
        return call.again(answers), None
    told = call.env.get("HAFT_CALL", "")
    folder = None
    if told.startswith("/"):
        folder = Path(told).parent
        told = Path(told).read_text(encoding="utf-8")
    context = msgspec.json.decode(told) if told else {}
    context.setdefault("tool", {"name": call.tool}).setdefault("answers", {}).update(answers)
    text = msgspec.json.encode(context)
    spare = None
    if len(text) <= _MOST_INLINE:
        value = text.decode()
    else:
        fd, value = tempfile.mkstemp(prefix="call-", suffix=".json", dir=folder)
        spare = Path(value)
        with open(fd, "wb") as file:
            file.write(text)
    return replace(call, env={**call.env, "HAFT_CALL": value}), spare
