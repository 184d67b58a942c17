"""The scripted runtime takes no time."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from haft_protocol.questions import Boolean, InvalidAnswer, Question
from haftd.launch_spec import LaunchSpec
from haftd.runtimes.base import Call, Input, InputRefused
from haftd.testing import Recorder, perform
from tests.runtimes.fake import (
    Ask,
    Emit,
    Exit,
    FakeRuntime,
    LeaveBehind,
    Step,
    Stubborn,
    TakeInput,
    Unkillable,
    WaitFor,
)
from tests.terminations import termination


def call(*script: Step, terminal: bool = False) -> Call:
    return Call("fake", LaunchSpec((), "/", terminal=terminal, stdin="pipe"), "", script=script)


async def test_a_script_without_an_end_ends_with_zero() -> None:
    port = Recorder()
    assert await FakeRuntime().run(call(Emit(b"hi")), port) is None
    assert port.end == termination(code=0)
    assert port.output == b"hi"


async def test_a_result_is_returned_and_reported() -> None:
    port = Recorder()
    assert await FakeRuntime().run(call(Exit(result="done")), port) == "done"
    assert port.end == termination(code=0, result="done")


async def test_input_is_taken_in_order_and_numbered(autojump_clock: trio.testing.MockClock) -> None:
    async with trio.open_nursery() as nursery:
        run = await perform(nursery, FakeRuntime(), call(TakeInput(), TakeInput(), WaitFor()))
        first = run.control.write(Input("line", "one"))
        second = run.control.write(Input("keys", keys=("C-c", "Up")))
        assert (first, second) == (1, 2)
        await run.port.until(lambda: run.port.number == 2)
        assert run.port.output == b"one\nC-c Up"
        assert run.control.write(Input("signal", signal="HUP")) == 2
        await run.finish()
    assert run.port.end == termination(signal="HUP")
    with pytest.raises(InputRefused, match="ended"):
        run.control.write(Input("text", "x"))


async def test_an_abort_of_a_stubborn_script_takes_the_grace(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with trio.open_nursery() as nursery:
        run = await perform(nursery, FakeRuntime(), call(Stubborn(), Unkillable(77), WaitFor()))
        await trio.testing.wait_all_tasks_blocked()
        before = trio.current_time()
        run.port.grace_s = 3.0
        run.scope.cancel()
        await run.finish()
        assert trio.current_time() - before == pytest.approx(3.0)
    assert run.port.end == termination(signal="KILL", by="lost", unconfirmed=(77,))


async def test_a_process_left_behind_ends_by_the_script(
    autojump_clock: trio.testing.MockClock,
) -> None:
    left = LeaveBehind(command="server", holds_output=True)
    async with trio.open_nursery() as nursery:
        run = await perform(nursery, FakeRuntime(), call(left, Exit(4)))
        await run.port.until(lambda: run.port.is_complete)
        assert run.port.end == termination(code=4) and not run.port.is_end_complete
        (over,) = run.control.left_behind()
        assert over.command == "server"
        assert run.control.members() == (over.pid,)
        left.until.set()
        await run.finish()
    assert run.control.members() == ()


async def test_an_invalid_answer_is_raised_unchanged() -> None:
    port = Recorder(answers={"q": "yes"})
    question = Question(id="q", text="?", answer_type=Boolean())
    with pytest.raises(InvalidAnswer):
        await FakeRuntime().run(call(Ask(question)), port)


async def test_a_terminal_has_a_screen(autojump_clock: trio.testing.MockClock) -> None:
    async with trio.open_nursery() as nursery:
        script = (Emit(b"one\ntwo"), WaitFor())
        run = await perform(nursery, FakeRuntime(), call(*script, terminal=True))
        await run.port.until(lambda: run.port.output)
        first = run.control.screen()
        assert first is not None
        assert first.lines[:2] == ("one", "two") and len(first.lines) == 24
        assert first.cursor == (1, 3)
        run.control.write(Input("resize", rows=10, cols=20))
        second = run.control.screen()
        assert second is not None
        assert (second.rows, second.cols) == (10, 20)
        assert second.revision > first.revision
        run.scope.cancel()
