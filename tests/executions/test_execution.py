from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET
from trio.testing import MockClock, wait_all_tasks_blocked

from haft_protocol.errors import spawn_failed
from haft_protocol.states import EndedBy, Screen
from haftd.core.handles import Handle
from haftd.core.spool import Budget, Spool
from haftd.core.termination import Termination, internal_failure
from haftd.executions.execution import MAX_BACKLOG, Execution, changes
from haftd.runtimes.base import Input, ToolFailed
from tests.terminations import termination

ABORT = EndedBy("abort", "somebody")


def use_of_a_tool(on_state_change: Callable[[Handle], None] | None = None) -> Execution:
    handle = Handle(
        id="h",
        tool="t",
        session="s",
        generation=1,
        spool=Spool(1 << 20, 0, None, Budget(0)),
        now=0.0,
        on_state_change=on_state_change,
    )
    return Execution(handle, 1.0)


def shot(revision: int, *lines: str) -> Screen:
    return Screen(len(lines), 80, (0, 0), False, "", revision, 0, lines)


class Shows:
    """A control of a terminal that shows this."""

    pid, command, terminal, rendering = 1, "t", True, cast(Any, None)

    def __init__(self) -> None:
        self.shown = shot(1, "a", "b")

    def screen(self) -> Screen:
        return self.shown


# -- ownership


@given(st.lists(st.booleans(), max_size=6), st.booleans())
def test_an_execution_is_cancelled_with_its_last_call(retries: list[bool], is_held: bool) -> None:
    execution = use_of_a_tool()
    execution.join()
    for _ in retries:
        execution.join()
    if is_held:
        execution.hold()
    left = [execution.leave() for _ in range(1 + len(retries))]
    assert left == [False] * len(retries) + [not is_held]


def test_a_handles_execution_is_not_cancelled_with_a_call_that_finds_it() -> None:
    execution = use_of_a_tool()
    execution.join()
    execution.hold()
    execution.join()
    assert not execution.leave()


# -- screens


def test_screen_changes_are_relative_to_one_of_the_last_screens() -> None:
    execution, control = use_of_a_tool(), Shows()
    execution.control = cast(Any, control)
    for revision in range(1, 6):
        control.shown = shot(revision, "a", str(revision))
        assert execution.screen() is not None
    control.shown = shot(6, "a", "6")
    told = {since: execution.screen(since) for since in (5, 4, 3)}
    assert all(one is not None and one.changed == {"1": "6"} for one in told.values())
    whole = execution.screen(1)
    assert whole is not None and whole.lines == ("a", "6") and whole.changed is UNSET


def test_only_changed_rows_are_returned_unless_the_size_changed() -> None:
    def screen(*lines: str, cols: int = 80) -> Screen:
        return Screen(
            rows=len(lines),
            cols=cols,
            cursor=(0, 0),
            alt=False,
            title="",
            revision=1,
            lines=lines,
            scrollback=0,
        )

    before = screen("a", "b")
    assert changes(before, screen("a", "c")).changed == {"1": "c"}
    assert changes(before, screen("a", "c")).lines == ()
    for resized in (screen("a", "b", "c"), screen("a"), screen("a", "b", cols=81)):
        assert changes(before, resized) is resized


def test_a_picture_is_no_base_for_screen_changes() -> None:
    execution = use_of_a_tool()
    execution.control = cast(Any, Shows())
    assert execution.picture() is not None
    screen = execution.screen(1)
    assert screen is not None and screen.lines == ("a", "b")


# -- ends


@pytest.mark.parametrize(
    ("reported", "ender", "by", "failure"),
    [
        (termination(code=0), None, "exit", None),
        (termination(code=0), ABORT, "exit", None),
        (termination(signal="TERM", by="lost"), ABORT, "abort", None),
        (termination(signal="KILL", by="limit", limit="cpu_s"), ABORT, "limit", None),
        (termination(code=1, by="limit", limit="wall_s"), None, "limit", None),
        (termination(signal="KILL", by="lost"), None, "lost", internal_failure()),
        (termination(failure=ToolFailed("no")), None, "exit", "no"),
        (termination(failure=ToolFailed("no")), ABORT, "exit", "no"),
        (termination(failure=ToolFailed("no"), by="lost"), ABORT, "abort", "no"),
        (termination(failure=ToolFailed("no"), by="lost"), None, "exit", "no"),
    ],
)
async def test_the_first_cause_of_an_end_is_reported(
    autojump_clock: MockClock,
    reported: Termination,
    ender: EndedBy | None,
    by: str,
    failure: str | None,
) -> None:
    execution = use_of_a_tool()
    if ender is not None:
        execution.handle.request_stop(ender)
    execution.started(cast(Any, Shows()))
    execution.ended(reported)
    termination = execution.handle.termination
    assert termination is not None and termination.by.by == by
    assert (termination.failure and termination.failure.message) == failure


@pytest.mark.parametrize("is_held", [False, True])
async def test_a_failed_start_is_a_notice_to_its_session_if_its_call_has_been_answered(
    autojump_clock: MockClock, is_held: bool
) -> None:
    news: list[Handle] = []
    execution = use_of_a_tool(news.append)
    execution.join()
    if is_held:
        execution.hold()
    execution.reject(spawn_failed("there is none", reason="program"))
    assert execution.handle.stopped and news == [execution.handle] * is_held


async def test_start_callbacks_run_once_and_in_order(
    autojump_clock: MockClock,
) -> None:
    execution = use_of_a_tool()
    done: list[int] = []
    for number in range(3):
        execution.when_begun(lambda number=number: done.append(number))  # type: ignore[misc]
    assert done == []
    execution.started(cast(Any, Shows()))
    execution.begin()
    execution.when_begun(lambda: done.append(3))
    assert done == [0, 1, 2, 3]


async def test_of_two_write_reports_the_later_input_counts(
    autojump_clock: MockClock,
) -> None:
    execution = use_of_a_tool()
    execution.started(cast(Any, Shows()))
    execution.written(3)
    execution.written(2)
    assert execution.written_to == 3


def test_an_ended_execution_releases_its_control() -> None:
    """The control refers to the execution: the cycle would be freed by the garbage collector
    only."""
    execution, control = use_of_a_tool(), Shows()
    execution.control = cast(Any, control)
    gone = weakref.ref(control)
    del control
    assert gone() is not None
    execution.finish()
    assert gone() is None and execution.done.is_set()


async def test_a_suspended_program_is_inspected_ten_times_a_second_and_after_each_input(
    autojump_clock: MockClock,
) -> None:
    looks: list[float] = []

    def look() -> bool:
        looks.append(trio.current_time())
        return len(looks) == 1

    execution = use_of_a_tool()
    execution.control = SimpleNamespace(is_suspended=look, write=lambda item: 1)
    assert [execution.check_suspended(trio.current_time()) for _ in range(50)] == [
        True
    ] * 50 and len(looks) == 1
    execution.write(Input("signal", "CONT"))
    assert not execution.check_suspended(trio.current_time()) and len(looks) == 2
    await trio.sleep(0.2)
    assert not execution.check_suspended(trio.current_time()) and len(looks) == 3


# -- the pipes that read its output


async def test_a_program_that_is_held_up_goes_on_when_half_of_the_backlog_is_copied(
    nursery: trio.Nursery,
) -> None:
    execution, backlog = use_of_a_tool(), MAX_BACKLOG
    execution.add_backlog(lambda: backlog)
    assert execution.keep_up() is None
    backlog += 1
    held = execution.keep_up()
    assert held is not None
    went_on: list[int] = []

    async def hold() -> None:
        await held
        went_on.append(backlog)

    nursery.start_soon(hold)
    for size in (MAX_BACKLOG, MAX_BACKLOG // 2 + 1, MAX_BACKLOG // 2):
        backlog = size
        execution.backlog_changed()
        await wait_all_tasks_blocked()
    assert went_on == [MAX_BACKLOG // 2]


async def test_the_slowest_of_several_readers_holds_a_program_up_until_it_leaves(
    nursery: trio.Nursery,
) -> None:
    execution = use_of_a_tool()
    sizes = {"slow": MAX_BACKLOG + 2, "slower": MAX_BACKLOG + 3, "quick": 0}
    readers = {name: partial(sizes.__getitem__, name) for name in sizes}
    for reader in readers.values():
        execution.add_backlog(reader)
    went_on = trio.Event()

    async def hold() -> None:
        held = execution.keep_up()
        assert held is not None
        await held
        went_on.set()

    nursery.start_soon(hold)
    await wait_all_tasks_blocked()
    for name in ("quick", "slower", "slow"):
        assert not went_on.is_set()
        execution.remove_backlog(readers[name])
        await wait_all_tasks_blocked()
    assert went_on.is_set()
