from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from haft_protocol.errors import shutting_down
from haft_protocol.questions import Question, Text
from haft_protocol.states import EndedBy
from haftd.core.handles import Handle, HandleSettings
from haftd.core.spool import Budget, Spool
from haftd.core.termination import Termination
from haftd.core.withheld import ResultExcerpt, ReviewDecision
from haftd.executions.execution import Execution
from haftd.executions.review import PendingReview
from haftd.executions.supervisor import Supervisor
from haftd.inquiries.tool_question import InquiryCancelled
from haftd.launch_spec import LaunchSpec
from haftd.runtimes.base import Call, RuntimeContext, StartFailed
from tests.runtimes.fake import Ask, Emit, FakeRuntime, WaitFor
from tests.terminations import termination

ABORT = EndedBy("abort", "somebody")


def spool() -> Spool:
    return Spool(1 << 20, 0, None, Budget(0))


def standing(handle: Handle) -> str | None:
    """Return the stage of the review."""
    return handle.review


def question_of(handle: Handle) -> Question | None:
    """Return the current question."""
    return handle.question


def ended_by(handle: Handle) -> EndedBy | None:
    """Return the cause of the end."""
    return None if handle.termination is None else handle.termination.by


class Desk:
    """A reviewer that decides on demand."""

    def __init__(self, word: ReviewDecision | Exception | None = None) -> None:
        self.asked: list[ResultExcerpt] = []
        self.word = word
        self.told = trio.Event()
        if word is not None:
            self.told.set()

    async def review(self, handle: Handle, shown: ResultExcerpt) -> ReviewDecision:
        self.asked.append(shown)
        await self.told.wait()
        if isinstance(self.word, Exception):
            raise self.word
        assert self.word is not None
        return self.word


class Bench:
    """A supervisor, and an execution under review."""

    def __init__(self, nursery: trio.Nursery, desk: Desk) -> None:
        self.desk = desk
        self.gone: list[Handle] = []
        self.supervisor = Supervisor(
            nursery,
            grace_s=0,
            withdraw=lambda handle, _: self.gone.append(handle),
            clear_up=lambda *_: None,
        )
        self.handle = Handle(
            id="h",
            tool="t",
            session="s",
            generation=1,
            spool=spool(),
            now=trio.current_time(),
            settings=HandleSettings(is_reviewed=True),
        )

    def start(self, runtime: object, *script: object) -> Execution:
        review = PendingReview(self.handle, spool(), self.desk.review)
        call = Call("t", LaunchSpec((), "/"), "m", script=script)
        return self.supervisor.start(self.handle, runtime, call, review=review)  # type: ignore[arg-type]


class Playing:
    """A scripted runtime with a report per checkpoint."""

    def __init__(
        self, *ends: Termination | None, complete: bool = True, printed: bytes = b"printed"
    ) -> None:
        self.ends, self.complete = ends, complete
        self.printed = printed
        self.context: RuntimeContext | None = None

    async def run(self, call: Call, context: RuntimeContext) -> str | None:
        self.context = context
        context.emit(self.printed)
        for end in self.ends:
            if end is None:
                context.completed()
            else:
                context.ended(end, complete=self.complete)
            await trio.lowlevel.checkpoint()
        return None


async def test_the_end_is_reported_after_the_decision(autojump_clock: MockClock) -> None:
    async with trio.open_nursery() as nursery:
        bench = Bench(nursery, Desk())
        execution = bench.start(FakeRuntime(), Emit(b"printed"))
        assert standing(bench.handle) == "held"
        await wait_all_tasks_blocked()
        assert bench.handle.state.value == "running" and standing(bench.handle) == "waits"
        assert bench.handle.spool.end == 0 and not execution.done.is_set()
        assert bench.supervisor.execution_of(bench.handle) is execution
        bench.desk.word = ReviewDecision("allow")
        bench.desk.told.set()
        await execution.done.wait()
        assert bench.handle.stopped and standing(bench.handle) == "allowed"
        assert bench.handle.spool.read(0, 99) == b"printed"
        assert bench.supervisor.execution_of(bench.handle) is None and len(bench.desk.asked) == 1


async def test_the_review_starts_after_all_output_arrived(autojump_clock: MockClock) -> None:
    async with trio.open_nursery() as nursery:
        bench = Bench(nursery, Desk(ReviewDecision("allow")))
        execution = bench.start(Playing(termination(code=0), None, complete=False))
        await execution.done.wait()
        assert [one.text for one in bench.desk.asked] == ["printed"]
        assert bench.handle.stopped and bench.handle.output_complete


async def test_incomplete_output_is_reviewed_when_no_writer_is_left(
    autojump_clock: MockClock,
) -> None:
    async with trio.open_nursery() as nursery:
        bench = Bench(nursery, Desk(ReviewDecision("allow")))
        execution = bench.start(Playing(termination(code=0), complete=False))
        await execution.done.wait()
        assert standing(bench.handle) == "allowed"


@pytest.mark.parametrize("end", ["before", "while it waits"])
async def test_an_abort_discards_the_result(autojump_clock: MockClock, end: str) -> None:
    async with trio.open_nursery() as nursery:
        bench = Bench(nursery, Desk())
        execution = bench.start(
            FakeRuntime(), Emit(b"x"), *([WaitFor()] if end == "before" else [])
        )
        await wait_all_tasks_blocked()
        assert len(bench.desk.asked) == (end != "before")
        await bench.supervisor.abort(execution, ABORT)
        assert bench.handle.stopped and standing(bench.handle) == "dropped"
        assert ended_by(bench.handle) == ABORT and bench.handle.spool.end == 0


class EndsMeanwhile:
    """A program that has just ended by itself at the abort; the end is noticed later."""

    def __init__(self, s: float) -> None:
        self.s = s

    async def run(self, call: Call, context: RuntimeContext) -> str | None:
        context.emit(b"printed")
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(self.s)
            context.ended(termination(code=0))


@pytest.mark.parametrize("s", [0, 0.1])
async def test_an_abort_of_a_just_ended_program_discards_the_result(
    autojump_clock: MockClock, s: float
) -> None:
    async with trio.open_nursery() as nursery:
        bench = Bench(nursery, Desk())
        execution = bench.start(EndsMeanwhile(s))
        await wait_all_tasks_blocked()
        await bench.supervisor.abort(execution, ABORT)
        assert bench.handle.stopped and standing(bench.handle) == "dropped"
        assert ended_by(bench.handle) == ABORT and bench.handle.spool.end == 0


async def test_a_failed_review_is_a_denial(autojump_clock: MockClock) -> None:
    async with trio.open_nursery() as nursery:
        bench = Bench(nursery, Desk(ValueError("wrong")))
        execution = bench.start(FakeRuntime(), Emit(b"printed"))
        await execution.done.wait()
        assert standing(bench.handle) == "denied" and bench.handle.spool.end == 0
        termination = bench.handle.termination
        assert termination is not None and termination.failure is not None
        assert "haftd failed" in termination.failure.message


async def test_a_stopping_daemon_discards_pending_reviews(autojump_clock: MockClock) -> None:
    async with trio.open_nursery() as nursery:
        bench = Bench(nursery, Desk(shutting_down()))
        execution = bench.start(FakeRuntime(), Emit(b"printed"))
        await execution.done.wait()
        assert standing(bench.handle) == "dropped" and bench.handle.spool.end == 0
        assert ended_by(bench.handle) == EndedBy("shutdown") and bench.handle.refusal is None


class Unstarted:
    async def run(self, call: Call, context: RuntimeContext) -> str | None:
        raise StartFailed("not there", "program")


async def test_a_run_that_never_began_is_not_reviewed(autojump_clock: MockClock) -> None:
    async with trio.open_nursery() as nursery:
        bench = Bench(nursery, Desk())
        execution = bench.start(Unstarted())
        await execution.done.wait()
        assert (
            bench.handle.rejection is not None
            and bench.gone == [bench.handle]
            and not bench.desk.asked
        )


async def test_a_question_open_at_the_end_is_withdrawn(autojump_clock: MockClock) -> None:
    question = Question(id="q", text="q?", answer_type=Text())
    async with trio.open_nursery() as nursery:
        bench = Bench(nursery, Desk())
        execution = bench.start(FakeRuntime(), Ask(question))
        nursery.start_soon(_ask, execution, question)
        await wait_all_tasks_blocked()
        assert question_of(bench.handle) is not None
        execution.ended(termination(code=0))
        await wait_all_tasks_blocked()
        assert question_of(bench.handle) is None and bench.handle.state.value == "running"
        nursery.start_soon(_ask, execution, question)
        await wait_all_tasks_blocked()
        assert question_of(bench.handle) is None
        await bench.supervisor.abort(execution, ABORT)


async def _ask(execution: Execution, question: Question) -> None:
    with pytest.raises(InquiryCancelled):
        await execution.inquiries.ask(execution.inquiries.make_question(question))


async def test_an_end_after_a_cancelled_review_is_reported_without_the_result(
    autojump_clock: MockClock,
) -> None:
    async with trio.open_nursery() as nursery:
        bench, go_on = Bench(nursery, Desk()), trio.Event()
        execution = bench.start(FakeRuntime(), Emit(b"printed"), WaitFor(go_on))
        await wait_all_tasks_blocked()
        assert execution.review is not None
        execution.review.cancel()
        await execution.review.done.wait()
        go_on.set()
        await execution.done.wait()
        assert ended_by(bench.handle) == EndedBy("shutdown")
        assert standing(bench.handle) == "dropped" and bench.handle.spool.end == 0
