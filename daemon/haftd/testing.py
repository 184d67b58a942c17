"""Conformance checker for runtimes, also third parties': the rules of `haftd.runtimes.base`.

A `Bench` makes a runtime play a `Part`; None for an impossible part. In any trio test, `await
check_runtime(bench)` returns the names of the played parts or raises `AssertionError`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import msgspec
import trio
from msgspec import UNSET

from haft_protocol.questions import Boolean, Question, Text, check_answer
from haft_protocol.states import Exit
from haftd.core.termination import LOST, Termination
from haftd.runtimes.base import (
    Call,
    ExecutionControl,
    Input,
    InputRefused,
    PendingAnswer,
    Runtime,
    StartFailed,
    ToolFailed,
)

__all__ = [
    "PARTS",
    "PATIENCE_S",
    "Bench",
    "Part",
    "Performance",
    "Recorder",
    "check_runtime",
    "perform",
]

PATIENCE_S = 60.0
"""Longest wait for any step of a check."""

NAME = Question(id="name", text="Which name?", answer_type=Text())
SURE = Question(id="sure", text="Sure?", answer_type=Boolean())


class Part(msgspec.Struct, frozen=True):
    """Behaviour of a tool, playable by every runtime."""

    name: str
    rule: str
    text: bytes = b""
    questions: tuple[Question, ...] = ()


PRINTS = Part(
    "prints", "prints `text` and ends with code 0", b"".join(b"line %d\n" % n for n in range(2000))
)
EXITS = Part("exits", "prints `text` and ends with code 7", b"last words\n")
SIGNALLED = Part("signalled", "prints `text` and is ended by the signal KILL", b"part")
IDLES = Part("idles", "prints `text`, then waits for nothing until TERM ends it", b"ready\n")
STUBBORN = Part("stubborn", "ignores TERM, prints `text`, then waits for nothing", b"ready\n")
ECHOES = Part(
    "echoes", "prints `text`, then every line of input until its end, ends with 0", b"ready\n"
)

ASKS = Part(
    "asks",
    "asks `questions` in order, then prints the answers joined by a space",
    questions=(NAME, SURE),
)
FAILS = Part("fails", "fails with the message `no luck`, the trace `here`, transient")
CANNOT = Part("cannot start", "cannot be started: the program is missing")
LEAVES = Part(
    "leaves", "prints `text`, ends with code 3, leaves a silent process behind", b"gone\n"
)
HOLDS = Part("holds", "as `leaves`, and the process left behind holds the output open", b"gone\n")
CHATTERS = Part("chatters", "as `holds`, and the process left behind keeps printing", b"gone\n")

PARTS = (
    PRINTS,
    EXITS,
    SIGNALLED,
    IDLES,
    STUBBORN,
    ECHOES,
    ASKS,
    FAILS,
    CANNOT,
    LEAVES,
    HOLDS,
    CHATTERS,
)


class Bench(Protocol):
    """Adapter of one runtime for the checks."""

    def stage(self, part: Part) -> tuple[Runtime, Call] | None:
        """Make the runtime play `part`; None if impossible."""

    def left(self, call: Call) -> Sequence[int]:
        """Return the living processes of the call."""

    def shown(self, text: bytes) -> bytes:
        """Return `text` as output: a terminal changes line ends."""


class Recorder(msgspec.Struct, eq=False):
    """Runtime context that records reports and asserts the rules.

    >>> from haftd.runtimes.no_process import NoProcessControl
    >>> context = Recorder()
    >>> context.started(NoProcessControl("hello"))
    >>> context.emit(b"hi")
    >>> bytes(context.output)
    b'hi'
    """

    grace_s: float = 2.0
    answers: dict[str, Any] = msgspec.field(default_factory=dict)
    control: ExecutionControl | None = None
    output: bytearray = msgspec.field(default_factory=bytearray)
    end: Termination | None = None
    is_end_complete: bool = False
    is_complete: bool = False
    number: int = 0
    asked: list[Question] = msgspec.field(default_factory=list)
    withdrawn: list[str] = msgspec.field(default_factory=list)
    after_end: int = 0
    redraws: int = 0
    done: bool = False
    on_started: Callable[[], None] = lambda: None
    _changed: trio.Event = msgspec.field(default_factory=trio.Event)

    def _note(self, *, after_end: bool = False) -> None:
        assert not self.done, "reported after the coroutine had returned"
        assert self.control is not None, "reported before started"
        assert after_end or self.end is None, "reported after ended"
        self._changed.set()
        self._changed = trio.Event()

    def started(self, control: ExecutionControl) -> None:
        assert self.control is None, "started twice"
        self.control = control
        self._note()
        self.on_started()

    def emit(self, data: bytes, *, is_stderr: bool = False) -> None:
        assert isinstance(data, bytes), "output is bytes"
        assert data, "empty output was reported"
        if self.end is not None:
            assert not self.is_end_complete, "output after the report that it is complete"
            assert not self.is_complete, "output after completed"
            self.after_end += len(data)
        self.output += data
        self._note(after_end=True)

    def keep_up(self) -> None:
        """Return at once: output is always consumed."""

    def written(self, number: int) -> None:
        assert number >= self.number, "input was reported out of order"
        self.number = number
        self._note(after_end=True)

    def ended(self, termination: Termination, *, complete: bool = True) -> None:
        assert self.end is None, "ended twice"
        self._note()
        self.end, self.is_end_complete = termination, complete
        exit = termination.exit or Exit()
        assert exit.code is UNSET or exit.signal is UNSET, "the exit has both a code and a signal"
        assert termination.result is None or termination.failure is None, (
            "the termination has both a result and a failure"
        )

    def redrawn(self) -> None:
        self.redraws += 1
        self._note()

    def completed(self) -> None:
        assert self.end is not None and not self.is_end_complete, (
            "completed without an end, or after a complete end"
        )
        assert not self.is_complete, "completed twice"
        self.is_complete = True
        self._note(after_end=True)

    def ask(self, question: Question, *, for_a_person: bool = False) -> PendingAnswer:
        self._note()
        self.asked.append(question)
        return _Recorded(self, question)

    async def wants(self, state: str) -> None:
        """Poll until the input state is `state`; fail if a working tool is seen to read."""
        assert self.control is not None
        with trio.fail_after(PATIENCE_S):
            while (seen := self.control.input_state().state) != state:
                assert state == "reads" or seen != "reads", "a busy process was reported as reading"
                await trio.sleep(0.01)

    async def until(self, fact: Callable[[], object]) -> None:
        """Wait until `fact` holds; evaluated after each report."""
        with trio.fail_after(PATIENCE_S):
            while not fact():
                await self._changed.wait()


class _Recorded(msgspec.Struct, eq=False):
    port: Recorder
    question: Question

    async def wait(self) -> Any:
        answer = self.port.answers[self.question.id]
        if isinstance(answer, trio.Event):
            await answer.wait()
            answer = self.port.answers[self.question.id]
        await trio.lowlevel.checkpoint()
        if isinstance(answer, ToolFailed):
            raise answer
        return check_answer(self.question, answer)

    def withdraw(self) -> None:
        self.port.withdrawn.append(self.question.id)


class Performance(msgspec.Struct, eq=False):
    """One run of a runtime, with its result.

    >>> from haftd.launch_spec import LaunchSpec
    >>> from haftd.runtimes.builtin import BuiltinRuntime
    >>> async def greet(call: Call, context: Recorder) -> str:
    ...     return "hi"
    >>> async def main() -> str | None:
    ...     async with trio.open_nursery() as nursery:
    ...         call = Call("greet", LaunchSpec((), "/"), mark="")
    ...         run = await perform(nursery, BuiltinRuntime({"greet": greet}), call)
    ...         await run.finish()
    ...     return run.result
    >>> trio.run(main)
    'hi'
    """

    call: Call
    port: Recorder
    scope: trio.CancelScope
    result: str | None = None
    failure: ToolFailed | None = None
    refused: StartFailed | None = None
    finished: trio.Event = msgspec.field(default_factory=trio.Event)

    @property
    def control(self) -> ExecutionControl:
        assert self.port.control is not None
        return self.port.control

    async def finish(self) -> None:
        with trio.fail_after(PATIENCE_S):
            await self.finished.wait()


async def perform(
    nursery: trio.Nursery, runtime: Runtime, call: Call, port: Recorder | None = None
) -> Performance:
    """Start a run in `nursery`; return when it has started or ended."""
    performance = Performance(call, port or Recorder(), trio.CancelScope())

    async def run(task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        performance.port.on_started = task_status.started
        try:
            with performance.scope:
                performance.result = await runtime.run(call, performance.port)
        except ToolFailed as failure:
            performance.failure = failure
        except StartFailed as refused:
            performance.refused = refused
        performance.port.done = True
        performance.finished.set()
        if performance.port.control is None:
            task_status.started()

    with trio.fail_after(PATIENCE_S):
        await nursery.start(run)
    return performance


async def check_runtime(bench: Bench) -> list[str]:
    """Check every rule; return the names of the played parts. Raises `AssertionError`."""
    played = []
    for part, check in _CHECKS:
        staged = bench.stage(part)
        if staged is None:
            continue
        runtime, call = staged
        played.append(part.name)
        port = Recorder(answers={"name": trio.Event(), "sure": True})
        async with trio.open_nursery() as nursery:
            performance = await perform(nursery, runtime, call, port)
            if port.control is not None:
                port.control.read_output()
            try:
                await check(bench, part, performance)
                await performance.finish()
            except BaseException as error:
                error.add_note(f"in the part {part.name!r}: {part.rule}")
                raise
            finally:
                performance.scope.cancel()
        assert not bench.left(call), f"{part.name}: processes or files are left"
        if port.control is not None:
            port.control.read_output()  # with output, the recorder fails
            assert port.control.input_state().state == "busy", (
                f"{part.name}: an ended tool is reported as waiting for input"
            )
        if performance.refused is None:
            assert port.end is not None, f"{part.name}: the end was not reported"
            assert port.is_end_complete or port.is_complete, f"{part.name}: never completed"
    return played


async def _check_prints(bench: Bench, part: Part, run: Performance) -> None:
    await run.finish()
    assert bytes(run.port.output) == bench.shown(part.text)
    assert run.port.after_end == 0, "output came after an end that was reported as complete"
    assert run.port.end == Termination(exit=Exit(code=0))
    assert run.result is None


async def _check_exits(bench: Bench, part: Part, run: Performance) -> None:
    await run.finish()
    assert bytes(run.port.output) == bench.shown(part.text)
    assert run.port.end == Termination(exit=Exit(code=7))


async def _check_signalled(bench: Bench, part: Part, run: Performance) -> None:
    await run.finish()
    assert bytes(run.port.output) == bench.shown(part.text)
    assert run.port.end == Termination(exit=Exit(signal="KILL")), (
        "a signal was lost or taken for a code"
    )


async def _check_idles(bench: Bench, part: Part, run: Performance) -> None:
    await run.port.until(lambda: bench.shown(part.text) in run.port.output)
    assert run.control.members()
    assert run.control.left_behind() == ()
    await run.port.wants("busy")
    run.port.grace_s = 10.0
    with trio.fail_after(PATIENCE_S):
        run.scope.cancel()
        await run.finished.wait()
    assert run.scope.cancelled_caught, "the cancellation did not propagate"
    assert run.port.end is not None
    assert (run.port.end.exit, run.port.end.by) == (Exit(signal="TERM"), LOST)
    assert run.port.end.unconfirmed == ()


async def _check_stubborn(bench: Bench, part: Part, run: Performance) -> None:
    await run.port.until(lambda: bench.shown(part.text) in run.port.output)
    run.port.grace_s = 0.3
    before = trio.current_time()
    with trio.fail_after(PATIENCE_S):
        run.scope.cancel()
        await run.finished.wait()
    assert trio.current_time() - before >= 0.25, "killed within the grace period"
    assert run.port.end is not None
    assert (run.port.end.exit, run.port.end.by) == (Exit(signal="KILL"), LOST)


async def _check_echoes(bench: Bench, part: Part, run: Performance) -> None:
    await run.port.until(lambda: bench.shown(part.text) in run.port.output)
    await run.port.wants("reads")
    assert run.control.input_state().kind is not None, "the input state has no kind"
    lines = [b"%d " % n + bytes((97 + n % 26,)) * (n % 300) for n in range(200)]
    numbers = [run.control.write(Input("line", line.decode())) for line in lines]
    assert numbers == sorted(set(numbers)), "numbers of inputs must grow"
    await run.port.until(lambda: run.port.number >= numbers[-1])
    await run.port.until(lambda: lines[-1] in run.port.output)
    await run.port.wants("reads")
    run.control.write(Input("eof"))
    await run.finish()
    assert run.port.end == Termination(exit=Exit(code=0))
    lines_read = [line for line in bytes(run.port.output).replace(b"\r", b"").split(b"\n") if line]
    assert lines_read == [b"ready", *lines], "input was lost, cut or out of order"
    try:
        run.control.write(Input("line", "late"))
    except InputRefused as refused:
        assert str(refused)
    else:
        raise AssertionError("input was accepted after the end")


async def _check_asks(bench: Bench, part: Part, run: Performance) -> None:
    late = run.port.answers["name"]
    assert isinstance(late, trio.Event)
    await run.port.until(lambda: run.port.asked)
    run.port.answers["name"] = "Ada"
    late.set()
    await run.finish()
    assert [question.id for question in run.port.asked] == ["name", "sure"]
    answers = run.result if run.result is not None else bytes(run.port.output).decode()
    assert answers.split() in (["Ada", "true"], ['"Ada"', "true"]), answers


async def _check_fails(bench: Bench, part: Part, run: Performance) -> None:
    await run.finish()
    assert run.failure is not None
    assert run.failure.message == "no luck"
    assert run.failure.trace == ("here",)
    assert run.failure.transient
    assert run.port.end is not None
    assert run.port.end.failure == run.failure.termination.failure


async def _check_cannot(bench: Bench, part: Part, run: Performance) -> None:
    await run.finish()
    assert run.refused is not None
    assert run.refused.reason == "program"
    assert run.port.control is None, "`started` was reported for a failed start"


async def _check_leaves(bench: Bench, part: Part, run: Performance) -> None:
    await run.port.until(lambda: run.port.end)
    assert run.port.end is not None
    assert run.port.end.exit == Exit(code=3)
    assert run.control.input_state().state == "busy", (
        "the input state is of a process left behind, not of the tool"
    )
    assert run.port.is_end_complete
    assert bytes(run.port.output) == bench.shown(part.text)
    left = run.control.left_behind()
    assert len(left) == 1 and left[0].command, left
    assert not run.finished.is_set(), "returned while processes are left"
    run.scope.cancel()


async def _check_holds(bench: Bench, part: Part, run: Performance) -> None:
    await run.port.until(lambda: run.port.end)
    assert run.port.end is not None
    assert run.port.end.exit == Exit(code=3)
    assert not run.port.is_end_complete
    assert bench.shown(part.text) in bytes(run.port.output)
    with trio.fail_after(PATIENCE_S):
        await run.port.until(lambda: run.port.is_complete)
    assert run.control.left_behind()
    assert not run.finished.is_set()
    run.scope.cancel()


_CHECKS = (
    (PRINTS, _check_prints),
    (EXITS, _check_exits),
    (SIGNALLED, _check_signalled),
    (IDLES, _check_idles),
    (STUBBORN, _check_stubborn),
    (ECHOES, _check_echoes),
    (ASKS, _check_asks),
    (FAILS, _check_fails),
    (CANNOT, _check_cannot),
    (LEAVES, _check_leaves),
    (HOLDS, _check_holds),
    (CHATTERS, _check_holds),
)
