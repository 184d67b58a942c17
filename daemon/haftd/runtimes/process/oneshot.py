"""A one-shot tool: prints an outcome at its end, or asks by ending (docs/definitions.md).

With the answer it is run again, up to `_MAX_RUNS` times; a repeated question fails it. Possible
outcomes are held back; after death by a signal all is output.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from haft_protocol.errors import RpcError, shown
from haft_protocol.outcome import (
    Failure,
    Malformed,
    NeedsInput,
    Progress,
    Raw,
    Success,
    read_outcome,
)
from haft_protocol.questions import Question
from haftd.core.termination import LOST, Termination
from haftd.host.launch.launched_process import Exit
from haftd.runtimes.base import Call, RuntimeContext, StartFailed, ToolFailed, is_cancellation

from .child import Child, Output
from .interpreter import ToolResult, malformed_failure
from .pipes import PipeControl
from .resource_limits import ResourceLimits

_MAX_RUNS = 100
_MAX_HELD = 8 << 20


class OneShot:
    def __init__(self, call: Call, context: RuntimeContext, limits: ResourceLimits) -> None:
        self._call = call
        self._context = context
        self._limits = limits
        self._control: PipeControl | None = None

    async def run(self) -> str | None:
        """Run until an outcome. Raises `StartFailed` from the first run only."""
        answers: dict[str, Any] = {}
        outcome = await self._run_once(
            await Child.start(self._call, self._context, self._limits), may_ask=_MAX_RUNS > 1
        )
        runs = 1
        while outcome.question is not None:
            if outcome.question.id in answers:
                raise self._fail(
                    f"The tool asked {shown(outcome.question.id)} again, although it was given the "
                    "answer in `tool.answers`."
                )
            answers[outcome.question.id] = await self._ask(outcome.question, outcome)
            runs += 1
            again = await self._start(self._resolve(answers))
            outcome = await self._run_once(again, may_ask=runs < _MAX_RUNS)
        if outcome.result.failure is not None:
            raise outcome.result.failure
        return outcome.result.result

    async def _run_once(self, child: Child, *, may_ask: bool) -> _Outcome:
        async with child:
            if self._control is None:
                self._control = PipeControl(self._call, self._context, child)
                self._context.started(self._control)
            else:
                self._control.attach(child)
            control, outcome = self._control, _Outcome(child, may_ask=may_ask)
            keep_up = self._context.keep_up
            outputs = [
                Output(child.stdout, outcome.feed, keep_up),
                Output(child.stderr, child.emit_stderr, keep_up),
            ]
            await child.run(outputs, outcome, at_end=control.close)
        return outcome

    async def _ask(self, question: Question, outcome: _Outcome) -> Any:
        outcome.emit_content()
        try:
            return await self._context.ask(question).wait()
        except ToolFailed as failure:
            self._context.ended(failure.termination)
            raise
        except BaseException as error:
            if is_cancellation(error):
                self._context.ended(Termination(by=LOST))
            raise

    def _resolve(self, answers: Mapping[str, Any]) -> Call:
        with_answers = self._call.with_answers
        if with_answers is None:
            raise self._rerun_failure("its input came from another handle and has been read")
        try:
            return with_answers(answers)
        except (RpcError, OSError, ValueError, msgspec.MsgspecError) as error:
            raise self._rerun_failure(str(error)) from None

    async def _start(self, call: Call) -> Child:
        try:
            return await Child.start(call, self._context, self._limits)
        except StartFailed as failed:
            raise self._rerun_failure(failed.message) from None
        except BaseException as error:
            if is_cancellation(error):
                self._context.ended(Termination(by=LOST))
            raise

    def _rerun_failure(self, why: str) -> ToolFailed:
        return self._fail(f"The tool could not be run again with the answer: {why}")

    def _fail(self, message: str) -> ToolFailed:
        failure = ToolFailed(message)
        self._context.ended(failure.termination)
        return failure


class _Outcome:
    def __init__(self, child: Child, *, may_ask: bool) -> None:
        self._child = child
        self._may_ask = may_ask
        self._held = bytearray()
        self._holding = True
        self.question: Question | None = None
        self.result = ToolResult()
        self._content = b""
        """`content` of the question, emitted when asked."""

    def feed(self, data: bytes) -> None:
        if not self._holding:
            self._child.emit(data)
            return
        self._held += data
        begin = self._held[:64].lstrip()
        if (begin and not begin.startswith(b"{")) or len(self._held) > _MAX_HELD:
            self._release()

    def _release(self) -> None:
        self._holding = False
        held, self._held = bytes(self._held), bytearray()
        if held:
            self._child.emit(held)

    def finish(self, exit: Exit) -> ToolResult | None:
        outcome = read_outcome(bytes(self._held)) if self._holding and not exit.signal else Raw()
        match outcome:
            case Success(content=content):
                self._child.emit(outcome.output.encode())
                self.result = ToolResult(result=content)
            case Failure():
                self._child.emit(outcome.output.encode())
                failure = ToolFailed(outcome.message, outcome.trace, transient=outcome.transient)
                self.result = ToolResult(failure=failure)
            case NeedsInput(question=question, content=content):
                self._content = content.encode()
                if self._may_ask:
                    self.question = question
                    return None
                self.emit_content()
                failure = ToolFailed(
                    f"The tool asked {_MAX_RUNS} times and was not run again; its last question was "
                    f"{question.id!r}."
                )
                self.result = ToolResult(failure=failure)
            case Progress(content=content):
                if content:
                    self._child.emit(content.encode())
            case Malformed():
                self._release()
                self.result = ToolResult(failure=malformed_failure(outcome))
            case Raw():
                self._release()
        return self.result

    def emit_content(self) -> None:
        self._child.emit(self._content)

    def finish_killed(self) -> ToolResult:
        self._release()
        return ToolResult()

    def request_stop(self) -> bool:
        return False
