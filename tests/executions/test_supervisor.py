"""The supervisor with many handles."""

from __future__ import annotations

import os
import subprocess
import weakref
from collections.abc import Callable
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from haft_protocol.errors import spawn_failed
from haft_protocol.questions import Question, Secret
from haft_protocol.states import EndedBy, Exit
from haftd.core.handles import Handle
from haftd.core.spool import Budget, Spool
from haftd.core.text import STRIPPED
from haftd.executions.supervisor import Supervisor
from haftd.host.launch.launched_process import leaders
from haftd.inquiries.kind import Answered
from haftd.launch_spec import LaunchSpec
from haftd.runtimes.base import Call, Runtime, RuntimeContext
from tests.patience import PATIENCE_S
from tests.runtimes.fake import Ask, FakeRuntime, Unkillable, WaitFor
from tests.terminations import termination


class Counting:
    """A runtime without processes that counts starts and ends."""

    def __init__(self) -> None:
        self.starts = 0
        self.ends = 0

    async def run(self, call: Call, context: RuntimeContext) -> str | None:
        self.starts += 1
        try:
            await trio.sleep_forever()
        finally:
            self.ends += 1


CALL = Call("none", LaunchSpec((), "/"), "")
NOW = EndedBy("abort")


def handle(name: str, *, needs_approval: bool = False) -> Handle:
    return Handle(
        id=name,
        tool="none",
        session="s",
        generation=1,
        spool=Spool(0, 0, None, Budget(0)),
        now=0.0,
        needs_approval=needs_approval,
    )


def supervisor(nursery: trio.Nursery) -> Supervisor:
    return Supervisor(nursery, grace_s=0, withdraw=lambda *_: None, clear_up=lambda *_: None)


async def most_in_a_row(count: Callable[[], int], until: int) -> int:
    """Return the maximum count between two turns of the test's task."""
    seen = [count()]
    while seen[-1] < until:
        await trio.lowlevel.checkpoint()
        seen.append(count())
    return max(later - sooner for sooner, later in pairwise(seen))


async def test_a_start_alone_takes_one_pass_of_the_loop() -> None:
    runtime = Counting()
    async with trio.open_nursery() as nursery:
        held = supervisor(nursery)
        for n in range(8):
            held.start(handle(f"h{n}"), runtime, CALL)
            await trio.lowlevel.checkpoint()  # in any order with the start
            await trio.lowlevel.checkpoint()
            assert runtime.starts == n + 1
        nursery.cancel_scope.cancel()


async def test_an_end_before_the_start_runs_nothing() -> None:
    runtime = Counting()
    async with trio.open_nursery() as nursery:
        held = supervisor(nursery)
        execution = held.start(handle("h"), runtime, CALL)
        execution.cancel()
        await execution.done.wait()
        assert runtime.starts == 0


async def test_starts_begin_in_the_order_of_their_requests() -> None:
    """Also starts with a gate that is open already; a closed gate holds no other start up."""
    begun: list[str] = []
    ends = 0

    class Noting:
        async def run(self, call: Call, context: RuntimeContext) -> str | None:
            begun.append(call.tool)
            try:
                await trio.sleep_forever()
            finally:
                nonlocal ends
                ends += 1

    runtime = Noting()
    open_gates = [n for n in range(40) if n % 3 == 0]

    def call(n: int) -> Call:
        return Call(str(n), LaunchSpec((), "/"), "")

    async with trio.open_nursery() as nursery:
        held = supervisor(nursery)
        closed = trio.Event()

        async def wait() -> tuple[Runtime, Call]:
            await closed.wait()
            return runtime, call(100)

        held.start(handle("closed", needs_approval=True), runtime, call(100), gate=wait)
        executions = [held.start(handle(f"h{n}"), runtime, call(n)) for n in range(40)]
        await wait_all_tasks_blocked()
        assert begun == [str(n) for n in range(40)]

        for execution in executions:
            held.end(execution, NOW)
        await wait_all_tasks_blocked()
        assert ends == 40
        begun.clear()
        for n in open_gates:
            one = handle(f"g{n}", needs_approval=True)

            async def gate(n: int = n, one: Handle = one) -> tuple[Runtime, Call]:
                one.approve(terminal=False)
                return runtime, call(n)

            held.start(one, runtime, call(n), gate=gate)
        await wait_all_tasks_blocked()
        assert begun == [str(n) for n in open_gates]
        nursery.cancel_scope.cancel()


async def test_many_starts_and_ends_yield_to_other_tasks() -> None:
    runtime = Counting()
    async with trio.open_nursery() as nursery:
        held = supervisor(nursery)
        for n in range(100):
            held.start(handle(f"h{n}"), runtime, CALL)
        # Within a round of the loop the order is arbitrary: two rounds' worth may stand between.
        assert await most_in_a_row(lambda: runtime.starts, 100) <= 8
        nursery.start_soon(held.abort_all, NOW)
        assert await most_in_a_row(lambda: runtime.ends, 100) <= 8


async def test_an_abort_holds_after_its_client_has_gone(autojump_clock: MockClock) -> None:
    runtime = Counting()
    with trio.fail_after(1):
        async with trio.open_nursery() as nursery:
            held = supervisor(nursery)
            execution = held.start(handle("h"), runtime, CALL)
            await wait_all_tasks_blocked()
            with trio.CancelScope() as scope:
                scope.cancel()
                await held.abort(execution, NOW)
            assert scope.cancelled_caught
            await execution.done.wait()
    assert runtime.ends == 1


async def test_unconfirmed_processes_are_listed_and_can_be_aborted_again() -> None:
    cleared: list[bool] = []
    with subprocess.Popen(["sleep", "300"], env={**os.environ, "HAFT_HANDLE": "m"}) as child:
        async with trio.open_nursery() as nursery:
            held = Supervisor(
                nursery,
                grace_s=0,
                withdraw=lambda *_: None,
                clear_up=lambda call, confirmed: cleared.append(confirmed),
            )
            one = handle("h")
            call = Call("t", LaunchSpec((), "/"), "m", script=(Unkillable(child.pid), WaitFor()))
            execution = held.start(one, FakeRuntime(), call)
            await wait_all_tasks_blocked()
            await held.abort(execution, NOW)
            assert [*one.unconfirmed] == [child.pid] and cleared == [False]
            assert held.executions() == () and held.survivors("s", "h") == [one]
            assert held.survivors("s", "other") == []
            assert [one.is_left_running] == [True]
            assert [(left.pid, left.command) for left in one.left_behind()] == [
                (child.pid, "sleep 300")
            ]
            with trio.fail_after(PATIENCE_S):
                await held.kill_survivors(one)
            assert held.survivors() == [] and [one.is_left_running] == [False]
            assert [*one.unconfirmed] == [] and cleared == [False, True]
            await held.kill_survivors(one)


def find_lineage(*pairs: tuple[int, int]) -> list[Any]:
    return [SimpleNamespace(pid=pid, session=session) for pid, session in pairs]


async def test_a_process_belongs_to_the_execution_whose_session_it_is_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with trio.open_nursery() as nursery:
        held = supervisor(nursery)
        use = held.start(handle("h"), Counting(), Call("t", LaunchSpec((), "/"), "m"))
        held.start(handle("other"), Counting(), Call("t", LaunchSpec((), "/"), "o"))
        monkeypatch.setitem(leaders, 900, SimpleNamespace(mark="m"))
        assert held.ancestor_of(find_lineage((901, 900), (900, 900))) == (use, True)
        assert held.ancestor_of(find_lineage((900, 1))) == (use, True)
        assert held.ancestor_of(find_lineage((901, 902))) is None, "a session of its own"
        monkeypatch.setitem(leaders, 900, SimpleNamespace(mark="ended"))
        assert held.ancestor_of(find_lineage((901, 900))) is None, (
            "no execution of the leader's tag"
        )
        use.control = cast(Any, SimpleNamespace(pid=900))
        assert held.ancestor_of(find_lineage((901, 900))) == (use, False)
        assert held.ancestor_of(find_lineage((900, 901))) is None, (
            "a pid used again in another session"
        )
        use.control = None
        nursery.cancel_scope.cancel()


class Late(FakeRuntime):
    """A scripted run that begins on demand."""

    def __init__(self) -> None:
        self.begin = trio.Event()

    async def run(self, call: Call, context: RuntimeContext) -> str | None:
        await self.begin.wait()
        return await super().run(call, context)


def question(name: str) -> Question:
    return Question(id=name, text=name, answer_type=Secret())


@pytest.mark.parametrize("asks", [(), ("tool",)], ids=["only who asks for it", "both"])
async def test_requests_before_the_start_are_served_first(
    autojump_clock: MockClock, asks: tuple[str, ...]
) -> None:
    answers: list[object] = []
    runtime = Late()
    script = (*(Ask(question(name)) for name in asks), WaitFor())
    async with trio.open_nursery() as nursery:
        held = supervisor(nursery)
        execution = held.start(
            handle("h"), runtime, Call("t", LaunchSpec((), "/"), "m", script=script)
        )
        assert held.with_tag("m") is execution and held.with_tag("") is None

        async def ask() -> None:
            answers.append(
                await execution.inquiries.ask(execution.inquiries.make_question(question("helper")))
            )

        nursery.start_soon(ask)
        await wait_all_tasks_blocked()
        states = [execution.handle.state.value]
        runtime.begin.set()
        await wait_all_tasks_blocked()
        for name in ("helper", *asks):
            asked = execution.handle.question
            assert asked is not None and asked.id == name
            states.append(execution.handle.state.value)
            pending = execution.inquiries.current
            assert pending is not None and pending.settle(Answered("x"))
            await wait_all_tasks_blocked()
        states.append(execution.handle.state.value)
        assert states == ["pending", *["waiting"] * (1 + len(asks)), "running"]
        assert answers == ["x"]
        await held.abort(execution, NOW)
        assert held.with_tag("m") is None


async def test_only_an_unapproved_execution_is_cancelled_with_its_call(
    autojump_clock: MockClock,
) -> None:
    runtime = Counting()

    async def gate() -> tuple[Runtime, Call]:
        await trio.sleep_forever()
        raise AssertionError("nobody lets it in")

    async with trio.open_nursery() as nursery:
        held = supervisor(nursery)
        running, waiting = handle("running"), handle("waiting", needs_approval=True)
        runs = held.start(running, runtime, CALL)
        waits = held.start(waiting, runtime, CALL, gate=gate)
        await wait_all_tasks_blocked()
        for execution in (runs, waits):
            held.abandon(execution, NOW)
        await waits.done.wait()
        await wait_all_tasks_blocked()
        assert not runs.done.is_set() and runs.handle.stop_requested_by is None
        assert waits.handle.rejection is not None and runtime.starts == 1
        await held.abort(runs, NOW)


async def test_an_ended_execution_is_released(autojump_clock: MockClock) -> None:
    async with trio.open_nursery() as nursery:
        held = supervisor(nursery)
        execution = held.start(handle("h"), Counting(), CALL)
        await wait_all_tasks_blocked()
        before = execution.handle.is_left_running, held.execution_of(execution.handle)
        await held.abort(execution, NOW)
        assert before == (True, execution)
        assert (execution.handle.is_left_running, held.execution_of(execution.handle)) == (
            False,
            None,
        )


class Failing:
    """A runtime that raises after so many reports."""

    def __init__(self, fault: Exception, *, has_started: bool, has_ended: bool) -> None:
        self.fault, self.has_started, self.has_ended = fault, has_started, has_ended

    async def run(self, call: Call, context: RuntimeContext) -> str | None:
        await trio.lowlevel.checkpoint()
        if self.has_started:
            control = SimpleNamespace(pid=1, command="t", terminal=False, rendering=STRIPPED)
            context.started(cast(Any, control))
        if self.has_ended:
            context.ended(termination(code=3))
        raise self.fault


@pytest.mark.parametrize("fault", [ZeroDivisionError("planted"), spawn_failed("x", reason="y")])
@pytest.mark.parametrize(
    ("has_started", "has_ended"), [(False, False), (True, False), (True, True)]
)
async def test_a_runtime_fault_stays_in_its_handle_and_changes_no_end(
    autojump_clock: MockClock, fault: Exception, has_started: bool, has_ended: bool
) -> None:
    withdrawn: list[Handle] = []
    async with trio.open_nursery() as nursery:
        held = Supervisor(
            nursery,
            grace_s=0,
            withdraw=lambda handle, _: withdrawn.append(handle),
            clear_up=lambda *_: None,
        )
        runtime = Failing(fault, has_started=has_started, has_ended=has_ended)
        execution = held.start(handle("h"), runtime, CALL)
        await execution.done.wait()
        termination = execution.handle.termination
        assert termination is not None
        failure = termination.failure
        if has_ended:
            assert termination.exit == Exit(code=3) and failure is None
        else:
            assert failure is not None and "planted" not in failure.message
        assert (withdrawn == [execution.handle]) != has_started
        assert (execution.handle.rejection is not None) != has_started


class _Arguments(dict[str, Any]):
    pass


async def test_the_arguments_are_released_once_the_runtime_lets_go_of_the_call() -> None:
    class Released:
        async def run(self, call: Call, context: RuntimeContext) -> str | None:
            del call
            await trio.sleep_forever()

    arguments = _Arguments()
    kept = weakref.ref(arguments)
    call = Call("none", LaunchSpec((), "/"), "", arguments=arguments)
    async with trio.open_nursery() as nursery:
        held = supervisor(nursery)
        execution = held.start(handle("h"), Released(), call)
        del call, arguments
        await wait_all_tasks_blocked()
        assert kept() is None
        await held.abort(execution, NOW)
