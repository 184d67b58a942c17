"""Waits for handles on a simulated clock."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from math import inf
from typing import Any, cast

import pytest
import trio
import trio.testing

from haftd.host import timer
from haftd.methods import wait as wait_module
from haftd.methods.base import HandleWait, then
from haftd.methods.wait import RegisteredWait, _waits, finish_due, register


class Bell:
    """A handle that changes when `ring` is called."""

    def __init__(self) -> None:
        self.listeners: list[Callable[[], object]] = []
        self.listen_for_reply = self.listeners.append
        self.unlisten_for_reply = self.listeners.remove
        self.rings_itself = False

    def ring(self) -> None:
        for listener in tuple(self.listeners):
            listener()


def wait_at(
    bell: Bell,
    holds: Callable[[], object],
    outcomes: list[object],
    deadline_s: float = 200.0,
    look_again: Callable[[], float] | None = None,
    **more: Any,
) -> RegisteredWait:
    """Register a wait that appends its value, or its exception, to `found`."""

    def on_due(go_on: Callable[[], object]) -> None:
        try:
            outcomes.append(go_on())
        except ZeroDivisionError as fault:
            outcomes.append(fault)

    deadline = trio.current_time() + deadline_s
    handles = (cast(Any, bell),)
    return register(
        HandleWait(handles, holds, lambda value: value, deadline, look_again), on_due, **more
    )


def test_a_wait_is_finished_once_and_after_the_change() -> None:
    async def main() -> tuple[list[object], list[object], int]:
        bell, outcomes, values = Bell(), list[object](), list[object]()

        def holds() -> object:
            if values and not bell.rings_itself:
                bell.rings_itself = True
                bell.ring()  # the evaluation itself changes the handle
            return values[0] if values else None

        wait_at(bell, holds, outcomes)
        bell.ring()
        await trio.testing.wait_all_tasks_blocked()
        values.append("output")
        bell.ring()
        bell.ring()
        at_once = list(outcomes)
        await trio.testing.wait_all_tasks_blocked()
        return at_once, outcomes, len(bell.listeners)

    assert trio.run(main) == ([], ["output"], 0)


def test_due_waits_can_be_finished_at_once_and_are_finished_once() -> None:
    async def main() -> tuple[list[object], list[object]]:
        bell, outcomes, values = Bell(), list[object](), list[object]()
        wait_at(bell, lambda: values[0] if values else None, outcomes)
        finish_due()
        values.append("ended")
        bell.ring()
        finish_due()
        at_once = list(outcomes)
        await trio.testing.wait_all_tasks_blocked()
        return at_once, outcomes

    assert trio.run(main) == (["ended"], ["ended"])


def test_finishing_at_once_leaves_what_is_under_way_to_itself() -> None:
    async def main() -> list[object]:
        bell, outcomes = Bell(), list[object]()

        def then(_: object) -> object:
            finish_due()  # another wait is due
            outcomes.append("first")
            return "its result"

        register(
            HandleWait((cast(Any, bell),), lambda: True, then, trio.current_time() + 1),
            lambda go_on: outcomes.append(go_on()),
        )
        wait_at(bell, lambda: "second", outcomes)
        finish_due()
        return outcomes

    assert trio.run(main) == ["first", "its result", "second"]


def test_a_wait_whose_condition_holds_already_is_finished_in_a_later_step() -> None:
    async def main() -> tuple[list[object], list[object]]:
        outcomes = list[object]()
        wait_at(Bell(), lambda: "now", outcomes)
        at_once = list(outcomes)
        await trio.testing.wait_all_tasks_blocked()
        return at_once, outcomes

    assert trio.run(main) == ([], ["now"])


def test_a_wait_ends_at_its_deadline_and_leaves_none_behind() -> None:
    async def main() -> tuple[list[object], float]:
        bell, outcomes, values = Bell(), list[object](), list[object]()
        wait_at(bell, lambda: None, outcomes, 3)
        wait_at(bell, lambda: values[0] if values else None, outcomes, 2)
        await trio.sleep(1)
        values.append("first")
        bell.ring()
        await trio.sleep(1.5)
        before = list(outcomes)
        await trio.sleep(1)
        assert before == ["first"]
        return outcomes, _waits.get()._scope.deadline

    outcomes, deadline = trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    assert outcomes == ["first", None]
    assert deadline == inf, "an idle daemon is not woken"


@pytest.mark.parametrize("others", [0, 3])
def test_a_wait_is_evaluated_again_at_its_time_without_a_timer(
    others: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timer, "call_in", lambda *_: False)

    async def main() -> float:
        bell, outcomes = Bell(), list[object]()
        due, began = [5.0], trio.current_time()

        def holds() -> float | None:
            after = trio.current_time() - began
            if after >= 5.0:
                due[0] = 7.0  # the time has moved: the first evaluation is early
            return after if after >= 7.0 else None

        for number in range(others):
            wait_at(Bell(), lambda: None, [], 4.9999 + number)
        wait_at(bell, holds, outcomes, look_again=lambda: began + due[0])
        await trio.sleep(20)
        (after,) = cast("list[float]", outcomes)
        return after

    after = trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    assert 7.0 <= after < 7.1


def test_a_change_brings_the_next_look_forward() -> None:
    """A program had long been inspected in vain; soon after its output comes another look."""

    async def main() -> tuple[list[object], list[Any]]:
        bell, due, outcomes = Bell(), [100.0], list[object]()
        began = trio.current_time()

        def holds() -> float | None:
            after = trio.current_time() - began
            return after if after >= due[0] else None

        wait_at(bell, holds, outcomes, look_again=lambda: began + due[0])
        await trio.sleep(10)
        due[0] = 11.0
        bell.ring()
        await trio.sleep(2)
        return outcomes, bell.listeners

    (after,), listeners = trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    assert 11.0 <= cast(float, after) < 11.1
    assert not listeners


def test_times_closer_than_the_loop_tells_apart_are_all_kept() -> None:
    """One timer of the kernel has them all."""

    async def main() -> list[str]:
        began, outcomes = trio.current_time(), list[object]()

        def wait(name: str, after_s: float) -> None:
            when = began + after_s
            holds = lambda: name if trio.current_time() >= when else None  # noqa: E731
            wait_at(Bell(), holds, outcomes, look_again=lambda: when)

        wait("last", 0.0009)
        wait("first", 0.0002)
        wait("second", 0.0005)
        with trio.move_on_after(5):
            while len(outcomes) < 3:
                await trio.lowlevel.checkpoint()
        return cast("list[str]", outcomes)

    assert sorted(trio.run(main)) == ["first", "last", "second"]


def test_a_fault_of_a_condition_is_the_calls_own() -> None:
    async def main() -> list[object]:
        bell, outcomes, is_rung = Bell(), list[object](), list[bool]()
        wait_at(bell, lambda: 1 / 0 if is_rung else None, outcomes)
        wait_at(bell, lambda: "other" if is_rung else None, outcomes)
        wait_at(bell, lambda: None, outcomes, look_again=lambda: 1 / 0)
        is_rung.append(True)
        bell.ring()
        await trio.testing.wait_all_tasks_blocked()
        return outcomes

    outcomes = trio.run(main)
    assert sum(isinstance(fault, ZeroDivisionError) for fault in outcomes) == 2
    assert outcomes.count("other") == 1


def test_a_withdrawn_wait_is_never_finished() -> None:
    async def main() -> tuple[list[object], bool, bool, int]:
        bell, outcomes, is_rung = Bell(), list[object](), list[bool]()
        first, second = (
            wait_at(bell, lambda: is_rung[0] if is_rung else None, outcomes) for _ in "ab"
        )
        is_withdrawn = first.withdraw() and not first.withdraw()
        is_rung.append(True)
        first.evaluate()  # as by a handle that was already calling its listeners
        bell.ring()
        is_too_late = not second.withdraw()
        await trio.testing.wait_all_tasks_blocked()
        return outcomes, is_withdrawn, is_too_late, len(bell.listeners)

    assert trio.run(main) == ([True], True, True, 0)


def test_ended_waits_take_no_memory_until_their_deadlines() -> None:
    async def main() -> int:
        bell, outcomes = Bell(), list[object]()
        wait_at(bell, lambda: None, outcomes, 1)
        for _ in range(2000):
            wait_at(bell, lambda: None, outcomes, 1000).withdraw()
        return len(_waits.get()._times)

    assert trio.run(main) < 500


def test_many_settled_waits_leave_other_tasks_their_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wait_module, "_TURN_S", 0)

    async def main() -> list[int]:
        bell, outcomes, turns, is_rung = Bell(), list[object](), list[int](), list[bool]()
        for _ in range(10):
            wait_at(bell, lambda: True if is_rung else None, outcomes)
        is_rung.append(True)
        bell.ring()
        while len(outcomes) < 10:
            await trio.lowlevel.checkpoint()
            turns.append(len(outcomes))
        return turns

    turns = trio.run(main)
    # Trio runs the tasks of a pass in any order.
    assert max(after - before for before, after in pairwise(turns)) <= 2


def test_a_wait_that_goes_on_is_finished_in_its_batch_by_the_conditions_of_batches() -> None:
    async def main() -> tuple[list[object], list[object]]:
        alone, batched = list[object](), list[object]()
        wait = HandleWait(
            (cast(Any, Bell()),), lambda: "alone", str, holds_in_batch=lambda: "in a batch"
        )
        for outcomes, is_in_batch in ((alone, False), (batched, True)):
            register(
                wait,
                lambda go_on, outcomes=outcomes: outcomes.append(go_on()),  # type: ignore[misc]
                in_batch=is_in_batch,
            )
        await trio.testing.wait_all_tasks_blocked()
        return alone, batched

    assert trio.run(main) == (["alone"], ["in a batch"])


def test_a_reply_goes_on_with_the_result_of_its_last_wait() -> None:
    last = HandleWait((), lambda: 2, lambda value: f"last {value}")
    first = HandleWait((), lambda: 1, lambda _: last)
    reply = then(first, lambda result: f"{result} and on")
    assert isinstance(reply, HandleWait)
    reply = reply.then(reply.holds())
    assert isinstance(reply, HandleWait)
    assert reply.then(reply.holds()) == "last 2 and on"
    assert then("now", lambda result: f"{result} and on") == "now and on"
